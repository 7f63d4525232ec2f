//! Scores nodes by how full the storage gets that a pod's claims would use there.
//!
//! Behind the gate StorageCapacityScoring. Corresponds to scorer.go and Score of
//! pkg/scheduler/framework/plugins/volumebinding.

use super::node_volumes::NodeVolumes;
use component_helpers::volumes::{claims, persistent_volumes};
use scheduling_framework::MAX_NODE_SCORE;
use scheduling_framework::configuration::args::function_shape::{FunctionShape, MAX_CUSTOM_SCORE, MAX_UTILIZATION};
use std::collections::BTreeMap;

/// Bytes of the storage of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Room {
    requested: i64,
    capacity: i64,
}

/// Returns the score of a node, from 0 to 100: the mean of its storage classes. Without anything to score it is zero.
pub fn score(shape: &FunctionShape, found: &NodeVolumes) -> i64 {
    let rooms = rooms(found);
    if rooms.is_empty() {
        return 0;
    }
    let sum: i64 = rooms.values().map(|room| of_room(shape, *room)).sum();
    (sum as f64 / rooms.len() as f64).round() as i64
}

fn of_room(shape: &FunctionShape, room: Room) -> i64 {
    let utilization = match room.capacity {
        0 => MAX_UTILIZATION,
        capacity if room.requested > capacity => MAX_UTILIZATION,
        capacity => (i128::from(room.requested) * i128::from(MAX_UTILIZATION) / i128::from(capacity)) as i64,
    };
    shape.at(utilization, MAX_NODE_SCORE / MAX_CUSTOM_SCORE)
}

/// Adds up the volumes that are there by class. If there are none, what is to be made counts.
fn rooms(found: &NodeVolumes) -> BTreeMap<&str, Room> {
    let mut rooms: BTreeMap<&str, Room> = BTreeMap::new();
    for (volume, claim) in &found.bindings {
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default();
        let room = rooms.entry(class).or_default();
        room.requested = room.requested.saturating_add(claims::requested(claim).value());
        room.capacity = room.capacity.saturating_add(persistent_volumes::capacity(volume).value());
    }
    if !found.bindings.is_empty() {
        return rooms;
    }
    for made in &found.room {
        let room = rooms.entry(&made.class).or_default();
        room.requested = room.requested.saturating_add(made.requested_bytes);
        // Two claims of a class share its storage.
        room.capacity = made.capacity_bytes;
    }
    rooms
}

#[cfg(test)]
mod tests {
    use super::super::node_volumes::Room as Made;
    use super::*;
    use proto::Kind;
    use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
    use scheduling_framework::configuration::args::function_shape::ShapePoint;
    use serde_json::json;
    use std::sync::Arc;

    fn shape(at_empty: i64, at_full: i64) -> FunctionShape {
        FunctionShape(vec![
            ShapePoint { utilization: 0, score: at_empty },
            ShapePoint { utilization: 100, score: at_full },
        ])
    }

    fn binding(class: &str, requested: &str, capacity: &str) -> (Arc<PersistentVolume>, Arc<PersistentVolumeClaim>) {
        let spec = json!({"storageClassName": class, "resources": {"requests": {"storage": requested}}});
        let claim = PersistentVolumeClaim::decode_value(json!({"metadata": {"name": "c"}, "spec": spec})).unwrap();
        let spec = json!({"capacity": {"storage": capacity}});
        let volume = PersistentVolume::decode_value(json!({"metadata": {"name": "v"}, "spec": spec})).unwrap();
        (Arc::new(volume), Arc::new(claim))
    }

    fn made(class: &str, requested_gib: i64, capacity_gib: i64) -> Made {
        Made { class: class.to_owned(), requested_bytes: requested_gib << 30, capacity_bytes: capacity_gib << 30 }
    }

    /// The numbers are those of the documentation's example: half a volume is half of the points.
    #[test]
    fn volumes_and_storage_are_scored_by_their_use() {
        let table = [
            (vec![], vec![], 0, 0),
            (vec![binding("a", "5Gi", "10Gi")], vec![], 50, 50),
            (vec![binding("a", "10Gi", "100Gi"), binding("a", "40Gi", "100Gi")], vec![], 25, 75),
            (vec![binding("a", "10Gi", "100Gi"), binding("b", "40Gi", "100Gi")], vec![], 25, 75),
            (vec![binding("a", "10Gi", "0")], vec![], 100, 0),
            (vec![], vec![made("a", 30, 100)], 30, 70),
            (vec![], vec![made("a", 30, 100), made("a", 30, 100)], 60, 40),
            (vec![], vec![made("a", 10, 100), made("b", 35, 100)], 23, 78),
            // A volume that is there hides what is to be made.
            (vec![binding("a", "5Gi", "10Gi")], vec![made("b", 100, 100)], 50, 50),
        ];
        for (bindings, room, fuller_is_better, emptier_is_better) in table {
            let found = NodeVolumes { bindings, room, ..NodeVolumes::default() };
            let scores = [score(&shape(0, 10), &found), score(&shape(10, 0), &found)];
            assert_eq!(scores, [fuller_is_better, emptier_is_better], "{found:?}");
        }
    }
}
