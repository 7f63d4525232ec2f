//! The rule that pods and containers do not go back: phases advance, ended pods stay as they are, and `restartCount`
//! counts every run of a container.

use super::{Rule, RuleViolation, WriteContext, read};
use proto::kinds::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use std::collections::BTreeMap;

const PODS: &str = "/registry/pods/";

/// The last written state of each pod that exists.
#[derive(Default)]
pub struct Lives(BTreeMap<String, Pod>);

impl Rule for Lives {
    fn prefixes(&self) -> &'static [&'static str] {
        &[PODS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        let before = self.0.remove(key);
        let Some(after) = read::<Pod>(key, value)? else { return Ok(()) };
        let before = before.filter(|before| before.metadata.uid == after.metadata.uid);
        let statuses = before.as_ref().and_then(|before| Some((before.status.as_ref()?, after.status.as_ref()?)));
        let checked = statuses.map_or(Ok(()), |(before, after)| check_pod(before, after));
        self.0.insert(key.to_owned(), after);
        checked.map_err(|what| RuleViolation::new(format!("{key}: {what}")))
    }
}

fn check_pod(before: &PodStatus, after: &PodStatus) -> Result<(), String> {
    let (from, to) = (phase(before), phase(after));
    if rank(from) > rank(to) || (rank(from) == ENDED && from != to) {
        return Err(format!("its phase goes from {from} to {to}"));
    }
    for was in containers(before) {
        let name = &was.name;
        let Some(is) = containers(after).find(|is| is.name == *name) else {
            return Err(format!("its container {name} has no status any more"));
        };
        check_container(was, is).map_err(|what| format!("its container {name} {what}"))?;
    }
    let mut running = containers(after).filter(|is| state(is).running.is_some());
    match running.next().filter(|_| rank(to) == ENDED) {
        Some(is) => Err(format!("its container {} runs, though the pod is {to}", is.name)),
        None => Ok(()),
    }
}

fn check_container(was: &ContainerStatus, is: &ContainerStatus) -> Result<(), String> {
    let (old, new) = (was.restart_count, is.restart_count);
    if new < old {
        return Err(format!("goes back from {old} restarts to {new}"));
    }
    let (Some(earlier), Some(run)) = (&was.container_id, &is.container_id) else { return Ok(()) };
    if (earlier != run) != (new > old) {
        return Err(format!("is {run} with {new} restarts, and was {earlier} with {old}"));
    }
    let started_again = match (state(was).running, state(was).terminated, state(is).running) {
        (_, Some(_), Some(_)) => true,
        (Some(before), _, Some(after)) => before.started_at != after.started_at,
        _ => false,
    };
    if started_again && new == old {
        return Err(format!("runs again, still with {new} restarts"));
    }
    Ok(())
}

const ENDED: u8 = 2;

fn rank(phase: &str) -> u8 {
    match phase {
        "" | "Pending" => 0,
        "Running" => 1,
        _ => ENDED,
    }
}

fn phase(status: &PodStatus) -> &str {
    status.phase.as_deref().unwrap_or_default()
}

fn state(status: &ContainerStatus) -> ContainerState {
    status.state.clone().unwrap_or_default()
}

/// Returns the statuses of all containers of a pod.
pub fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten()
}
