//! Rules worked by hand: each row is a tiny cluster and a pod, and what Kubernetes' documentation says of them. Scheduler and
//! reference evaluator both judge every row.

mod affinity;
mod devices;
mod fit;
mod preemption;
mod spreading;
mod taints;
mod volumes;

use crate::both::{Both, Outcome};
use crate::draw::{HOSTNAME, ZONE};
use crate::world::World;
use scheduler_plugins::fixture::merge;
use serde_json::{Value, json};

/// Returns a node with 4 cores, 8 GiB and 110 pods in a zone, with `extra` merged over it.
fn node(zone: &str, extra: Value) -> Value {
    let mut node = json!({
        "metadata": {"labels": {ZONE: zone, HOSTNAME: "self"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    merge(&mut node, extra);
    node
}

/// Returns a pod of `app: web` in the namespace `x` that requests nothing, with `spec` merged over its spec.
fn pod(spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": "x", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}]},
    });
    merge(&mut pod["spec"], spec);
    pod
}

/// Returns a pod of another app.
fn pod_of(app: &str, spec: Value) -> Value {
    let mut pod = pod(spec);
    pod["metadata"]["labels"]["app"] = json!(app);
    pod
}

/// Returns the part of a spec that requests CPU.
fn cpu(amount: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]})
}

/// Nodes by name, and pods by name and node.
#[derive(Clone, Default)]
struct Tiny {
    world: World,
    nodes: Vec<(&'static str, Value)>,
    pods: Vec<(&'static str, &'static str, Value)>,
}

impl Tiny {
    /// Returns what scheduler and reference decide about a pod.
    fn decide(&self, says: &str, pod: Value) -> Outcome {
        self.both().schedule("new", pod).unwrap_or_else(|difference| panic!("{says}\n{difference}"))
    }

    fn both(&self) -> Both {
        let mut both = Both::new(&self.world);
        both.set_namespace("x", &[("team", "red")]);
        both.set_namespace("y", &[("team", "blue")]);
        self.nodes.iter().for_each(|(name, node)| both.set_node(name, node.clone()));
        self.pods.iter().for_each(|(name, node, pod)| both.place(name, node, pod.clone()));
        both
    }

    /// Checks the nodes on which each pod fits.
    fn check_feasible(&self, rows: &[(&str, Value, &str)]) {
        for (says, pod, expected) in rows {
            assert_eq!(self.decide(says, pod.clone()).feasible(), *expected, "{says}");
        }
    }

    /// Checks the normalized scores of one plugin for each pod.
    fn check_scores(&self, plugin: &str, rows: &[(&str, Value, &str)]) {
        for (says, pod, expected) in rows {
            assert_eq!(self.decide(says, pod.clone()).scored(plugin), *expected, "{says}");
        }
    }
}

impl Outcome {
    fn feasible(&self) -> String {
        let feasible = self.verdicts.iter().filter(|(_, verdict)| verdict.is_none());
        feasible.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the scores of a plugin in the order of the names of nodes.
    fn scored(&self, plugin: &str) -> String {
        let Some(found) = self.scores.iter().find(|one| one.plugin == plugin) else { return "none".to_owned() };
        found.scores.iter().map(|(name, score)| format!("{name}={score}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns the nodes that cost the least, with the victims.
    fn victims(&self) -> String {
        let victims = |name: &String| format!("{name} without {}", self.preemption.candidates[name].victims.join(" "));
        self.preemption.best.iter().map(victims).collect::<Vec<_>>().join(" or ")
    }
}
