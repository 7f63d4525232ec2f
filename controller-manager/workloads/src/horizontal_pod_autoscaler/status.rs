//! `Draft`: the status that an autoscaler gets after a round.
//!
//! Corresponds to setCondition, setStatus and updateStatusIfNeeded in pkg/controller/podautoscaler/horizontal.go.

use client::Action;
use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus, MetricStatus,
};
use proto::meta::condition;

pub const ABLE_TO_SCALE: &str = "AbleToScale";
pub const SCALING_ACTIVE: &str = "ScalingActive";
pub const SCALING_LIMITED: &str = "ScalingLimited";

#[derive(Clone, Debug)]
pub struct Draft<'a> {
    autoscaler: &'a HorizontalPodAutoscaler,
    status: HorizontalPodAutoscalerStatus,
    now: Timestamp,
}

impl<'a> Draft<'a> {
    /// Begins with the status as it is.
    pub fn of(autoscaler: &'a HorizontalPodAutoscaler, now: Timestamp) -> Self {
        Self { autoscaler, status: autoscaler.status.clone().unwrap_or_default(), now }
    }

    pub fn set(&mut self, type_: &str, is_true: bool, reason: &str, message: impl Into<String>) {
        let condition = HorizontalPodAutoscalerCondition {
            type_: type_.to_owned(),
            status: if is_true { "True" } else { "False" }.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.into()),
            ..HorizontalPodAutoscalerCondition::default()
        };
        let conditions = self.status.conditions.get_or_insert_default();
        condition::set(conditions, condition, clock::stamp(self.now).0);
    }

    /// Records the size that was found, and what the metrics said.
    pub fn observe(&mut self, wanted: i32, metrics: Option<Vec<MetricStatus>>) {
        // Zero is left out on the wire, as in Kubernetes.
        self.status.current_replicas = Some(wanted).filter(|wanted| *wanted != 0);
        self.status.current_metrics = metrics.filter(|metrics| !metrics.is_empty());
    }

    pub fn desire(&mut self, replicas: i32) {
        self.status.desired_replicas = replicas;
    }

    pub fn resized(&mut self) {
        self.status.last_scale_time = Some(clock::stamp(self.now));
    }

    /// Returns the update, unless the status is as before.
    pub fn update(self) -> Option<Action> {
        if self.autoscaler.status.clone().unwrap_or_default() == self.status {
            return None;
        }
        Some(Action::update_status(&HorizontalPodAutoscaler { status: Some(self.status), ..self.autoscaler.clone() }))
    }
}
