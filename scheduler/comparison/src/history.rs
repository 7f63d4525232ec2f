//! `Change`, one step of a cluster's history.

use crate::draw::{node, pod};
use proptest::prelude::*;
use serde_json::Value;
use std::fmt;

#[derive(Clone, Debug)]
pub enum Change {
    SetNode(u8, Value),
    RemoveNode(u8),
    Place {
        pod: u8,
        node: u8,
        value: Value,
    },
    RemovePod(u8),
    SetTeam(bool),
    Schedule(Value),
    /// Schedules a pod of the shape of one of the last pods, for which something was kept.
    Again(usize),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetNode(number, value) => write!(f, "node n{number}: {value}"),
            Self::RemoveNode(number) => write!(f, "node n{number} goes"),
            Self::Place { pod, node, value } => write!(f, "pod p{pod} on n{node}: {value}"),
            Self::RemovePod(number) => write!(f, "pod p{number} goes"),
            Self::SetTeam(is_blue) => write!(f, "namespace y is {}", if *is_blue { "blue" } else { "red" }),
            Self::Schedule(value) => write!(f, "schedule {value}"),
            Self::Again(back) => write!(f, "schedule the pod before again, {back} back"),
        }
    }
}

pub fn history() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        4 => (0..5_u8, node()).prop_map(|(number, value)| Change::SetNode(number, value)),
        1 => (0..5_u8).prop_map(Change::RemoveNode),
        6 => (0..12_u8, 0..5_u8, pod()).prop_map(|(pod, node, value)| Change::Place { pod, node, value }),
        1 => (0..12_u8).prop_map(Change::RemovePod),
        1 => prop::bool::ANY.prop_map(Change::SetTeam),
        6 => pod().prop_map(Change::Schedule),
        6 => (1..4_usize).prop_map(Change::Again),
    ];
    prop::collection::vec(change, 0..40)
}
