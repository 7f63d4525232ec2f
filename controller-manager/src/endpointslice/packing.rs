//! Distributes endpoints over slices with few writes: slices keep their endpoints, and then are filled.
//!
//! Corresponds to reconcileByPortMapping in k8s.io/endpointslice/reconciler.go.

use super::desired::{Identity, identity};
use proto::kinds::api::discovery::v1::Endpoint;
use std::collections::BTreeMap;

/// The endpoints of each slice.
#[derive(Debug, Default, PartialEq)]
pub struct Packing {
    /// Endpoints of each existing slice: `None` if it stays unchanged. An empty slice is to be deleted.
    pub existing: Vec<Option<Vec<Endpoint>>>,
    /// Endpoints of the slices to create.
    pub new: Vec<Vec<Endpoint>>,
}

/// Distributes the desired endpoints of one group over its `existing` slices and new ones, in three steps:
/// 1. remove unwanted endpoints from their slice, and replace changed ones;
/// 2. add new endpoints to slices that are written anyway, the fullest first;
/// 3. add the rest to the fullest unchanged slice that has room for all of it, or else to new slices.
///
/// Slices are never merged, because every write of a slice is sent to every node.
pub fn pack(existing: &[&[Endpoint]], mut desired: BTreeMap<Identity, Endpoint>, max_per_slice: usize) -> Packing {
    let mut packing = Packing::default();
    for endpoints in existing {
        packing.existing.push(keep_wanted(endpoints, &mut desired));
    }
    let mut waiting: Vec<Endpoint> = desired.into_values().collect();
    waiting.reverse(); // so that taking from the end keeps the order
    fill_written(&mut packing.existing, &mut waiting, max_per_slice);
    while !waiting.is_empty() {
        let with_room = if waiting.len() < max_per_slice {
            fullest_unchanged(existing, &packing, waiting.len(), max_per_slice)
        } else {
            None
        };
        let take = waiting.len().min(max_per_slice);
        let taken = waiting.split_off(waiting.len() - take).into_iter().rev();
        match with_room {
            Some(i) => packing.existing[i] = Some(existing[i].iter().cloned().chain(taken).collect()),
            None => packing.new.push(taken.collect()),
        }
    }
    packing
}

/// Returns the wanted endpoints of a slice in their desired state; `None` if nothing changes. Removes them from
/// `desired`.
fn keep_wanted(endpoints: &[Endpoint], desired: &mut BTreeMap<Identity, Endpoint>) -> Option<Vec<Endpoint>> {
    let kept: Vec<Endpoint> = endpoints.iter().filter_map(|endpoint| desired.remove(&identity(endpoint))).collect();
    (kept != endpoints).then_some(kept)
}

/// Adds waiting endpoints to slices that are written anyway. Empty slices stay empty: they are deleted or reused.
fn fill_written(slices: &mut [Option<Vec<Endpoint>>], waiting: &mut Vec<Endpoint>, max_per_slice: usize) {
    let mut written: Vec<&mut Vec<Endpoint>> = slices.iter_mut().flatten().filter(|slice| !slice.is_empty()).collect();
    written.sort_by_key(|endpoints| std::cmp::Reverse(endpoints.len()));
    for slice in written {
        let room = max_per_slice.saturating_sub(slice.len()).min(waiting.len());
        slice.extend(waiting.drain(waiting.len() - room..).rev());
    }
}

