//! The feature gates of a study: which component has which, and what is wrong with them.

use component_base::options::feature_gates::{self, GateValues};
use experiments::study::{Depth, Policy, Study};

const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
/// Gates that `podGroups` of a workload switches on.
const OF_POD_GROUPS: [&str; 2] = ["GenericWorkload", "GangScheduling"];

/// Returns the gates of a cell with this policy. Those of the policy win over those of the study.
pub fn of_policy(study: &Study, policy: &Policy) -> GateValues {
    study.feature_gates.iter().chain(&policy.feature_gates).map(|(name, is_on)| (name.clone(), *is_on)).collect()
}

/// Returns every mistake, with its path.
pub fn problems(study: &Study) -> Vec<String> {
    let components = components(study);
    let is_known = |name: &str| components.iter().any(|component| has(component, name));
    let unknown = named(study).filter(|(_, name, _)| !is_known(name));
    let mut found: Vec<String> =
        unknown.map(|(path, name, _)| format!("{path}.{name}: unrecognized feature gate: {name}")).collect();
    if let Some(at) = study.workloads.iter().position(|workload| workload.pod_groups) {
        let off = named(study).filter(|(_, name, is_on)| !is_on && OF_POD_GROUPS.contains(name));
        found.extend(off.map(|(path, name, _)| format!("{path}.{name}: podGroups of workloads[{at}] need it")));
    }
    if !found.is_empty() {
        return found;
    }
    // A workload without PodGroups has the gates that are named, and no others.
    let has_groups = study.workloads.iter().all(|workload| workload.pod_groups);
    let check = |values: GateValues| {
        let of = |component: &&str| {
            let mut own: GateValues = values.clone().into_iter().filter(|(name, _)| has(component, name)).collect();
            if has_groups {
                own.extend(OF_POD_GROUPS.map(|name| (name.to_owned(), true)));
            }
            feature_gates::check(component, &own).err()
        };
        components.iter().find_map(of)
    };
    if let Some(why) = check(study.feature_gates.clone()) {
        return vec![format!("featureGates: {why}")];
    }
    let of_policies = study.policies.iter().enumerate().filter(|(_, policy)| !policy.feature_gates.is_empty());
    let errors = of_policies.filter_map(|(at, policy)| Some((at, check(of_policy(study, policy))?)));
    errors.map(|(at, why)| format!("policies[{at}].featureGates: {why}")).collect()
}

/// Returns a line for each gate that is known and switches nothing in the components that run.
pub fn warnings(study: &Study) -> Vec<String> {
    let components = components(study);
    let is_idle = |name: &str| {
        let switches = |component: &&str| feature_gates::switches(component, name).is_some();
        components.iter().any(|component| has(component, name)) && !components.iter().any(switches)
    };
    let idle = named(study).filter(|(_, name, _)| is_idle(name));
    idle.map(|(path, name, is_on)| format!("{path}.{name}: {is_on} has no effect here")).collect()
}

/// Returns each gate that the study names, with the path of its map.
fn named(study: &Study) -> impl Iterator<Item = (String, &str, bool)> {
    let own = std::iter::once(("featureGates".to_owned(), &study.feature_gates));
    let policies = study.policies.iter().enumerate();
    let all = own.chain(policies.map(|(at, policy)| (format!("policies[{at}].featureGates"), &policy.feature_gates)));
    all.flat_map(|(path, gates)| gates.iter().map(move |(name, is_on)| (path.clone(), name.as_str(), *is_on)))
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
    let unrecognized = format!("unrecognized feature gate: {name}");
    !feature_gates::check(component, &asked).is_err_and(|why| why == unrecognized)
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
        let study = study("GenericWorkload: true", "GenericWorkload: false, WindowsHostNetwork: true, Gangs: true", "");
        let of = |at: usize| of_policy(&study, &study.policies[at]).get("GenericWorkload").copied();
        assert_eq!((of(0), of(1)), (Some(true), Some(false)));
        assert_eq!(warnings(&study), ["policies[1].featureGates.WindowsHostNetwork: true has no effect here"]);
    }
}
