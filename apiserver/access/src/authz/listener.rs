//! Records each authorizer's decision in a trace of the request.

use super::attributes::{Attributes, Decision, Listener, Verdict};
use super::chain::Link;
use super::mode::Mode;
use request::trace::{Step, StepOutcome};
use request::user_info::MASTERS;

/// The origin of a verdict.
#[derive(Debug, Default)]
pub struct Explanation {
    /// Used when the authorizer itself gives no reason.
    pub why: &'static str,
    pub details: Vec<String>,
}

impl Explanation {
    pub fn of(rule: Option<String>) -> Self {
        Self { details: rule.into_iter().collect(), ..Self::default() }
    }
}

impl Listener<'_> {
    pub fn record_master(self, attributes: &Attributes<'_>) {
        let step =
            Step::new(self.gate, MASTERS, StepOutcome::Passed).because("no authorizer is asked about its members");
        self.add(attributes, step);
    }

    pub fn record(
        self,
        link: &Link,
        attributes: &Attributes<'_>,
        verdict: &Verdict,
        explain: impl FnOnce() -> Explanation,
    ) {
        let (outcome, reason) = match &verdict.decision {
            Decision::Allow(reason) => (StepOutcome::Passed, reason),
            Decision::NoOpinion(reason) => (StepOutcome::NoOpinion, reason),
            Decision::Deny(reason) => (StepOutcome::Refused, reason),
        };
        let Explanation { why, details } = explain();
        let given = [reason.as_str(), verdict.error.as_str(), why].into_iter().find(|reason| !reason.is_empty());
        let by = match link.mode {
            Mode::Webhook => format!("{} {}", link.mode, link.name),
            mode => mode.to_string(),
        };
        self.add(attributes, Step::new(self.gate, by, outcome).because(given.unwrap_or_default()).details(details));
    }

    fn add(self, attributes: &Attributes<'_>, step: Step) {
        self.steps.add(Step { question: question(attributes), ..step });
    }
}

/// Formats the question, such as `create pods in the namespace default` or `get /metrics`.
fn question(attributes: &Attributes<'_>) -> String {
    let Attributes { verb, name, namespace, group, path, .. } = attributes;
    if let Some(path) = path {
        return format!("{verb} {path}");
    }
    let mut question = format!("{verb} {}", attributes.resource_and_subresource());
    for (before, what) in [(".", group), (" ", name), (" in the namespace ", namespace)] {
        if !what.is_empty() {
            question.push_str(before);
            question.push_str(what);
        }
    }
    question
}

#[cfg(test)]
mod tests {
    use super::*;
    use request::UserInfo;

    #[test]
    fn a_question_can_be_read() {
        let ann = UserInfo::new("ann", &[]);
        let of = |verb, group, resource| Attributes::of_resource(&ann, verb, group, resource);
        for (attributes, expected) in [
            (of("list", "", "nodes"), "list nodes"),
            (Attributes { namespace: "shop", ..of("create", "", "pods") }, "create pods in the namespace shop"),
            (
                Attributes { namespace: "shop", name: "web", subresource: "scale", ..of("get", "apps", "deployments") },
                "get deployments/scale.apps web in the namespace shop",
            ),
            (Attributes::of_path(&ann, "get", "/metrics"), "get /metrics"),
        ] {
            assert_eq!(question(&attributes), expected);
        }
    }
}
