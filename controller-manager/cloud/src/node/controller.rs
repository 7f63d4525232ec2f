//! Runs the cloud node controller: when a Node is new, and for every Node once in a period.
//!
//! Corresponds to Run in k8s.io/cloud-provider/controllers/node/node_controller.go.

use super::addresses;
use super::plan::{Observed, is_uninitialized, plan};
use crate::cloud_nodes::{cloud_of, machine_name};
use client::reconcile::Reconciler;
use client::{Client, Event, Lister, Plan, ReconcileError};
use component_base::env::Env;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use simulated_cloud::cloud_client::CloudClient;
use simulated_cloud::model::Machine;
use std::sync::Arc;
use std::time::Duration;

struct Controller {
    nodes: Lister<Node>,
    cloud: CloudClient,
}

/// What the caches tell, and then what the cloud has told too.
pub struct Asked {
    node: Arc<Node>,
    answer: Option<Observed>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Node>, queue| {
        if !matches!(event, Event::Deleted(_)) && is_uninitialized(event.object()) {
            queue.add(event.object().key());
        }
    });
    let controller = Controller { nodes: setup.lister(), cloud: cloud_of(setup) };
    let options = setup.settings.cloud.as_ref().map(|access| access.options.clone());
    let (workers, period) = options.map_or((1, Duration::from_secs(300)), |options| {
        (options.concurrent_node_syncs, options.node_status_update_frequency)
    });
    let nodes = setup.lister::<Node>();
    let add = {
        let queue = queue.clone();
        move || nodes.list().iter().for_each(|node| queue.add(node.key()))
    };
    let every = once_in(setup.env.clone(), period, add);
    let reconcile = setup.run(queue, workers.max(1), controller);
    Box::pin(async move {
        tokio::join!(every, reconcile);
    })
}

/// Does something now and then once in a period, until shutdown.
async fn once_in(env: Env, period: Duration, act: impl Fn()) {
    loop {
        act();
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = env.sleep(period) => {}
        }
    }
}

impl Reconciler for Controller {
    type Observed = Asked;

    fn observe(&self, key: &str) -> Option<Asked> {
        let node = self.nodes.by_key(key).filter(|node| !node.is_deleting())?;
        Some(Asked { node, answer: None })
    }

    async fn consult(&self, _client: &Client, asked: Asked) -> Result<Option<Asked>, ReconcileError> {
        let node = &asked.node;
        let Some(name) = machine_name(node) else { return Ok(None) };
        let failed = |why: String| {
            ReconcileError::new(format!("failed to get instance metadata for node {}: {why}", node.name()))
        };
        let machine: Option<Machine> = self.cloud.machine(name).await.map_err(|problem| failed(problem.to_string()))?;
        let machine = match machine {
            Some(machine) => machine,
            None if is_uninitialized(node) => return Err(failed("instance not found".to_owned())),
            // The lifecycle controller deletes the Node of a machine that has gone.
            None => return Ok(None),
        };
        let addresses = addresses::wanted(node, &machine).map_err(ReconcileError::new)?;
        let answer = Some(Observed { node: node.clone(), machine, addresses });
        Ok(Some(Asked { answer, ..asked }))
    }

    fn plan(&self, asked: &Asked, _now: Timestamp) -> Plan {
        asked.answer.as_ref().map(plan).unwrap_or_default()
    }
}
