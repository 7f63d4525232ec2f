//! `SchedulerAlone`: the scheduler of a trial on a model of everything else.

use super::chooser::Chooser;
use super::node_groups::Orders;
use super::pod_state::PodState;
use super::setup::{Setup, read_template};
use super::stage::{LATENCY, SETTLING};
use super::world::{Change, World};
use crate::part::Part;
use component_base::env::Env;
use experiments::workload::Deployment;
use kubelet_sim::plan::NodePlan;
use kubelet_sim::template::NodeTemplate;
use modelled_api::ModelledApi;
use modelled_api::answered::Requests;
use parking_lot::Mutex;
use scheduler::explanation::Attempts;
use scheduler::framework::{CycleExtender, Register};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

pub struct SchedulerAlone {
    api: Arc<ModelledApi>,
    /// Settings of the nodes that join.
    kubelets: kubelet_sim::Settings,
    process: Env,
    /// Why the scheduler has ended by itself.
    failure: Arc<Mutex<Option<String>>>,
}

impl SchedulerAlone {
    /// Starts the scheduler, as long before the first pod as in a whole control plane.
    pub async fn raise(
        env: &Env,
        setup: &Setup,
        namespaces: BTreeSet<String>,
        chooser: Option<Arc<Chooser>>,
        attempts: Arc<dyn Attempts>,
    ) -> Result<Self, String> {
        let (process, nodes) =
            (env.process(&format!("{}/1", Part::Scheduler)), env.process(&format!("{}/1", Part::Nodes)));
        let kubelets = setup.nodes();
        let settings = modelled_api::Settings {
            namespaces,
            nodes: NodePlan::all(&kubelets),
            failures: setup.failures.clone(),
            request: LATENCY + setup.api_delay,
            report_every: kubelets.node_status_update_frequency,
            node_grace: setup.controllers(String::new()).node_monitor_grace_period,
        };
        let (api, informers) = ModelledApi::new(&process, &nodes, settings)?;
        let failure: Arc<Mutex<Option<String>>> = Arc::default();
        let decider = chooser.map(|chooser| chooser as Arc<dyn CycleExtender>);
        let register: Register = Arc::new(|_, _| {});
        let running = scheduler::run_on(informers, setup.scheduler(), decider, Some(attempts), register);
        let why = failure.clone();
        process.spawn(async move {
            if let Err(error) = running.await {
                *why.lock() = Some(error);
            }
        });
        env.sleep(SETTLING).await;
        Ok(Self { api, kubelets, process, failure })
    }
}

impl World for SchedulerAlone {
    async fn changes(&mut self) -> Result<Vec<Change>, String> {
        let changes = self.api.changes().await;
        Ok(changes
            .into_iter()
            .map(|change| match change {
                modelled_api::Change::Node { name, is_ready } => Change::Node { name, is_ready },
                modelled_api::Change::Pod { key, pod } => {
                    Change::Pod { name: key, state: pod.map(|pod| PodState::of(&pod)) }
                }
            })
            .collect())
    }

    async fn create_pod(&self, pod: &Value) -> Result<(), String> {
        self.api.create(pod).map_err(|error| format!("pod {}: {error}", pod["metadata"]["name"]))
    }

    async fn create_deployment(&self, deployment: &Deployment) -> Result<(), String> {
        Err(format!("deployment {}: no controller makes its pods in depth `scheduler`", deployment.name))
    }

    async fn change_machines(&mut self, orders: &Orders) -> Result<(), String> {
        let templates: Vec<NodeTemplate> = orders.join.iter().map(read_template).collect::<Result<_, _>>()?;
        self.api.join(NodePlan::of_templates(&templates, &self.kubelets))?;
        orders.leave.iter().for_each(|name| self.api.leave(name));
        Ok(())
    }

    fn take_answered(&self) -> Requests {
        self.api.answered.take()
    }

    fn failure(&self) -> Result<(), String> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    async fn strike(&self) {
        self.process.kill().await;
    }
}
