//! What a `User` does in a cluster on a cloud: Services of type LoadBalancer come, change and go, machines vanish, are shut down and
//! return, and the cloud is slow, faulty and full.

use super::{User, service};
use crate::cloud::GROUP;
use serde_json::{Value, json};
use simulated_cloud::model::{Power, Settings};
use simulated_cloud::running::RunningCloud;
use std::time::Duration;

/// Number of names for Services.
const SERVICES: usize = 4;

fn balanced(name: &str) -> Value {
    let mut service = service(name);
    service["metadata"]["namespace"] = json!("default");
    service["spec"]["type"] = json!("LoadBalancer");
    service
}

impl User<'_> {
    /// Works with a cloud for some time. In the end, its machines run and it has no faults.
    pub async fn work_on_cloud(&self, cloud: &RunningCloud, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        self.set_cloud(
            cloud,
            Settings { latency_ms: 200, fault_rate: 0.2, load_balancer_quota: 2, ..Settings::default() },
        );
        self.repeat_until(end, async |user| user.act_on_cloud(cloud).await).await;
        self.set_cloud(cloud, Settings::default());
        let machines = cloud.look(|cloud| cloud.holdings().machines.keys().cloned().collect::<Vec<_>>());
        machines.iter().for_each(|machine| self.set_power(cloud, machine, Power::Running));
    }

    async fn act_on_cloud(&self, cloud: &RunningCloud) {
        let random = &self.random;
        let exposed = format!("exposed-{}", random.below(SERVICES));
        let node = format!("node-{}", random.below(5));
        match random.below(12) {
            0..=2 => self.create_any(&balanced(&exposed)).await,
            3 | 4 => self.delete_any(&balanced(&exposed)).await,
            5 => {
                let type_ = ["LoadBalancer", "ClusterIP"][random.below(2)];
                self.patch("", "services", "default", &exposed, json!({"spec": {"type": type_}})).await;
            }
            6 => {
                let ports = json!([{"$patch": "replace"}, {"port": 80 + random.below(3), "protocol": "TCP"}]);
                self.patch("", "services", "default", &exposed, json!({"spec": {"ports": ports}})).await;
            }
            7 => {
                let policy = ["Cluster", "Local"][random.below(2)];
                let spec = json!({"spec": {"externalTrafficPolicy": policy}});
                self.patch("", "services", "default", &exposed, spec).await;
            }
            8 => {
                let value = if random.below(2) == 0 { json!("") } else { Value::Null };
                let labels = json!({"node.kubernetes.io/exclude-from-external-load-balancers": value});
                self.patch("", "nodes", "", &node, json!({"metadata": {"labels": labels}})).await;
            }
            9 => {
                let size = 2 + u32::try_from(random.below(4)).unwrap_or_default();
                let what = format!("the cloud is to have {size} machines");
                self.simulation.cluster.log_line(&what);
                self.note(what);
                if let Err(problem) = cloud.change_at_once(|cloud| cloud.scale(GROUP, size)) {
                    self.simulation.cluster.log_line(&format!("the cloud refuses it: {problem}"));
                }
            }
            _ => self.set_power(cloud, &node, [Power::Running, Power::Stopped][random.below(2)]),
        }
    }

    fn set_cloud(&self, cloud: &RunningCloud, settings: Settings) {
        self.simulation.cluster.log_line(&format!("the cloud has {settings:?}"));
        if let Err(problem) = cloud.change_at_once(|cloud| cloud.set_settings(settings)) {
            self.simulation.cluster.log_line(&format!("the cloud refuses it: {problem}"));
        }
    }

    /// Switches a machine on or off, if there is such a machine.
    fn set_power(&self, cloud: &RunningCloud, machine: &str, power: Power) {
        self.note(format!("the machine {machine} is {power:?}"));
        if cloud.change_at_once(|cloud| cloud.set_power(machine, power)).is_ok() {
            self.simulation.cluster.log_line(&format!("the machine {machine} is {power:?}"));
        }
    }
}
