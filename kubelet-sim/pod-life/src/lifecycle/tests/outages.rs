//! Pods whose machine loses its power and comes back.

use super::*;
use crate::notes::Outage;

impl Life {
    /// Cuts the power now, and brings it back at `on_ms`.
    fn outage(mut self, on_ms: i64) -> Self {
        self.notes = Notes { outage: Some(Outage { off_at: self.now, on_at: at(on_ms) }), ..Notes::default() };
        self.now = at(on_ms);
        self
    }
}

#[test]
fn containers_that_ran_are_started_again() {
    Life::of(nginx(), json!({})).until(10_000).outage(60_000).until(70_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        60.0s Running web=ContainerCreating
                  SandboxChanged: Pod sandbox changed, it will be killed and re-created. 
        60.1s Running Ready web=running+ x1
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);
}

#[test]
fn a_pod_is_initialized_again() {
    let spec = json!({
        "initContainers": [{"name": "first", "image": "busybox:1"}, {"name": "side", "image": "busybox:1", "restartPolicy": "Always"}],
        "containers": [{"name": "web", "image": "nginx:1.29"}],
    });
    let life = Life::of(spec, json!({})).until(10_000).outage(60_000).until(80_000);
    life.check(&expect![[r#"
        0.0s  Pending first=PodInitializing side=PodInitializing web=PodInitializing
                  Pulling: Pulling image "busybox:1" spec.initContainers{first}
        0.5s  Pending first=running side=PodInitializing web=PodInitializing
                  Pulled: Successfully pulled image "busybox:1" in 400ms (400ms including waiting). Image size: 30186996 bytes. spec.initContainers{first}
                  Created: Container created spec.initContainers{first}
                  Started: Container started spec.initContainers{first}
        1.0s  Pending first=Completed(0)+ side=PodInitializing web=PodInitializing
        1.1s  Pending first=Completed(0)+ side=running+ web=PodInitializing
                  Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod spec.initContainers{side}
                  Created: Container created spec.initContainers{side}
                  Started: Container started spec.initContainers{side}
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        1.6s  Running Ready first=Completed(0)+ side=running+ web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        60.0s Running first=PodInitializing side=PodInitializing web=PodInitializing
                  SandboxChanged: Pod sandbox changed, it will be killed and re-created. 
        60.1s Running first=running x1 side=PodInitializing web=PodInitializing
                  Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod spec.initContainers{first}
                  Created: Container created spec.initContainers{first}
                  Started: Container started spec.initContainers{first}
        60.6s Running first=Completed(0)+ x1 side=PodInitializing web=PodInitializing
        60.7s Running Ready first=Completed(0)+ x1 side=running+ x1 web=running+ x1
                  Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod spec.initContainers{side}
                  Created: Container created spec.initContainers{side}
                  Started: Container started spec.initContainers{side}
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);
}

#[test]
fn a_pod_that_never_restarts_has_failed() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "job", "image": "busybox:1"}]});
    let life = Life::of(spec, json!({"orrery.dev/run-for": "1h"})).until(10_000).outage(60_000).until(70_000);
    let life = life.check(&expect![[r#"
        0.0s  Pending job=ContainerCreating
                  Pulling: Pulling image "busybox:1" spec.containers{job}
        0.5s  Running Ready job=running+
                  Pulled: Successfully pulled image "busybox:1" in 400ms (400ms including waiting). Image size: 30186996 bytes. spec.containers{job}
                  Created: Container created spec.containers{job}
                  Started: Container started spec.containers{job}
        60.0s Failed job=Unknown(255)
    "#]]);
    assert_eq!(life.status.phase.as_deref(), Some("Failed"));
}

#[test]
fn an_outage_counts_once() {
    let life = Life::of(nginx(), json!({})).until(10_000).outage(60_000).until(70_000);
    let restarts = |life: &Life| life.status.container_statuses.as_ref().unwrap()[0].restart_count;
    let before = restarts(&life);
    let life = life.until(5_000_000);
    assert_eq!((before, restarts(&life)), (1, 1));
}
