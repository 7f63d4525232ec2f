//! Metrics of admission plugins: durations and rejections.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/metrics.

use crate::operation::Operation;
use component_base::env::Env;
use component_base::metrics::{Histograms, Labels};
use prometheus_client::metrics::histogram::Histogram;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Upper bounds in seconds, as kube-apiserver's.
const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
/// Number of combinations of operation and half of the chain.
const CELLS: usize = 4 * 2;

/// Half of the chain: `admit` mutates, `validate` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Admit,
    Validate,
}

impl Half {
    fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        }
    }
}

/// Meters of one plugin or of a whole half of the chain. Those of admitted writes, the usual case, are looked up once.
#[derive(Clone, Debug)]
pub struct AdmissionMeter {
    family: Histograms,
    /// Name of the plugin; `None` for a half of the chain.
    name: Option<&'static str>,
    passed: Arc<[OnceLock<Histogram>; CELLS]>,
}

impl AdmissionMeter {
    pub fn of_plugin(env: &Env, name: &'static str) -> Self {
        let family = env.metrics().histograms(
            "apiserver_admission_controller_admission_duration_seconds",
            "Time that an admission plugin took",
            SECONDS,
        );
        Self { family, name: Some(name), passed: Arc::default() }
    }

    /// Returns the meter of all plugins of one half together.
    pub fn of_step(env: &Env) -> Self {
        let family = env.metrics().histograms(
            "apiserver_admission_step_admission_duration_seconds",
            "Time that all admission plugins took, mutating or validating",
            SECONDS,
        );
        Self { family, name: None, passed: Arc::default() }
    }

    pub fn observe(&self, operation: Operation, half: Half, rejected: bool, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        if rejected {
            self.family.get_or_create(&self.labels(operation, half, rejected)).observe(seconds);
            return;
        }
        let cell = &self.passed[operation as usize * 2 + half as usize];
        let made = || self.family.get_or_create_owned(&self.labels(operation, half, rejected));
        cell.get_or_init(made).observe(seconds);
    }

    fn labels(&self, operation: Operation, half: Half, rejected: bool) -> Labels {
        let mut labels: Labels = self.name.map(|name| ("name", name.to_owned())).into_iter().collect();
        labels.push(("operation", operation.as_str().to_owned()));
        labels.push(("rejected", rejected.to_string()));
        labels.push(("type", half.as_str().to_owned()));
        labels
    }
}
