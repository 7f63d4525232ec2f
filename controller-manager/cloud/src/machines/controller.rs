//! Runs the simulated-machine controller: asks the cloud for its machines every second.

use super::plan::{NAME, NAMESPACE, Observed, changes};
use crate::cloud_nodes::{cloud_of, machine_name};
use client::reconcile::PeriodicReconciler;
use client::{Action, Lister, Patch, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::kinds::api::core::v1::{ConfigMap, Node};
use serde_json::json;
use simulated_cloud::cloud_client::CloudClient;
use std::sync::Arc;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(1);

struct Controller {
    nodes: Lister<Node>,
    maps: Lister<ConfigMap>,
    cloud: CloudClient,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let controller = Controller { nodes: setup.lister(), maps: setup.lister(), cloud: cloud_of(setup) };
    setup.run_periodically("simulated-machine", PERIOD, controller)
}

/// The ConfigMap if there is one, and what the cloud and the caches tell; `None` if the cloud does not answer.
type Seen = Option<(Option<Arc<ConfigMap>>, Observed)>;

impl PeriodicReconciler for Controller {
    type Observed = Seen;

    async fn observe(&mut self, _now: Timestamp) -> Seen {
        let machines = self.cloud.machines().await;
        let machines = machines.inspect_err(|problem| tracing::warn!(%problem, "the cloud does not list its machines"));
        let machines = machines.ok()?;
        let map = self.maps.get(NAMESPACE, NAME);
        let data = map.as_ref().and_then(|map| map.data.clone()).unwrap_or_default();
        let nodes = self.nodes.list().iter().filter_map(|node| machine_name(node).map(str::to_owned)).collect();
        Some((map, Observed { machines, data, nodes }))
    }

    fn plan(&mut self, seen: &Seen, _now: Timestamp) -> Vec<Plan> {
        let Some((map, observed)) = seen else { return Vec::new() };
        let changes = changes(observed);
        if changes.is_empty() {
            return Vec::new();
        }
        let action = match map {
            Some(_) => Action::patch::<ConfigMap>(NAMESPACE, NAME, Patch::Merge(json!({"data": changes}))),
            None => {
                let mut map = ConfigMap::default();
                map.metadata.name = Some(NAME.to_owned());
                map.metadata.namespace = Some(NAMESPACE.to_owned());
                map.data = Some(changes.into_iter().filter_map(|(key, value)| Some((key, value?))).collect());
                Action::create(&map)
            }
        };
        vec![Plan::of([action])]
    }
}
