//! Drawn pods with drawn stories: what holds for each of them at every step.

use super::*;
use component_base::rng::Random;

/// Draws a pod: containers of all kinds with probes, hooks, policies and stories.
struct Draw<'a>(&'a Random);

impl Draw<'_> {
    fn one_in(&self, of: usize) -> bool {
        self.0.below(of) == 0
    }

    fn pick<'t>(&self, from: &[&'t str]) -> &'t str {
        from[self.0.below(from.len())]
    }

    fn probe(&self) -> Value {
        let target = match self.0.below(3) {
            0 => json!({"httpGet": {"port": if self.one_in(4) { 81 } else { 80 }}}),
            1 => json!({"exec": {"command": [self.pick(&["true", "false"])]}}),
            _ => json!({"tcpSocket": {"port": 80}}),
        };
        let mut probe = target;
        probe["periodSeconds"] = json!(1 + self.0.below(5));
        probe["initialDelaySeconds"] = json!(self.0.below(5));
        probe["failureThreshold"] = json!(1 + self.0.below(3));
        probe
    }

    fn container(&self, name: &str, kind: ContainerKind, annotations: &mut Value) -> Value {
        let mut container =
            json!({"name": name, "image": self.pick(&["a", "b", "Bad"]), "ports": [{"containerPort": 80}]});
        if !self.one_in(6) {
            container["image"] = json!("a");
        }
        if kind == ContainerKind::Sidecar {
            container["restartPolicy"] = json!("Always");
        }
        let mut story = |word: &str, value: &str| annotations[format!("{word}.orrery.dev/{name}")] = json!(value);
        if kind != ContainerKind::Init {
            for (field, word) in
                [("startupProbe", "startup"), ("livenessProbe", "liveness"), ("readinessProbe", "readiness")]
            {
                if self.one_in(2) {
                    container[field] = self.probe();
                }
                if self.one_in(3) {
                    story(word, self.pick(&["fail@20s", "fail, ok@7s", "flap 9s/4s", "timeout@30s, ok@50s", "ok"]));
                }
            }
            if self.one_in(4) {
                container["lifecycle"]["postStart"] =
                    json!({"exec": {"command": ["sh", "-c", self.pick(&["sleep 3", "sleep 1; false"])]}});
            }
            if self.one_in(4) {
                container["lifecycle"]["preStop"] =
                    json!({"exec": {"command": ["sh", "-c", self.pick(&["sleep 3", "false"])]}});
            }
        }
        if self.one_in(2) {
            story("run-for", self.pick(&["1s", "20s", "70s"]));
            story("exit-code", self.pick(&["0", "1", "1,0", "137"]));
        }
        if self.one_in(5) {
            story(self.pick(&["crash-after", "oom-after"]), "12s");
        }
        if self.one_in(4) {
            story("stop-time", self.pick(&["5s", "2m"]));
        }
        container
    }

    fn life(&self) -> Life {
        let mut annotations = json!({});
        let mut all = |kind: ContainerKind, prefix: &str, most: usize, least: usize| -> Vec<Value> {
            let count = least + self.0.below(most);
            (0..count).map(|n| self.container(&format!("{prefix}{n}"), kind, &mut annotations)).collect()
        };
        let mut init = all(ContainerKind::Init, "init", 2, 0);
        init.extend(all(ContainerKind::Sidecar, "side", 2, 0));
        let apps = all(ContainerKind::App, "app", 3, 1);
        let mut spec = json!({
            "restartPolicy": self.pick(&["Always", "OnFailure", "Never"]), "initContainers": init, "containers": apps,
            "terminationGracePeriodSeconds": self.0.below(12),
        });
        if self.one_in(4) {
            spec["activeDeadlineSeconds"] = json!(15 + self.0.below(60));
        }
        Life::of(spec, annotations)
    }
}

fn rank(phase: Option<&str>) -> u8 {
    match phase {
        None | Some("Pending") => 0,
        Some("Running") => 1,
        _ => 2,
    }
}

fn all_statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().chain(&status.container_statuses).flatten()
}

