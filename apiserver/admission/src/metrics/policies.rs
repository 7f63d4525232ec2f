//! Metrics of CEL policies: decisions, and durations of expressions.
//!
//! Corresponds to the metrics of k8s.io/apiserver/pkg/admission/plugin/policy/validating and /mutating.

use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, Labels};
use std::time::Duration;

/// Upper bounds in seconds, as kube-apiserver's.
const SECONDS: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];

#[derive(Clone, Debug)]
pub struct PolicyMeters {
    checks: Counters,
    durations: Histograms,
}

impl PolicyMeters {
    pub fn of_validation(env: &Env) -> Self {
        let checks = "apiserver_validating_admission_policy_check_total";
        let durations = "apiserver_validating_admission_policy_check_duration_seconds";
        Self {
            checks: env.metrics().counters(checks, "Validations by policy, binding, error and what followed"),
            durations: env.metrics().histograms(durations, "Time that a validation of a policy took", SECONDS),
        }
    }

    pub fn of_mutation(env: &Env) -> Self {
        let checks = "apiserver_mutating_admission_policy_check_total";
        let durations = "apiserver_mutating_admission_policy_check_duration_seconds";
        Self {
            checks: env.metrics().counters(checks, "Mutations by policy, binding and error"),
            durations: env.metrics().histograms(durations, "Time that a mutation of a policy took", SECONDS),
        }
    }

    /// `error` is the kind of an expression's error, and `action` the enforcement action, if the metric has one.
    pub fn observe(
        &self,
        policy: &str,
        binding: &str,
        error: Option<ErrorType>,
        action: Option<&'static str>,
        elapsed: Duration,
    ) {
        let action = action.map(|action| ("enforcement_action", action.to_owned()));
        let labels: Labels = action
            .into_iter()
            .chain([
                ("error_type", error.map_or("no_error", ErrorType::label).to_owned()),
                ("policy", policy.to_owned()),
                ("policy_binding", binding.to_owned()),
            ])
            .collect();
        self.checks.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }
}

/// Kind of an error as the label `error_type` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    Compile,
    OutOfBudget,
    Invalid,
}

impl ErrorType {
    fn label(self) -> &'static str {
        match self {
            Self::Compile => "compile_error",
            Self::OutOfBudget => "out_of_budget",
            Self::Invalid => "invalid_error",
        }
    }
}
