//! flowcontrol.apiserver.k8s.io: the sharing of the server between requests.
//!
//! Corresponds to pkg/registry/flowcontrol/rest.

use super::columns::read::{int_at, str_at};
use super::columns::{age, name, read, string, text};
use super::row::Group;
use super::{Column, Resource};
use crate::meta::condition;
use serde_json::{Value, json};

const FLOWCONTROL: Group =
    Group { name: "flowcontrol.apiserver.k8s.io", version: "v1", package: "io.k8s.api.flowcontrol.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        FLOWCONTROL
            .cluster("flowschemas", "FlowSchema")
            .followed_by_server()
            .status()
            .columns(flow_schema_columns())
            // The order in which the server matches requests.
            .row_order(|o| (int_at(o, "/spec/matchingPrecedence"), str_at(o, "/metadata/name").to_owned())),
        FLOWCONTROL
            .cluster("prioritylevelconfigurations", "PriorityLevelConfiguration")
            .followed_by_server()
            .status()
            .columns(priority_level_columns()),
    ]
}

fn flow_schema_columns() -> Vec<Column> {
    vec![
        name(),
        text("PriorityLevel", "Where its requests go.", "/spec/priorityLevelConfiguration/name"),
        string("MatchingPrecedence", "The lower, the earlier it is tried.", |o, _| {
            read::number(o, "/spec/matchingPrecedence")
        }),
        text("DistinguisherMethod", "What tells one flow from another.", "/spec/distinguisherMethod/type").or("<none>"),
        age(),
        string("MissingPL", "Whether its priority level is missing.", |o, _| {
            condition::find_value(o, "Dangling").map_or(json!("?"), |dangling| read::text(dangling, "/status"))
        }),
    ]
}

fn priority_level_columns() -> Vec<Column> {
    fn limit(level: &Value, pointer: &str) -> Value {
        level.pointer(pointer).cloned().unwrap_or(json!("<none>"))
    }
    vec![
        name(),
        text("Type", "Whether requests wait their turn.", "/spec/type"),
        string("NominalConcurrencyShares", "Its share of the server.", |o, _| {
            limit(o, "/spec/limited/nominalConcurrencyShares")
        }),
        string("Queues", "How many queues it has.", |o, _| limit(o, "/spec/limited/limitResponse/queuing/queues")),
        string("HandSize", "How many queues each flow may use.", |o, _| {
            limit(o, "/spec/limited/limitResponse/queuing/handSize")
        }),
        string("QueueLengthLimit", "How long a queue may get.", |o, _| {
            limit(o, "/spec/limited/limitResponse/queuing/queueLengthLimit")
        }),
        age(),
    ]
}
