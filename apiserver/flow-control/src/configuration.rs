//! `Configuration`: the FlowSchemas in the order in which they are matched, and their priority levels with their seats.
//!
//! It is compiled again whenever an object changes; existing levels keep their queues. Corresponds to the digestion of
//! objects in k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go.

use super::flow_schema::FlowSchema;
use super::level::Level;
use super::priority_level::{LevelSpec, bounds_of};
use crate::metrics::{FlowMeters, FlowMetrics};
use http::HeaderValue;
use request::UserInfo;
use request::info::RequestInfo;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strategy::validation::flow_schemas;

const CATCH_ALL: &str = "catch-all";

/// A FlowSchema with its priority level.
#[derive(Debug)]
pub struct Flow {
    pub schema: FlowSchema,
    pub level: Arc<Level>,
    pub meters: FlowMeters,
    /// The uids of the schema and of its level, for the response headers. Default objects that are not stored have none.
    pub uids: (Option<HeaderValue>, Option<HeaderValue>),
}

#[derive(Debug, Default)]
pub struct Configuration {
    /// Sorted by precedence and name. Schemas whose level does not exist are left out.
    flows: Vec<Arc<Flow>>,
    pub levels: BTreeMap<String, Arc<Level>>,
}

impl Configuration {
    /// Compiles the stored objects and the mandatory ones. Levels of `known` keep their requests.
    pub fn of(
        known: &Self,
        schemas: &[Value],
        levels: &[Value],
        server_seats: usize,
        now: Duration,
        metrics: &FlowMetrics,
    ) -> Self {
        let named = |objects: &[Value], resource: &str| {
            let mut by_name: BTreeMap<String, Value> =
                flow_schemas::mandatory_objects(resource).map(|object| (name_of(object), object.clone())).collect();
            by_name.extend(objects.iter().map(|object| (name_of(object), object.clone())));
            by_name
        };
        let objects = named(levels, "prioritylevelconfigurations");
        let specs: Vec<LevelSpec> = objects.values().map(LevelSpec::of).collect();
        let bounds = bounds_of(&specs, server_seats);
        let mut of_names = BTreeMap::new();
        for ((name, spec), bounds) in objects.keys().zip(specs).zip(bounds) {
            let level = match known.levels.get(name) {
                Some(level) => {
                    level.configure(now, spec.discipline, bounds);
                    level.clone()
                }
                None => Arc::new(Level::new(name, spec.discipline, bounds, metrics)),
            };
            of_names.insert(name.clone(), level);
        }
        let mut flows: Vec<Arc<Flow>> = named(schemas, "flowschemas")
            .values()
            .filter_map(|object| {
                let schema = FlowSchema::of(object);
                let level = of_names.get(&schema.level)?.clone();
                let of_level = objects[&schema.level]["metadata"]["uid"].as_str().and_then(header);
                let uids = (header(&schema.uid), of_level);
                Some(Arc::new(Flow { meters: metrics.flow(&schema.level, &schema.name), uids, level, schema }))
            })
            .collect();
        flows.sort_by(|a, b| (a.schema.precedence, &a.schema.name).cmp(&(b.schema.precedence, &b.schema.name)));
        Self { flows, levels: of_names }
    }

    /// Returns the first schema that matches a request.
    pub fn classify(&self, info: &RequestInfo, user: &UserInfo) -> &Arc<Flow> {
        let found = self.flows.iter().find(|flow| flow.schema.matches(info, user));
        let catch_all = || self.flows.iter().find(|flow| flow.schema.name == CATCH_ALL);
        found.or_else(catch_all).expect("the schema that catches all is always there")
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn header(uid: &str) -> Option<HeaderValue> {
    if uid.is_empty() { None } else { HeaderValue::from_str(uid).ok() }
}
