//! The pod failure policy and the success policy of a job.
//!
//! Corresponds to pkg/controller/job/pod_failure_policy.go and success_policy.go.

use super::indexes::{self, Indexes};
use proto::Kind;
use proto::kinds::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy,
};
use proto::kinds::api::core::v1::{ContainerStatus, Pod};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureAction {
    /// The failure counts against the back-off limit.
    Count,
    /// The failure does not count.
    Ignore,
    FailIndex,
    /// The job has failed, with this message.
    FailJob(String),
}

/// Returns the action of the first rule that matches.
pub fn failure_action(policy: Option<&PodFailurePolicy>, pod: &Pod) -> FailureAction {
    let Some((i, rule, match_)) = matching_rule(policy, pod) else { return FailureAction::Count };
    match rule.action.as_str() {
        "Ignore" => FailureAction::Ignore,
        "FailIndex" => FailureAction::FailIndex,
        "FailJob" => FailureAction::FailJob(format!("{match_} matching FailJob rule at index {i}")),
        _ => FailureAction::Count,
    }
}

/// Returns the first rule that matches, with its index and a description.
pub fn matching_rule<'a>(
    policy: Option<&'a PodFailurePolicy>,
    pod: &Pod,
) -> Option<(usize, &'a PodFailurePolicyRule, String)> {
    let mut rules = policy.iter().flat_map(|policy| policy.rules.iter().enumerate());
    rules.find_map(|(i, rule)| Some((i, rule, matches(rule, pod)?)))
}

/// Describes how a rule matches a pod; `None` if it does not.
fn matches(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    if let Some(requirement) = &rule.on_exit_codes {
        let status = pod.status.as_ref()?;
        let regular = status.container_statuses.iter().flatten();
        let mut containers = regular.chain(status.init_container_statuses.iter().flatten());
        return containers.find_map(|container| {
            let exit_code = exit_code(requirement, container)?;
            let name = &container.name;
            Some(format!("Container {name} for pod {} failed with exit code {exit_code}", pod.key()))
        });
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let pattern = rule.on_pod_conditions.iter().flatten().find(|pattern| {
        let wanted = pattern.status.as_deref().unwrap_or("True");
        conditions.iter().any(|condition| condition.type_ == pattern.type_ && condition.status == wanted)
    })?;
    Some(format!("Pod {} has condition {}", pod.key(), pattern.type_))
}

fn exit_code(requirement: &PodFailurePolicyOnExitCodesRequirement, container: &ContainerStatus) -> Option<i32> {
    if requirement.container_name.as_ref().is_some_and(|name| *name != container.name) {
        return None;
    }
    let exit_code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_listed = requirement.values.contains(&exit_code);
    let is_match = if requirement.operator == "NotIn" { !is_listed } else { is_listed };
    (exit_code != 0 && is_match).then_some(exit_code)
}

/// Returns the message of the first rule that the succeeded indexes satisfy.
pub fn success_message(policy: &SuccessPolicy, succeeded: &Indexes, completions: i32) -> Option<String> {
    let met = |rule: &proto::kinds::api::batch::v1::SuccessPolicyRule| {
        let wanted = rule.succeeded_indexes.as_deref().map(|text| indexes::parse(text, completions));
        let relevant = wanted.as_ref().map_or(succeeded.len(), |wanted| succeeded.intersection(wanted).count());
        match (rule.succeeded_count, &wanted) {
            (Some(count), _) => relevant >= usize::try_from(count).unwrap_or(usize::MAX),
            (None, Some(wanted)) => relevant >= wanted.len(),
            (None, None) => false,
        }
    };
    let i = policy.rules.iter().position(met)?;
    Some(format!("Matched rules at index {i}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::batch::v1::{PodFailurePolicyOnPodConditionsPattern, SuccessPolicyRule};
    use proto::kinds::api::core::v1::{ContainerState, ContainerStateTerminated};

    fn exited(code: i32) -> Pod {
        let mut pod = fixture::pod("sum-0");
        let terminated = ContainerStateTerminated { exit_code: code, ..ContainerStateTerminated::default() };
        let state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
        let status = ContainerStatus { name: "main".to_owned(), state: Some(state), ..ContainerStatus::default() };
        pod.status.get_or_insert_default().container_statuses = Some(vec![status]);
        pod
    }

    fn rule(action: &str, operator: &str, values: &[i32]) -> PodFailurePolicyRule {
        PodFailurePolicyRule {
            action: action.to_owned(),
            on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
                container_name: None,
                operator: operator.to_owned(),
                values: values.to_vec(),
            }),
            on_pod_conditions: None,
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let disrupted = PodFailurePolicyRule {
            action: "Ignore".to_owned(),
            on_exit_codes: None,
            on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                type_: "DisruptionTarget".to_owned(),
                status: Some("True".to_owned()),
            }]),
        };
        let policy = PodFailurePolicy {
            rules: vec![disrupted, rule("FailJob", "In", &[42]), rule("FailIndex", "NotIn", &[1, 2])],
        };
        let fail = "Container main for pod default/sum-0 failed with exit code 42 matching FailJob rule at index 1";
        let cases = [
            (42, FailureAction::FailJob(fail.to_owned())),
            (1, FailureAction::Count),
            (7, FailureAction::FailIndex),
            (0, FailureAction::Count),
        ];
        for (code, expected) in cases {
            assert_eq!(failure_action(Some(&policy), &exited(code)), expected, "exit code {code}");
        }
        let mut evicted = exited(42);
        fixture::set_condition(&mut evicted, "DisruptionTarget", "True", fixture::at(0));
        assert_eq!(failure_action(Some(&policy), &evicted), FailureAction::Ignore);
        assert_eq!(failure_action(None, &exited(42)), FailureAction::Count);
    }

    #[test]
    fn success_can_come_early() {
        let rule = |indexes: Option<&str>, count: Option<i32>| SuccessPolicyRule {
            succeeded_indexes: indexes.map(str::to_owned),
            succeeded_count: count,
        };
        let cases = [
            (rule(Some("0"), None), &[0][..], true),
            (rule(Some("0,2"), None), &[0, 1], false),
            (rule(Some("0-3"), Some(2)), &[1, 3, 7], true),
            (rule(Some("0-3"), Some(2)), &[1, 7], false),
            (rule(None, Some(3)), &[1, 3, 7], true),
            (rule(None, Some(4)), &[1, 3, 7], false),
        ];
        for (rule, succeeded, expected) in cases {
            let policy = SuccessPolicy { rules: vec![rule.clone()] };
            let met = success_message(&policy, &succeeded.iter().copied().collect(), 10).is_some();
            assert_eq!(met, expected, "{rule:?} {succeeded:?}");
        }
    }
}
