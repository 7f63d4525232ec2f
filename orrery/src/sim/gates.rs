//! The feature gates of a study: which component has which, and what is wrong with them.

use component_base::options::feature_gates::{self, GateValues};
use experiments::study::{Depth, Policy, Study};

const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
/// Gates that `podGroups` of a workload switches on.
const OF_POD_GROUPS: [&str; 2] = ["GenericWorkload", "GangScheduling"];

/// Returns the gates of the schedulers of a policy. Its own win over those of the study.
pub fn of_policy(study: &Study, policy: &Policy) -> GateValues {
    study.feature_gates.iter().chain(&policy.feature_gates).map(|(name, is_on)| (name.clone(), *is_on)).collect()
}

/// Returns every mistake, with its path.
pub fn problems(study: &Study) -> Vec<String> {
    let mut found = Vec::new();
    for name in study.feature_gates.keys().filter(|name| !components(study).iter().any(|one| has(one, name))) {
        found.push(format!("featureGates.{name}: {}", unknown(study, name)));
    }
    for (at, policy) in study.policies.iter().enumerate() {
        for name in policy.feature_gates.keys().filter(|name| !has(SCHEDULER, name)) {
            let why = match has(API_SERVER, name) || has(CONTROLLER_MANAGER, name) {
                true => format!("{SCHEDULER} does not have it; name it in featureGates of the study"),
                false => unknown(study, name),
            };
            found.push(format!("policies[{at}].featureGates.{name}: {why}"));
        }
    }
    let has_groups = study.workloads.iter().position(|workload| workload.pod_groups);
    if let Some(at) = has_groups {
        let off = OF_POD_GROUPS.into_iter().filter(|name| {
            let values = study.policies.iter().map(|policy| of_policy(study, policy).get(*name).copied());
            values.chain([study.feature_gates.get(*name).copied()]).any(|value| value == Some(false))
        });
        found.extend(off.map(|name| format!("featureGates.{name}: podGroups of workloads[{at}] need it")));
    }
    if !found.is_empty() {
        return found;
    }
    // Every workload is to run, those without PodGroups too.
    let needs_groups = study.workloads.iter().all(|workload| workload.pod_groups);
    let check = |component: &str, values: GateValues| {
        let mut values: GateValues = values.into_iter().filter(|(name, _)| has(component, name)).collect();
        if needs_groups {
            values.extend(OF_POD_GROUPS.map(|name| (name.to_owned(), true)));
        }
        feature_gates::check(component, &values).err()
    };
    let own = |component: &&str| check(component, study.feature_gates.clone().into_iter().collect());
    let first = components(study).iter().find_map(own);
    found.extend(first.map(|why| format!("featureGates: {why}")));
    if found.is_empty() {
        let of_policies = study.policies.iter().enumerate().filter(|(_, policy)| !policy.feature_gates.is_empty());
        let errors = of_policies.filter_map(|(at, policy)| Some((at, check(SCHEDULER, of_policy(study, policy))?)));
        found.extend(errors.map(|(at, why)| format!("policies[{at}].featureGates: {why}")));
    }
    found
}

/// Returns a line for each gate that is known and switches nothing in the components that run.
pub fn warnings(study: &Study) -> Vec<String> {
    let is_idle = |components: &[&str], name: &str| {
        !components.iter().any(|component| feature_gates::switches(component, name).is_some())
    };
    let idle = study.feature_gates.iter().filter(|(name, _)| is_idle(components(study), name));
    let idle = idle.map(|(name, is_on)| format!("featureGates.{name}: {is_on} has no effect here"));
    let of_policies = study.policies.iter().enumerate().flat_map(|(at, policy)| {
        let idle = policy.feature_gates.iter().filter(|(name, _)| is_idle(&[SCHEDULER], name));
        idle.map(move |(name, is_on)| format!("policies[{at}].featureGates.{name}: {is_on} has no effect here"))
    });
    idle.chain(of_policies).collect()
}

/// Returns the components that have gates and run.
fn components(study: &Study) -> &'static [&'static str] {
    match study.depth {
        Depth::Full => &[API_SERVER, CONTROLLER_MANAGER, SCHEDULER],
        Depth::Scheduler => &[SCHEDULER],
    }
}

/// Returns true if a component has a gate, whatever its value may be.
fn has(component: &str, name: &str) -> bool {
    let asked = GateValues::from([(name.to_owned(), true)]);
    !feature_gates::check(component, &asked).is_err_and(|why| why == unrecognized(name))
}

fn unrecognized(name: &str) -> String {
    format!("unrecognized feature gate: {name}")
}

fn unknown(study: &Study, name: &str) -> String {
    match study.depth {
        Depth::Scheduler if has(API_SERVER, name) || has(CONTROLLER_MANAGER, name) => {
            "depth `scheduler` runs no component that has it".to_owned()
        }
        _ => unrecognized(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a study with these gates, and with these of its second policy.
    fn study(gates: &str, of_policy: &str, more: &str) -> Study {
        let text = format!(
            "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: s
featureGates: {{{gates}}}
clusters: [{{name: c, nodes: [{{name: node, capacity: {{cpu: 1}}}}]}}]
workloads: [{{name: w, openbPods: {{file: pods.csv}}}}]
policies: [{{name: one}}, {{name: two, featureGates: {{{of_policy}}}}}]
{more}"
        );
        experiments::study::read(&text).unwrap()
    }

    #[test]
    fn every_mistake_in_gates_has_its_path() {
        for (gates, of_policy, expected) in [
            ("", "", &[][..]),
            ("GenericWorkload: true, GangScheduling: true", "WorkloadAwarePreemption: true", &[]),
            (
                "Gangs: true, MaxUnavailableStatefulSet: false",
                "Bangs: true, WorkloadAwarePreemption: false",
                &[
                    "featureGates.Gangs: unrecognized feature gate: Gangs",
                    "policies[1].featureGates.Bangs: unrecognized feature gate: Bangs",
                ],
            ),
            (
                "WorkloadAwarePreemption: true",
                "",
                &[
                    "featureGates: WorkloadAwarePreemption is enabled, but depends on features that are disabled: [GangScheduling]",
                ],
            ),
            (
                "",
                "GangScheduling: true",
                &[
                    "policies[1].featureGates: GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
                ],
            ),
        ] {
            assert_eq!(problems(&study(gates, of_policy, "")), expected, "{gates} {of_policy}");
        }
        let mut groups = study("GangScheduling: false", "", "");
        groups.workloads[0].pod_groups = true;
        assert_eq!(problems(&groups), ["featureGates.GangScheduling: podGroups of workloads[0] need it"]);
        let alone = study("MaxUnavailableStatefulSet: true", "", "depth: scheduler");
        assert!(problems(&alone).is_empty());
        assert_eq!(warnings(&alone), ["featureGates.MaxUnavailableStatefulSet: true has no effect here"]);
    }

    #[test]
    fn the_gates_of_a_policy_win() {
        let study = study("GenericWorkload: true", "GenericWorkload: false, WindowsHostNetwork: true", "");
        let of = |at: usize| of_policy(&study, &study.policies[at]).get("GenericWorkload").copied();
        assert_eq!((of(0), of(1)), (Some(true), Some(false)));
        assert_eq!(warnings(&study), ["policies[1].featureGates.WindowsHostNetwork: true has no effect here"]);
    }
}
