//! Mounting a pod's volumes and preparing its devices, which come before its sandbox.
//!
//! Corresponds to WaitForAttachAndMount of pkg/kubelet/volumemanager. A volume that cannot be mounted holds the whole
//! pod back, as does a device that cannot be prepared; both are tried again.

use crate::container::back_off::BackOff;
use crate::container::image_pull::RESYNC_PERIOD;
use crate::needs::claims;
use crate::needs::device_claims;
use crate::needs::downward::PodFields;
use crate::needs::references::Objects;
use crate::needs::volume_files::mount_errors;
use crate::notes::Mounts;
use crate::progress::{PodEvent, Progress};
use proto::kinds::api::core::v1::PodSpec;
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// The delays after failed attempts to mount, as in pkg/util/goroutinemap/exponentialbackoff.
const MOUNT_BACK_OFF: BackOff = BackOff { initial: Duration::from_millis(500), max: Duration::from_secs(122) };

/// The delays after failed attempts to prepare devices: those after which the kubelet syncs a pod again that failed.
const SYNC_BACK_OFF: BackOff = BackOff { initial: Duration::from_secs(10), max: Duration::from_secs(10) };

/// How long a kubelet waits for volumes to be attached before it says so, and how long before it waits again.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(123);
const ATTACH_PAUSE: Duration = Duration::from_secs(10);

/// Tries to mount the volumes of a pod that has no sandbox. Returns the time at which they were mounted; `None` while
/// one of them cannot be.
pub fn mount(
    fields: PodFields<'_>,
    spec: &PodSpec,
    objects: &Objects,
    start_time: Timestamp,
    now: Timestamp,
    progress: &mut Progress,
) -> Option<Timestamp> {
    if let Some(message) = claims::message(fields.pod, &objects.claims) {
        let waited = Duration::try_from(now.duration_since(start_time)).unwrap_or(Duration::ZERO);
        let attempt = u32::try_from(waited.as_secs() / RESYNC_PERIOD.as_secs()).unwrap_or(u32::MAX);
        progress.events.push(PodEvent::of_pod(true, "FailedMount", message).of_attempt(attempt));
        progress.wake_by(start_time + RESYNC_PERIOD * (attempt + 1));
        progress.notes.mounts = Mounts::Failing;
        return None;
    }
    if let Some(message) = claims::unattached_message(fields.pod, &objects.claims) {
        let waited = Duration::try_from(now.duration_since(start_time)).unwrap_or(Duration::ZERO);
        let timeouts = timeouts(waited);
        if let Some(last) = timeouts.checked_sub(1) {
            progress.events.push(PodEvent::of_pod(true, "FailedMount", message).of_attempt(last));
        }
        progress.wake_by(start_time + ATTACH_TIMEOUT + (ATTACH_TIMEOUT + ATTACH_PAUSE) * timeouts);
        progress.notes.mounts = Mounts::Failing;
        return None;
    }
    let errors = mount_errors(fields, spec, objects);
    if !errors.is_empty() {
        let attempt = MOUNT_BACK_OFF.attempt(start_time, now);
        for (volume, error) in errors {
            let message = format!("MountVolume.SetUp failed for volume {volume:?} : {error}");
            progress.events.push(PodEvent::of_pod(true, "FailedMount", message).of_attempt(attempt.number));
        }
        progress.wake_by(attempt.next);
        progress.notes.mounts = Mounts::Failing;
        return None;
    }
    if let Some(message) = device_claims::message(fields.pod, fields.status, &objects.device_claims) {
        let attempt = SYNC_BACK_OFF.attempt(start_time, now);
        progress.events.push(PodEvent::of_pod(true, device_claims::FAILED, message).of_attempt(attempt.number));
        progress.wake_by(attempt.next);
        progress.notes.mounts = Mounts::Failing;
        return None;
    }
    match progress.notes.mounts {
        Mounts::Untried => Some(start_time),
        Mounts::MountedAt(at) => Some(at),
        Mounts::Failing => {
            progress.notes.mounts = Mounts::MountedAt(now);
            Some(now)
        }
    }
}

/// Returns how often a kubelet that has waited this long has given up.
fn timeouts(waited: Duration) -> u32 {
    let round_s = (ATTACH_TIMEOUT + ATTACH_PAUSE).as_secs();
    let after_first = waited.checked_sub(ATTACH_TIMEOUT);
    after_first.map_or(0, |after| u32::try_from(after.as_secs() / round_s + 1).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_gives_up_after_two_minutes_and_again_after_each_round() {
        for (waited_s, expected) in [(0, 0), (122, 0), (123, 1), (255, 1), (256, 2), (389, 3)] {
            assert_eq!(timeouts(Duration::from_secs(waited_s)), expected, "{waited_s} s");
        }
    }
}
