//! In-place resize: decisions of the node, conditions, restarts where the policy asks for them.

use super::*;

fn resources(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}})
}

fn web() -> Value {
    json!({"containers": [{
        "name": "web", "image": "nginx:1.29", "resources": resources("500m", "1Gi"),
        "resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        ],
    }]})
}

impl Life {
    fn resize(mut self, resources: Value) -> Self {
        let container = &mut self.pod.spec.as_mut().unwrap().containers[0];
        container.resources = Some(serde_json::from_value(resources).unwrap());
        self.pod.metadata.generation = self.pod.metadata.generation.map(|generation| generation + 1);
        self
    }

    /// Shows the resize conditions and the resources of the status.
    fn shows(&self, expected: &str) {
        let conditions = self.status.conditions.iter().flatten().filter(|c| c.type_.starts_with("PodResize"));
        let conditions = conditions.map(|c| {
            let why = c.message.as_deref().unwrap_or_default();
            format!("{} {} {why}", c.type_, c.reason.as_deref().unwrap_or_default()).trim().to_owned()
        });
        let container = &self.status.container_statuses.as_ref().unwrap()[0];
        let cpu = |list: Option<&BTreeMap<String, _>>| serde_json::to_value(list.unwrap()).unwrap()["cpu"].clone();
        let actual = cpu(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
        let allocated = cpu(container.allocated_resources.as_ref());
        let shown = format!("{} allocated {allocated} actual {actual}", conditions.collect::<Vec<_>>().join(", "));
        assert_eq!(shown.trim(), expected);
    }
}

#[test]
fn a_resize_that_fits_is_in_force_after_a_moment() {
    let life = Life::of(web(), json!({})).until(10_000).resize(resources("800m", "1Gi"));
    let life = life.until(10_500);
    life.shows("PodResizeInProgress allocated \"800m\" actual \"500m\"");
    let life = life.until(20_000);
    life.shows("allocated \"800m\" actual \"800m\"");
    life.check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        10.0s Running Ready web=running+
                  ResizeStarted: Pod resize started: {"containers":[{"name":"web","resources":{"limits":{"cpu":"800m","memory":"1Gi"},"requests":{"cpu":"800m","memory":"1Gi"}}}],"generation":2} 
        11.0s Running Ready web=running+
                  ResizeCompleted: Pod resize completed: {"containers":[{"name":"web","resources":{"limits":{"cpu":"800m","memory":"1Gi"},"requests":{"cpu":"800m","memory":"1Gi"}}}],"generation":2} 
    "#]]);
}

#[test]
fn pod_level_resources_are_resized_without_a_restart() {
    let mut spec = web();
    spec["resources"] = resources("1", "2Gi");
    let cpu = |life: &Life| {
        let of = |list: Option<&BTreeMap<String, _>>| serde_json::to_value(list.unwrap()).unwrap()["cpu"].clone();
        let actual = of(life.status.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
        (
            of(life.status.allocated_resources.as_ref()),
            actual,
            life.status.container_statuses.as_ref().unwrap()[0].restart_count,
        )
    };
    let mut life = Life::of(spec, json!({})).until(10_000);
    assert_eq!(cpu(&life), (json!("1"), json!("1"), 0));
    let resize = |life: &mut Life, to: Value| {
        life.pod.spec.as_mut().unwrap().resources = Some(serde_json::from_value(to).unwrap());
        life.pod.metadata.generation = life.pod.metadata.generation.map(|generation| generation + 1);
    };
    resize(&mut life, resources("9", "2Gi"));
    life.refuses = Some(ResizeRefusal::Infeasible("Node didn't have enough capacity: cpu".into()));
    let mut life = life.until(11_000);
    assert_eq!(cpu(&life), (json!("1"), json!("1"), 0));
    assert!(conditions::find(&life.status, crate::resize::PENDING).is_some());
    resize(&mut life, resources("1500m", "2Gi"));
    life.refuses = None;
    let life = life.until(11_500);
    assert_eq!(cpu(&life), (json!("1500m"), json!("1"), 0));
    let life = life.until(13_000);
    assert_eq!(cpu(&life), (json!("1500m"), json!("1500m"), 0));
    assert!(conditions::find(&life.status, crate::resize::PENDING).is_none());
    assert!(conditions::find(&life.status, crate::resize::IN_PROGRESS).is_none());
}

#[test]
fn a_resize_of_memory_restarts_the_container_that_asks_for_it() {
    let life = Life::of(web(), json!({})).until(10_000).resize(resources("500m", "2Gi")).until(20_000);
    life.shows("allocated \"500m\" actual \"500m\"");
    life.check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        10.0s Running Ready web=running+
                  ResizeStarted: Pod resize started: {"containers":[{"name":"web","resources":{"limits":{"cpu":"500m","memory":"2Gi"},"requests":{"cpu":"500m","memory":"2Gi"}}}],"generation":2} 
                  Killing: Container web resize requires restart spec.containers{web}
        10.2s Running web=ContainerCreating
        10.3s Running Ready web=running+ x1
                  ResizeCompleted: Pod resize completed: {"containers":[{"name":"web","resources":{"limits":{"cpu":"500m","memory":"2Gi"},"requests":{"cpu":"500m","memory":"2Gi"}}}],"generation":2} 
    "#]]);
}

#[test]
fn a_resize_waits_for_room_and_is_not_made_if_there_never_is() {
    let mut life = Life::of(web(), json!({})).until(10_000).resize(resources("1500m", "1Gi"));
    life.refuses = Some(ResizeRefusal::Deferred("Node didn't have enough resource: cpu".into()));
    let life = life.until(11_000);
    life.shows("PodResizePending Deferred Node didn't have enough resource: cpu allocated \"500m\" actual \"500m\"");
    let mut life = life.resize(resources("9", "1Gi"));
    life.refuses = Some(ResizeRefusal::Infeasible("Node didn't have enough capacity: cpu".into()));
    let life = life.until(12_000);
    life.shows("PodResizePending Infeasible Node didn't have enough capacity: cpu allocated \"500m\" actual \"500m\"");
    let life = life.resize(resources("500m", "1Gi")).until(13_000);
    life.shows("allocated \"500m\" actual \"500m\"");
    life.check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        10.0s Running Ready web=running+
                ! ResizeDeferred: Pod resize Deferred: {"containers":[{"name":"web","resources":{"limits":{"cpu":"1500m","memory":"1Gi"},"requests":{"cpu":"1500m","memory":"1Gi"}}}],"generation":2,"error":"Node didn't have enough resource: cpu"} 
        11.0s Running Ready web=running+
                ! ResizeInfeasible: Pod resize Infeasible: {"containers":[{"name":"web","resources":{"limits":{"cpu":"9","memory":"1Gi"},"requests":{"cpu":"9","memory":"1Gi"}}}],"generation":3,"error":"Node didn't have enough capacity: cpu"} 
    "#]]);
}
