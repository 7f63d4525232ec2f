//! `World`: what a trial is played on, a whole control plane or a model of it.

use super::node_groups::Orders;
use super::pod_state::PodState;
use experiments::workload::Deployment;
use modelled_api::answered::Requests;
use serde_json::Value;

/// A change of one object.
#[derive(Clone, Debug)]
pub enum Change {
    Node {
        name: String,
        is_ready: bool,
    },
    /// The pod as it is now, by `namespace/name`; `None` when it is gone.
    Pod {
        name: String,
        state: Option<PodState>,
    },
}

pub trait World {
    /// Waits for the next changes. Nothing is lost when the future is dropped.
    async fn changes(&mut self) -> Result<Vec<Change>, String>;
    /// Creates a pod as its user does.
    async fn create_pod(&self, pod: &Value) -> Result<(), String>;
    /// Creates a Deployment, and its autoscaler if it has one.
    async fn create_deployment(&self, deployment: &Deployment) -> Result<(), String>;
    /// Lets nodes of groups join and leave.
    async fn change_machines(&mut self, orders: &Orders) -> Result<(), String>;
    /// Returns the requests that the API server has answered since the last call.
    fn take_answered(&self) -> Requests;
    /// Returns why a component has ended by itself, as an error.
    fn failure(&self) -> Result<(), String>;
    /// Ends every component.
    async fn strike(&self);
}
