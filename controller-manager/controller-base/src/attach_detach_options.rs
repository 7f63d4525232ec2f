//! The flags of the attach-detach controller.
//!
//! Corresponds to cmd/kube-controller-manager/app/options/attachdetachcontroller.go.

use clap::Args;
use component_base::duration::parse_duration;
use std::time::Duration;

/// A shorter period switches the comparison off, as in kube-controller-manager.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

#[derive(Args, Clone, Debug)]
pub struct AttachDetachOptions {
    /// Trust that what a node's status lists as attached is attached, without looking at its VolumeAttachment
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub disable_attach_detach_reconcile_sync: bool,
    /// How long it takes at most until a VolumeAttachment is missed that somebody has deleted
    #[arg(long, default_value = "1m", value_parser = parse_duration)]
    pub attach_detach_reconcile_sync_period: Duration,
    /// Never detach a volume that an unhealthy node may still have mounted
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub disable_force_detach_on_timeout: bool,
}

impl AttachDetachOptions {
    /// Returns how often reported volumes are compared with their attachments; `None` for never.
    pub fn sync_period(&self) -> Option<Duration> {
        let period = self.attach_detach_reconcile_sync_period;
        (!self.disable_attach_detach_reconcile_sync && period >= SHORTEST_PERIOD).then_some(period)
    }
}