/// Returns the index of the fullest unchanged slice that has room for `count` more endpoints.
fn fullest_unchanged(existing: &[&[Endpoint]], packing: &Packing, count: usize, max_per_slice: usize) -> Option<usize> {
    let unchanged = (0..existing.len()).filter(|&i| packing.existing[i].is_none());
    unchanged
        .filter(|&i| existing[i].len() + count <= max_per_slice)
        .max_by_key(|&i| (existing[i].len(), std::cmp::Reverse(i)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::kinds::api::discovery::v1::EndpointConditions;

    fn endpoint(i: usize, ready: bool) -> Endpoint {
        let conditions = EndpointConditions { ready: Some(ready), ..EndpointConditions::default() };
        Endpoint {
            addresses: vec![format!("10.0.{:03}.{:03}", i / 256, i % 256)],
            conditions: Some(conditions),
            ..Endpoint::default()
        }
    }

    fn endpoints(range: std::ops::Range<usize>) -> Vec<Endpoint> {
        range.map(|i| endpoint(i, true)).collect()
    }

    fn desired(endpoints: Vec<Endpoint>) -> BTreeMap<Identity, Endpoint> {
        endpoints.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect()
    }

    /// Shows `keep` for an unchanged slice, or its new size, and then the sizes of new slices.
    fn sizes(packing: &Packing) -> String {
        let existing = packing
            .existing
            .iter()
            .map(|slice| slice.as_ref().map_or("keep".to_owned(), |slice| slice.len().to_string()));
        let new = packing.new.iter().map(|slice| format!("+{}", slice.len()));
        existing.chain(new).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn slices_are_written_as_little_as_possible() {
        let cases: Vec<(&str, Vec<Vec<Endpoint>>, Vec<Endpoint>, &str)> = vec![
            ("nothing", vec![], vec![], ""),
            ("the first", vec![], endpoints(0..1), "+1"),
            ("exactly full", vec![], endpoints(0..100), "+100"),
            ("one more than full", vec![], endpoints(0..101), "+100 +1"),
            ("many", vec![], endpoints(0..250), "+100 +100 +50"),
            ("as it is", vec![endpoints(0..50)], endpoints(0..50), "keep"),
            ("a few more fit", vec![endpoints(0..50)], endpoints(0..60), "60"),
            ("more do not fit", vec![endpoints(0..50)], endpoints(0..110), "keep +60"),
            (
                "the fullest that has room",
                vec![endpoints(0..10), endpoints(10..50), endpoints(50..145)],
                endpoints(0..155),
                "keep 50 keep",
            ),
            ("all removed", vec![endpoints(0..50)], vec![], "0"),
            ("some removed", vec![endpoints(0..50), endpoints(50..70)], endpoints(10..70), "40 keep"),
            ("holes are filled first", vec![endpoints(0..100), endpoints(100..130)], endpoints(10..140), "100 keep"),
            (
                "no merging",
                vec![endpoints(0..100), endpoints(100..200)],
                [endpoints(0..5), endpoints(100..105)].concat(),
                "5 5",
            ),
            ("replaced in place", vec![endpoints(0..3)], endpoints(1..4), "3"),
            ("emptied and replaced", vec![endpoints(0..3)], endpoints(5..8), "0 +3"),
            (
                "the fullest is filled first",
                vec![endpoints(0..10), endpoints(10..60), endpoints(60..160)],
                [endpoints(1..10), endpoints(11..59), endpoints(60..160), endpoints(160..215)].concat(),
                "12 100 keep",
            ),
        ];
        for (what, existing, wanted, expected) in cases {
            let existing: Vec<&[Endpoint]> = existing.iter().map(Vec::as_slice).collect();
            let packing = pack(&existing, desired(wanted.clone()), 100);
            assert_eq!(sizes(&packing), expected, "{what}");
            let mut held: Vec<Endpoint> = packing.new.concat();
            for (before, after) in existing.iter().zip(&packing.existing) {
                held.extend(after.clone().unwrap_or_else(|| before.to_vec()));
            }
            assert_eq!(desired(held), desired(wanted), "{what}: every endpoint has one place");
        }
    }

    #[test]
    fn a_change_of_state_stays_in_its_slice() {
        let existing = endpoints(0..3);
        let mut wanted = endpoints(0..3);
        wanted[1] = endpoint(1, false);
        let packing = pack(&[&existing], desired(wanted.clone()), 100);
        assert_eq!(packing.existing, [Some(wanted)]);
    }
}
