//! `Place`: a volume on one node as it was observed, and when it may leave the node.
//!
//! Corresponds to reconcile in pkg/controller/volume/attachdetach/reconciler.

use super::attachment;
use super::ledger::Reports;
use component_helpers::volumes::csi_volume::{self, CsiVolume};
use controller_base::clock;
use jiff::{SignedDuration, Timestamp};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use proto::kinds::api::storage::v1::VolumeAttachment;
use proto::meta::node_taints::OUT_OF_SERVICE;
use std::sync::Arc;
use std::time::Duration;

/// Annotation of a node whose volumes this controller attaches; nodes without it do so themselves.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// How long an unhealthy node may take to unmount a volume.
const MAX_WAIT_FOR_UNMOUNT: SignedDuration = SignedDuration::from_mins(6);
/// How long a driver may take to attach a volume before that counts as a failure.
const ATTACH_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
/// The first delay between failed attempts, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(122));

/// A volume on a node.
#[derive(Clone, Debug)]
pub struct Place {
    pub volume: CsiVolume,
    pub node_name: String,
    pub node: Option<Arc<Node>>,
    /// The pods of the node that use the volume, by name.
    pub pods: Vec<Arc<Pod>>,
    pub attachment: Option<Arc<VolumeAttachment>>,
    /// Since when no pod of the node uses the volume.
    pub unwanted_since: Option<Timestamp>,
    pub reports: Reports,
}

/// When a volume may leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    Never,
    At(Timestamp),
}

/// An attempt to attach that has failed or will have: what is wrong, and from when on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub at: Timestamp,
}

impl Place {
    pub fn is_wanted(&self) -> bool {
        !self.pods.is_empty()
    }

    /// Returns true if the node exists and leaves attaching to this controller.
    pub fn is_managed(&self) -> bool {
        let annotations = self.node.as_ref().and_then(|node| node.metadata.annotations.as_ref());
        annotations.is_some_and(|annotations| annotations.contains_key(MANAGED))
    }

    /// Returns true if the node's status lists the volume as attached.
    pub fn is_reported(&self) -> bool {
        self.node.as_ref().is_some_and(|node| csi_volume::is_attached(node, &self.volume.unique_name()))
    }

    pub fn is_attached(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment::is_attached(attachment))
    }

    /// Returns true if the volume is attached to the node, or may be.
    pub fn is_held(&self) -> bool {
        self.attachment.is_some() || self.is_reported()
    }

    /// Returns when the volume may leave: at once when it is not mounted, and otherwise by force, if at all.
    pub fn departure(&self, forces_detach: bool) -> Departure {
        let Some(since) = self.unwanted_since.filter(|_| !self.is_wanted()) else { return Departure::Never };
        if !self.is_in_use() || self.is_out_of_service() {
            return Departure::At(since);
        }
        if forces_detach && !self.is_ready() {
            return Departure::At(since.saturating_add(MAX_WAIT_FOR_UNMOUNT).unwrap_or(Timestamp::MAX));
        }
        Departure::Never
    }

    /// Returns why the volume leaves a node that has mounted it, or may have; `None` if it has not.
    pub fn force(&self) -> Option<&'static str> {
        self.is_in_use().then(|| if self.is_out_of_service() { "out-of-service" } else { "timeout" })
    }

    /// Returns true if the node has mounted the volume. A node that is gone cannot say, so it counts as one that has.
    fn is_in_use(&self) -> bool {
        self.node.as_ref().is_none_or(|node| csi_volume::is_in_use(node, &self.volume.unique_name()))
    }

    fn is_out_of_service(&self) -> bool {
        let spec = self.node.as_ref().and_then(|node| node.spec.as_ref());
        spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == OUT_OF_SERVICE)
    }

    fn is_ready(&self) -> bool {
        let status = self.node.as_ref().and_then(|node| node.status.as_ref());
        let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// Returns the attempt to attach that has failed, or will have failed at a later time; `None` if the volume is
    /// attached. After a failure the next attempt begins with a delay.
    pub fn failure(&self) -> Option<Failure> {
        let attachment = self.attachment.as_ref().filter(|_| !self.is_attached())?;
        let created = attachment.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let begun = match self.reports.last_failure {
            Some(last) => last.saturating_add(back_off(self.reports.failures)).unwrap_or(Timestamp::MAX),
            None => created,
        };
        if attachment.is_deleting() {
            return Some(Failure { message: "volume attachment is being deleted".to_owned(), at: begun });
        }
        if let Some(error) = attachment::error(attachment) {
            return Some(Failure { message: error.to_owned(), at: begun });
        }
        let CsiVolume { driver, handle } = &self.volume;
        let message =
            format!("timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}");
        Some(Failure { message, at: begun.saturating_add(ATTACH_TIMEOUT).unwrap_or(Timestamp::MAX) })
    }
}

impl Departure {
    /// Returns true if the volume may leave now.
    pub fn is_due(self, now: Timestamp) -> bool {
        matches!(self, Departure::At(at) if at <= now)
    }

    /// Returns the time until the volume may leave; `None` if that is now or never.
    pub fn wait(self, now: Timestamp) -> Option<Duration> {
        match self {
            Departure::At(at) if at > now => Some(clock::until(at, now)),
            _ => None,
        }
    }
}

/// Returns the delay after so many failed attempts.
fn back_off(failures: u32) -> Duration {
    let (first, longest) = BACK_OFF;
    (first * 2_u32.pow(failures.saturating_sub(1).min(16))).min(longest)
}
