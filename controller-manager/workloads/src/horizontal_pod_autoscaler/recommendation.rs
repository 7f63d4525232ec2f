//! `Recommendation`: the largest size that any metric of an autoscaler asks for.
//!
//! Corresponds to computeReplicasForMetrics in pkg/controller/podautoscaler/horizontal.go.

use super::source::{Failure, Proposal};
use proto::kinds::api::autoscaling::v2::MetricStatus;

/// The result of one look at an autoscaler's metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// The reasons and messages of warnings, in order.
    pub warnings: Vec<(&'static str, String)>,
    /// The status of each metric; `None` if the target's pods are not known.
    pub statuses: Option<Vec<MetricStatus>>,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// A size, and the name of the metric that asks for it.
    Size { replicas: i32, metric: String },
    /// The reason and message of the condition `ScalingActive`, and the text of the event that says so.
    Unknown { reason: &'static str, message: String, error: String },
}

impl Recommendation {
    /// Returns what follows from a selector that does not say which pods to measure.
    pub fn without_pods(reason: &'static str, error: &str) -> Self {
        let (in_condition, message) = match reason {
            "SelectorRequired" => ("InvalidSelector", "the HPA target's scale is missing a selector"),
            _ => (reason, error),
        };
        Self {
            warnings: vec![(reason, error.to_owned())],
            statuses: None,
            verdict: Verdict::Unknown { reason: in_condition, message: message.to_owned(), error: error.to_owned() },
        }
    }

    /// Takes the largest proposal. While a metric is unknown, the target does not get smaller than `wanted`: the unknown
    /// metric might ask for more.
    pub fn of(proposals: Vec<Result<Proposal, Failure>>, wanted: i32) -> Self {
        let all = proposals.len();
        let mut warnings = Vec::new();
        let mut statuses = Vec::new();
        let mut first_failure = None;
        let mut size: Option<(i32, String)> = None;
        for proposal in proposals {
            match proposal {
                Ok(Proposal { replicas, metric, status }) => {
                    statuses.push(status);
                    let is_larger = size.as_ref().is_none_or(|(most, _)| *most == 0 || replicas > *most);
                    if is_larger {
                        size = Some((replicas, metric));
                    }
                }
                Err(failure) => {
                    statuses.push(MetricStatus::default());
                    warnings.push((failure.reason, failure.message.clone()));
                    first_failure.get_or_insert(failure);
                }
            }
        }
        let failed = warnings.len();
        let verdict = match (first_failure, size) {
            (Some(failure), size) if size.as_ref().is_none_or(|(replicas, _)| *replicas < wanted) => {
                let Failure { reason, message, error } = failure;
                Verdict::Unknown {
                    reason,
                    message: format!("the HPA was unable to compute the replica count: {message}"),
                    error: format!("invalid metrics ({failed} invalid out of {all}), first error is: {error}"),
                }
            }
            (_, size) => {
                let (replicas, metric) = size.unwrap_or_default();
                Verdict::Size { replicas, metric }
            }
        };
        Self { warnings, statuses: Some(statuses), verdict }
    }

    /// Returns the size that the metrics ask for, before anything limits it.
    pub fn size(&self) -> Option<i32> {
        match &self.verdict {
            Verdict::Size { replicas, .. } => Some((*replicas).max(0)),
            Verdict::Unknown { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, replicas: i32) -> Result<Proposal, Failure> {
        Ok(Proposal { replicas, metric: name.to_owned(), status: MetricStatus::default() })
    }

    fn unknown(reason: &'static str) -> Result<Proposal, Failure> {
        Err(Failure { reason, message: "gone".to_owned(), error: "failed: gone".to_owned() })
    }

    #[test]
    fn the_largest_counts_and_an_unknown_metric_forbids_to_shrink() {
        let of = |metrics: Vec<Result<Proposal, Failure>>| {
            let recommendation = Recommendation::of(metrics, 5);
            match recommendation.verdict {
                Verdict::Size { replicas, metric } => format!("{replicas} by {metric}"),
                Verdict::Unknown { reason, error, .. } => format!("{reason}: {error}"),
            }
        };
        assert_eq!(of(vec![metric("cpu", 3), metric("queue", 8), metric("memory", 4)]), "8 by queue");
        assert_eq!(of(vec![metric("cpu", 3), metric("queue", 3)]), "3 by cpu");
        assert_eq!(of(vec![metric("cpu", 0), metric("queue", 0)]), "0 by queue", "as in Kubernetes");
        let first = "FailedGetPodsMetric: invalid metrics (1 invalid out of 2), first error is: failed: gone";
        assert_eq!(of(vec![metric("cpu", 3), unknown("FailedGetPodsMetric")]), first);
        assert_eq!(of(vec![unknown("FailedGetPodsMetric"), metric("cpu", 5)]), "5 by cpu");
        let all = "FailedGetPodsMetric: invalid metrics (2 invalid out of 2), first error is: failed: gone";
        assert_eq!(of(vec![unknown("FailedGetPodsMetric"), unknown("FailedGetObjectMetric")]), all);
    }

    #[test]
    fn every_unknown_metric_is_an_event() {
        let recommendation = Recommendation::of(
            vec![unknown("FailedGetPodsMetric"), metric("cpu", 9), unknown("FailedGetObjectMetric")],
            5,
        );
        let reasons: Vec<&str> = recommendation.warnings.iter().map(|(reason, _)| *reason).collect();
        assert_eq!(reasons, ["FailedGetPodsMetric", "FailedGetObjectMetric"]);
        assert_eq!(recommendation.statuses.map(|statuses| statuses.len()), Some(3));
        assert_eq!(recommendation.verdict, Verdict::Size { replicas: 9, metric: "cpu".to_owned() });
    }
}
