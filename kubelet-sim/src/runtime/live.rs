//! Observes the processes of containers whose end does not follow from their spec alone.
//!
//! Corresponds to the pod lifecycle event generator of pkg/kubelet/pleg. Most containers need no process: their story or
//! their command says when they end. A container that reads a volume, a variable from elsewhere or the network is looked
//! at while it runs, and so is one in which a client has run a command.

use crate::runtime::container::{NodeContext, PodContainer};
use crate::runtime::run::Run;
use crate::runtime::switch;
use pod_life::entrypoint::{self, Ending};
use pod_life::live::{LastWords, Live};
use pod_life::story::{ContainerKind, Words};
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::kinds::jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use userland::process::kernel::FIRST;
use userland::process::processes::Processes;

/// How often the volumes of a running container are brought up to date.
const REMOUNT_PERIOD: SignedDuration = SignedDuration::from_secs(60);
/// The time until a process goes on that does very much at once.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Returns what the processes of a pod's running containers have done up to now, for those that are looked at.
pub async fn observe(node: &NodeContext<'_>, pod: &Arc<Pod>, status: &PodStatus) -> BTreeMap<String, Live> {
    let mut observed = BTreeMap::new();
    for name in with_processes(pod) {
        let Some(container) = PodContainer::new(pod.clone(), status.clone(), name) else { continue };
        if !container.is_running() {
            continue;
        }
        let Some(Ok(run)) = container.container_status().map(|status| Run::of(status, pod.name(), false)) else {
            continue;
        };
        let now = node.env.wall();
        let key = container.key(&run);
        if !is_looked_at(&container, node.runtime.is_touched(&key)) {
            continue;
        }
        let processes = match node.runtime.known(&key, now - REMOUNT_PERIOD) {
            Some(processes) => processes,
            None => container.processes(node, &run).await,
        };
        node.runtime.keep(&key);
        switch::advance(node, &container, &key, &processes).await;
        let mut live = Live { run: run.number, ..look(&container, &mut processes.lock(), node.env.wall()) };
        if live.ended.is_none() {
            live.next = live.next.into_iter().chain(switch::next_wake(node, &key, &processes)).min();
        }
        if live.ended.is_some() {
            node.runtime.unkeep(key);
        }
        observed.insert(name.to_owned(), live);
    }
    observed
}

/// Returns the names of the containers whose programs are simulated.
fn with_processes(pod: &Pod) -> Vec<&str> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let simulated = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let simulated = simulated.filter(|container| entrypoint::ending(container) != Ending::NotSimulated);
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| container.name.as_str());
    simulated.map(|container| container.name.as_str()).chain(ephemeral).collect()
}

/// True for a container whose program is simulated and whose end neither its story nor its spec says, or in which a client
/// has run a command.
fn is_looked_at(container: &PodContainer, is_touched: bool) -> bool {
    static NO_ANNOTATIONS: BTreeMap<String, String> = BTreeMap::new();
    let annotations = container.pod.metadata.annotations.as_ref().unwrap_or(&NO_ANNOTATIONS);
    let is_app = container.kind == ContainerKind::App;
    let words = Words { annotations, container: &container.container.name, is_app };
    if words.get("run-for").is_some() {
        return false;
    }
    match entrypoint::ending(&container.container) {
        Ending::Observed => true,
        Ending::Foreseen => is_touched,
        Ending::NotSimulated => false,
    }
}

fn look(container: &PodContainer, processes: &mut Processes, now: Timestamp) -> Live {
    let is_settled = processes.advance_to(now);
    let ended = processes.end_of(FIRST).map(|(at, status)| (at, status.code()));
    let next = match (ended, is_settled) {
        (Some(_), _) => None,
        (None, true) => processes.next_wake(),
        (None, false) => Some(now + BUSY_PAUSE),
    };
    let last_words = LastWords::of(processes, &container.container);
    Live { run: 0, ended, next, last_words }
}
