//! `AuditOptions`: the flags of audit.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/options/audit.go.

use super::backend::{Batching, Mode};
use super::log::Rotation;
use super::truncation::Truncation;
use clap::{Args, ValueEnum};
use component_base::duration::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

/// Format of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // No doc comments: clap would turn the flag's help into a page for it.
    Json,
}

// No doc comment, as for `Config`.
#[derive(Args, Clone, Debug)]
pub struct AuditOptions {
    /// Policy (audit.k8s.io/v1) that selects which requests are recorded, and in which detail
    #[arg(long, value_name = "FILE")]
    pub audit_policy_file: Option<PathBuf>,
    /// File for audit events, one line each; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub audit_log_path: Option<PathBuf>,
    /// How events are written into the log
    #[arg(long, value_enum, default_value = "json", value_name = "FORMAT")]
    pub audit_log_format: Format,
    /// Days for which rotated logs are kept; 0 for ever
    #[arg(long, default_value_t = 366, value_name = "DAYS")]
    pub audit_log_maxage: u64,
    /// Number of rotated logs that are kept; 0 for all
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub audit_log_maxbackup: usize,
    /// Size in megabytes at which a log is rotated; 100 where it is 0
    #[arg(long, default_value_t = 100, value_name = "MEGABYTES")]
    pub audit_log_maxsize: u64,
    /// Compress rotated logs
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub audit_log_compress: bool,
    /// Whether requests wait for their events: batch, blocking, or blocking-strict, where they fail without
    #[arg(long, value_enum, default_value = "blocking", value_name = "MODE")]
    pub audit_log_mode: Mode,
    /// Events that may wait for the log in batch mode
    #[arg(long, default_value_t = 10000, value_name = "N")]
    pub audit_log_batch_buffer_size: usize,
    /// Events of a batch for the log
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub audit_log_batch_max_size: usize,
    /// How long a batch for the log waits to be full
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = parse_duration)]
    pub audit_log_batch_max_wait: Duration,
    /// Limit the batches for the log
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub audit_log_batch_throttle_enable: bool,
    /// Batches a second for the log, on average
    #[arg(long, default_value_t = 0.0, value_name = "RATE")]
    pub audit_log_batch_throttle_qps: f64,
    /// Batches for the log at once
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub audit_log_batch_throttle_burst: u32,
    /// Cut events for the log that are too large
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub audit_log_truncate_enabled: bool,
    /// Bytes of an event for the log, as JSON: a larger one loses its objects, and is lost if that is not enough
    #[arg(long, default_value_t = 102_400, value_name = "BYTES")]
    pub audit_log_truncate_max_event_size: usize,
    /// Bytes of a batch for the log; a larger one is split
    #[arg(long, default_value_t = 10_485_760, value_name = "BYTES")]
    pub audit_log_truncate_max_batch_size: usize,
    /// kubeconfig file of the server that audit events are sent to
    #[arg(long, value_name = "FILE")]
    pub audit_webhook_config_file: Option<PathBuf>,
    /// Pause before a webhook that failed is tried again
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = parse_duration)]
    pub audit_webhook_initial_backoff: Duration,
    /// Whether requests wait until their events are sent: batch, blocking, or blocking-strict, where they fail without
    #[arg(long, value_enum, default_value = "batch", value_name = "MODE")]
    pub audit_webhook_mode: Mode,
    /// Events that may wait for the webhook in batch mode
    #[arg(long, default_value_t = 10000, value_name = "N")]
    pub audit_webhook_batch_buffer_size: usize,
    /// Events of a batch for the webhook
    #[arg(long, default_value_t = 400, value_name = "N")]
    pub audit_webhook_batch_max_size: usize,
    /// How long a batch for the webhook waits to be full
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = parse_duration)]
    pub audit_webhook_batch_max_wait: Duration,
    /// Limit the batches for the webhook
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub audit_webhook_batch_throttle_enable: bool,
    /// Batches a second for the webhook, on average
    #[arg(long, default_value_t = 10.0, value_name = "RATE")]
    pub audit_webhook_batch_throttle_qps: f64,
    /// Batches for the webhook at once
    #[arg(long, default_value_t = 15, value_name = "N")]
    pub audit_webhook_batch_throttle_burst: u32,
    /// Cut events for the webhook that are too large
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub audit_webhook_truncate_enabled: bool,
    /// Bytes of an event for the webhook, as JSON: a larger one loses its objects, and is lost if that is not enough
    #[arg(long, default_value_t = 102_400, value_name = "BYTES")]
    pub audit_webhook_truncate_max_event_size: usize,
    /// Bytes of a batch for the webhook; a larger one is split
    #[arg(long, default_value_t = 10_485_760, value_name = "BYTES")]
    pub audit_webhook_truncate_max_batch_size: usize,
}

impl AuditOptions {
    pub fn rotation(&self) -> Rotation {
        Rotation {
            max_size_mb: self.audit_log_maxsize,
            max_age_days: self.audit_log_maxage,
            max_backups: self.audit_log_maxbackup,
            compress: self.audit_log_compress,
        }
    }

    pub fn log_batching(&self) -> Batching {
        Batching {
            buffer: self.audit_log_batch_buffer_size,
            max_size: self.audit_log_batch_max_size,
            max_wait: self.audit_log_batch_max_wait,
            throttle: self
                .audit_log_batch_throttle_enable
                .then_some((self.audit_log_batch_throttle_qps, self.audit_log_batch_throttle_burst)),
        }
    }

    pub fn webhook_batching(&self) -> Batching {
        Batching {
            buffer: self.audit_webhook_batch_buffer_size,
            max_size: self.audit_webhook_batch_max_size,
            max_wait: self.audit_webhook_batch_max_wait,
            throttle: self
                .audit_webhook_batch_throttle_enable
                .then_some((self.audit_webhook_batch_throttle_qps, self.audit_webhook_batch_throttle_burst)),
        }
    }

    pub fn log_truncation(&self) -> Option<Truncation> {
        self.audit_log_truncate_enabled.then_some(Truncation {
            max_event_bytes: self.audit_log_truncate_max_event_size,
            max_batch_bytes: self.audit_log_truncate_max_batch_size,
        })
    }

    pub fn webhook_truncation(&self) -> Option<Truncation> {
        self.audit_webhook_truncate_enabled.then_some(Truncation {
            max_event_bytes: self.audit_webhook_truncate_max_event_size,
            max_batch_bytes: self.audit_webhook_truncate_max_batch_size,
        })
    }
}
