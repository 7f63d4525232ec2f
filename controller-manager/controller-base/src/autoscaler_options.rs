//! `AutoscalerOptions`: the flags of the controller of HorizontalPodAutoscalers.
//!
//! Corresponds to cmd/kube-controller-manager/app/options/hpacontroller.go.

use clap::Args;
use component_base::duration::parse_duration;
use std::time::Duration;

/// Shortest period. With none at all, the controller would do nothing but ask for metrics.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

#[derive(Args, Clone, Debug)]
pub struct AutoscalerOptions {
    /// Horizontal pod autoscalers that are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_horizontal_pod_autoscaler_syncs: usize,
    /// How often the metrics of an autoscaler are read
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    pub horizontal_pod_autoscaler_sync_period: Duration,
    /// How long the highest recommendation holds before an autoscaler scales down
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// How long after a pod's start its CPU counts only while it is ready
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// How long after a pod's start a change to unready counts as its initial state
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub horizontal_pod_autoscaler_initial_readiness_delay: Duration,
    /// Fraction of the target by which a metric may differ from it without a change of size
    #[arg(long, default_value_t = 0.1)]
    pub horizontal_pod_autoscaler_tolerance: f64,
}

impl AutoscalerOptions {
    pub fn sync_period(&self) -> Duration {
        self.horizontal_pod_autoscaler_sync_period.max(SHORTEST_PERIOD)
    }
}
