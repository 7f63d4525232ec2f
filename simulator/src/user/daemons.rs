//! What a `User` does with DaemonSets: creates, changes and deletes them, and moves nodes from one to another.

use super::{User, template};
use serde_json::{Value, json};
use std::time::Duration;

/// Number of names for DaemonSets.
const DAEMONS: usize = 3;

/// Returns a DaemonSet as a user writes it. It runs on the nodes with the label `pool: POOL` if a pool is given.
fn daemon_set(name: &str, image: &str, pool: Option<&str>) -> Value {
    let mut template = template(name, image, "50m");
    if let Some(pool) = pool {
        template["spec"]["nodeSelector"] = json!({"pool": pool});
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    })
}

impl User<'_> {
    /// Changes DaemonSets, and the nodes that they fit, for some time. Uncordons all nodes.
    pub async fn tend_daemons(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        for number in 0..DAEMONS {
            self.create("apps", "daemonsets", self.new_daemon_set(&format!("daemon-{number}"))).await;
        }
        self.repeat_until(end, async |user| user.act_on_daemons().await).await;
        self.uncordon_all().await;
    }

    pub(super) async fn act_on_daemons(&self) {
        let random = &self.random;
        let daemon = format!("daemon-{}", random.below(DAEMONS));
        match random.below(9) {
            0 | 1 => self.create("apps", "daemonsets", self.new_daemon_set(&daemon)).await,
            2 | 3 => self.set_image_of("daemonsets", &daemon).await,
            4 => self.delete_a_pod(&daemon).await,
            5 | 6 => self.move_to_pool().await,
            7 => self.delete("apps", "daemonsets", &daemon, self.any_propagation()).await,
            _ => self.cordon().await,
        }
    }

    /// Returns a DaemonSet for all nodes or for a pool, with one of three ways to update it.
    fn new_daemon_set(&self, name: &str) -> Value {
        let pool = ["a", "b", ""][self.random.below(3)];
        let mut object = daemon_set(name, "web:1", Some(pool).filter(|pool| !pool.is_empty()));
        let (surge, unavailable) = [(0, 1), (1, 0), (0, 2)][self.random.below(3)];
        object["spec"]["updateStrategy"] = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        object
    }

    /// Gives a node another label `pool`, and so other DaemonSets.
    async fn move_to_pool(&self) {
        let node = format!("node-{}", self.random.below(self.nodes as usize));
        let pool = ["a", "b"][self.random.below(2)];
        self.patch("", "nodes", "", &node, json!({"metadata": {"labels": {"pool": pool}}})).await;
    }
}
