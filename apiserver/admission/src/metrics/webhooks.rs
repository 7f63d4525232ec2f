//! Metrics of admission webhooks: durations, rejections, and failures that `failurePolicy: Ignore` ignores.
//!
//! Corresponds to the webhook part of k8s.io/apiserver/pkg/admission/metrics.

use crate::operation::Operation;
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms};
use std::time::Duration;

/// Upper bounds in seconds, as kube-apiserver's.
const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// Cause of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    CallingWebhook,
    ApiserverInternal,
    /// The webhook denied the request.
    None,
}

impl ErrorType {
    fn as_str(self) -> &'static str {
        match self {
            Self::CallingWebhook => "calling_webhook_error",
            Self::ApiserverInternal => "apiserver_internal_error",
            Self::None => "no_error",
        }
    }
}

/// Meters of all webhooks of one type.
#[derive(Clone, Debug)]
pub struct WebhookMeter {
    /// `admit` or `validating`.
    kind: &'static str,
    duration: Histograms,
    requests: Counters,
    rejections: Counters,
    fail_opens: Counters,
}

/// One finished call.
#[derive(Clone, Copy, Debug)]
pub struct Called {
    pub operation: Operation,
    pub elapsed: Duration,
    pub code: u16,
    /// The cause, if the request failed.
    pub rejected: Option<ErrorType>,
}

impl WebhookMeter {
    pub fn new(env: &Env, kind: &'static str) -> Self {
        let metrics = env.metrics();
        Self {
            kind,
            duration: metrics.histograms(
                "apiserver_admission_webhook_admission_duration_seconds",
                "Time that an admission webhook took",
                SECONDS,
            ),
            requests: metrics.counters("apiserver_admission_webhook_request_total", "Requests to an admission webhook"),
            rejections: metrics.counters(
                "apiserver_admission_webhook_rejection_count",
                "Requests that failed by an admission webhook, and why",
            ),
            fail_opens: metrics.counters(
                "apiserver_admission_webhook_fail_open_count",
                "Failures of an admission webhook that were overlooked",
            ),
        }
    }

    pub fn observe(&self, name: &str, called: Called) {
        let Called { operation, elapsed, code, rejected } = called;
        let name = ("name", name.to_owned());
        let operation = ("operation", operation.as_str().to_owned());
        let kind = ("type", self.kind.to_owned());
        let is_rejected = ("rejected", rejected.is_some().to_string());
        let labels = vec![name.clone(), operation.clone(), is_rejected.clone(), kind.clone()];
        self.duration.get_or_create(&labels).observe(elapsed.as_secs_f64());
        let labels = vec![("code", code.to_string()), name.clone(), operation.clone(), is_rejected, kind.clone()];
        self.requests.get_or_create(&labels).inc();
        if let Some(why) = rejected {
            let code = ("rejection_code", code.to_string());
            let labels = vec![("error_type", why.as_str().to_owned()), name, operation, code, kind];
            self.rejections.get_or_create(&labels).inc();
        }
    }

    pub fn failed_open(&self, name: &str) {
        let labels = vec![("name", name.to_owned()), ("type", self.kind.to_owned())];
        self.fail_opens.get_or_create(&labels).inc();
    }
}
