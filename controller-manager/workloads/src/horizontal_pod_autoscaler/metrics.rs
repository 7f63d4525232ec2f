//! `AutoscalerMetrics`: how many rounds autoscalers had, with which result, and how long each metric took.
//!
//! Corresponds to pkg/controller/podautoscaler/monitor.

use super::plan::Observed;
use super::recommendation::Verdict;
use super::source::{Failure, Proposal};
use super::target::resized_to;
use client::Plan;
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, Labels};
use proto::kinds::api::autoscaling::v2::MetricSpec;
use std::time::Duration;

/// From a millisecond to sixteen seconds, twofold each.
const SECONDS: &[f64] =
    &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];

#[derive(Clone, Debug)]
pub struct AutoscalerMetrics {
    rounds: Counters,
    computations: Counters,
    computation_durations: Histograms,
}

impl AutoscalerMetrics {
    pub fn new(env: &Env) -> Self {
        let help = "Number of reconciliations of HPA controller. The label 'action' should be either 'scale_down', \
                    'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'.";
        let rounds = env.metrics().counters("horizontal_pod_autoscaler_controller_reconciliations_total", help);
        let help = "Number of metric computations. The labels are those of the reconciliation, and 'metric_type'.";
        let computations =
            env.metrics().counters("horizontal_pod_autoscaler_controller_metric_computation_total", help);
        let help = "The time(seconds) that the HPA controller takes to calculate one metric.";
        let name = "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds";
        Self { rounds, computations, computation_durations: env.metrics().histograms(name, help, SECONDS) }
    }

    /// Counts a round by what it changed, and by whether it failed.
    pub fn count_round(&self, observed: &Observed, plan: &Plan, has_failed: bool) {
        let target = observed.target.as_ref().ok();
        let wanted = target.map_or(0, |target| target.scale.wanted());
        let size = plan.actions.iter().find_map(resized_to);
        let is_unknown = target
            .and_then(|target| target.recommendation.as_ref())
            .is_some_and(|asked| matches!(asked.verdict, Verdict::Unknown { .. }));
        let is_failure = has_failed || target.is_none() || is_unknown;
        self.rounds.get_or_create(&labels(size.unwrap_or(wanted), wanted, is_failure)).inc();
    }

    /// Counts what one metric asked for.
    pub fn count_computation(
        &self,
        spec: &MetricSpec,
        proposal: &Result<Proposal, Failure>,
        wanted: i32,
        took: Duration,
    ) {
        let asked = proposal.as_ref().map_or(wanted, |proposal| proposal.replicas);
        let mut labels = labels(asked, wanted, proposal.is_err());
        labels.push(("metric_type", spec.type_.clone()));
        self.computations.get_or_create(&labels).inc();
        self.computation_durations.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

fn labels(size: i32, wanted: i32, is_failure: bool) -> Labels {
    let action = match size.cmp(&wanted) {
        std::cmp::Ordering::Greater => "scale_up",
        std::cmp::Ordering::Less => "scale_down",
        std::cmp::Ordering::Equal => "none",
    };
    let error = if is_failure { "internal" } else { "none" };
    vec![("action", action.to_owned()), ("error", error.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::horizontal_pod_autoscaler::target::Scale;
    use std::sync::Arc;

    #[test]
    fn a_round_counts_by_change_and_failure() {
        let env = Env::simulated(1);
        let metrics = AutoscalerMetrics::new(&env);
        let autoscaler = Arc::default();
        let lost = Observed { autoscaler, target: Err("gone".to_owned()) };
        metrics.count_round(&lost, &Plan::default(), false);
        let known = Observed { target: Ok(Default::default()), ..lost };
        metrics.count_round(&known, &Plan::default(), false);
        metrics.count_round(&known, &Plan::of([Scale::default().resize(3)]), false);
        let text = env.metrics().encode();
        for labels in [
            "{action=\"none\",error=\"internal\"} 1",
            "{action=\"none\",error=\"none\"} 1",
            "{action=\"scale_up\",error=\"none\"} 1",
        ] {
            let line = format!("horizontal_pod_autoscaler_controller_reconciliations_total{labels}");
            assert!(text.lines().any(|written| written == line), "no {line} in\n{text}");
        }
    }
}