/// Checks one step.
fn check_step(before: &PodStatus, after: &PodStatus, seed: u64) {
    let (from, to) = (before.phase.as_deref(), after.phase.as_deref());
    assert!(rank(from) <= rank(to), "seed {seed}: the phase goes back from {from:?} to {to:?}");
    assert!(rank(from) < 2 || from == to, "seed {seed}: a pod that has ended changes its phase");
    for status in all_statuses(after) {
        let name = &status.name;
        assert!(
            !status.ready || status.started != Some(false) || state::terminated(status).is_some(),
            "seed {seed}: {name} is ready, and not started"
        );
        if rank(to) == 2 {
            assert!(state::running(status).is_none(), "seed {seed}: {name} runs in a pod that has ended");
        }
        let Some(was) = all_statuses(before).find(|was| was.name == *name) else { continue };
        let grew = status.restart_count - was.restart_count;
        assert!((0..=1).contains(&grew), "seed {seed}: {name} was restarted {grew} times at once");
        if grew == 1 {
            assert!(state::last_exit(status).is_some(), "seed {seed}: {name} was restarted and never ended");
        }
        if let (Some(_), Some(_)) = (state::terminated(was), state::running(status)) {
            assert_eq!(grew, 1, "seed {seed}: {name} runs again without a restart");
        }
        if let (Some(ended), Some(ends)) = (state::terminated(was), state::terminated(status)) {
            assert!(grew == 1 || ended == ends, "seed {seed}: {name} has ended, and its end changes");
        }
        if let (Some(first), Some(second), 0) = (state::running(was), state::running(status), grew) {
            assert_eq!(first, second, "seed {seed}: {name} runs since another time, without a restart");
        }
    }
    let holds = |type_: &str| conditions::find(after, type_).is_some_and(|condition| condition.status == "True");
    let apps_ready = after.container_statuses.iter().flatten().all(|status| status.ready);
    assert!(!holds("ContainersReady") || apps_ready, "seed {seed}: ContainersReady, with a container that is not");
    let all_ready = apps_ready && after.init_container_statuses.iter().flatten().all(|status| status.ready);
    let says_so = holds("ContainersReady") && holds("Ready");
    assert!(!all_ready || says_so || rank(to) == 2, "seed {seed}: all containers are ready, and the pod is not");
    let one_runs = all_statuses(after).any(|status| state::running(status).is_some());
    assert!(!one_runs || holds("PodReadyToStartContainers"), "seed {seed}: a container runs without a sandbox");
    assert!(!holds("Ready") || holds("ContainersReady"), "seed {seed}: Ready without ContainersReady");
}

/// Takes the last step a second time, which changes nothing.
fn check_repetition(life: &mut Life, wake_at: Option<Timestamp>, seed: u64) {
    let (status, recorded) = (life.status.clone(), life.recorded.len());
    let is_later = |second: Timestamp| wake_at.is_some_and(|first| second >= first);
    assert!(life.step().is_none_or(is_later), "seed {seed}: the second time wakes sooner than {wake_at:?}");
    assert!(life.status == status, "seed {seed}: the second time changes the status:\n{}", life.log);
    assert_eq!(life.recorded.len(), recorded, "seed {seed}: the second time records an event:\n{}", life.log);
}

#[test]
fn every_pod_keeps_its_promises() {
    for seed in 0..300 {
        let random = Random::from_seed(seed, "pods");
        let draw = Draw(&random);
        let mut life = draw.life();
        // Every third agent restarts before every step.
        life.forgetful = seed % 3 == 0;
        let deleted_at = at(i64::try_from(random.below(150_000)).unwrap());
        let grace_s = i64::try_from(random.below(12)).unwrap();
        let mut steps = 0;
        while life.now <= at(200_000) {
            if life.now >= deleted_at && !life.pod.is_deleting() {
                life = life.delete(grace_s);
            }
            let (before, images) = (life.status.clone(), life.images.len());
            let wake_at = life.step();
            check_step(&before, &life.status, seed);
            // An image that was pulled by this step serves other containers from the next one on.
            if life.images.len() == images && !life.forgetful {
                check_repetition(&mut life, wake_at, seed);
            }
            let next = match wake_at {
                Some(wake_at) => wake_at.min(if life.now < deleted_at { deleted_at } else { wake_at }),
                None if life.now < deleted_at => deleted_at,
                None => break,
            };
            assert!(next > life.now, "seed {seed}: a step that is due at once would never end:\n{}", life.log);
            life.now = next;
            steps += 1;
            assert!(steps < 2_000, "seed {seed}: too many steps");
        }
        if let Some(deletion) = &life.pod.metadata.deletion_timestamp {
            // The least time between SIGTERM and SIGKILL, for each sidecar in turn, may come after the grace.
            let over = deletion.0 + Duration::from_secs(8);
            let runs = all_statuses(&life.status).any(|status| state::running(status).is_some());
            assert!(life.now < over || !runs, "seed {seed}: something runs after its grace:\n{}", life.log);
        }
    }
}
