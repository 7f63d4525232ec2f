//! Pulls a container's image: pull policies, pulls that fail, and their back-off.
//!
//! Corresponds to pkg/kubelet/images/image_manager.go.

use crate::images;
use crate::pod::progress::{Progress, RunAttempt};
use crate::pod::restart::{BACK_OFF_MAX, doubled};
use crate::pod::state::{waiting, waiting_reason};
use crate::pod::view::ContainerView;
use component_base::duration::format_duration;
use proto::kinds::api::core::v1::ContainerStatus;
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// The kubelet's period of relisting containers. After a failed attempt it takes this long until the pod is synced
/// again and its status shows the back-off.
const RELIST_PERIOD: Duration = Duration::from_secs(1);
/// How often an agent syncs a pod that cannot go on, as the kubelet's pod workers do.
pub const RESYNC_PERIOD: Duration = Duration::from_secs(10);

/// What a container's start needs to do for its image.
pub enum Pull {
    /// Nothing: the image is on the node.
    Present,
    Takes(Duration),
    Fails(String),
    /// The image is not on the node, and the policy forbids to pull it.
    Never,
}

/// Decides about a pull. `pulled` are the images that other containers have pulled in the same step.
pub fn pull_of(view: &ContainerView<'_>, pulled: &[String]) -> Pull {
    let policy = view.spec.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
    let present = view.image_present || pulled.iter().any(|image| image == view.image());
    match (policy, present, &view.story.pull_error) {
        ("Never", false, _) => Pull::Never,
        ("Never" | "IfNotPresent", true, _) => Pull::Present,
        (_, _, Some(error)) => Pull::Fails(error.clone()),
        // The layers are on the node; the registry is only asked whether they are still current.
        (_, true, None) => Pull::Takes(view.story.pull_time / 10),
        (_, false, None) => Pull::Takes(view.story.pull_time),
    }
}

pub fn pulled_message(view: &ContainerView<'_>, pull_time: Duration) -> String {
    let image = view.image();
    if pull_time.is_zero() {
        return format!("Container image {image:?} already present on machine and can be accessed by the pod");
    }
    let (took, size) = (format_duration(pull_time), images::size_bytes(image));
    format!("Successfully pulled image {image:?} in {took} ({took} including waiting). Image size: {size} bytes.")
}

/// An attempt to pull, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Attempt {
    number: u32,
    began: Timestamp,
    /// When the next attempt begins.
    next: Timestamp,
}

/// Returns the latest attempt at `now`, if the first was at `turn` and each one fails at once. The next ones follow
/// after 10 s, after another 20 s, … and then every five minutes. The kubelet counts in memory; here the time alone
/// decides.
fn attempt(turn: Timestamp, now: Timestamp) -> Attempt {
    let (mut number, mut began) = (0, turn);
    loop {
        let wait = doubled(number);
        let next = began + wait;
        if next > now {
            return Attempt { number, began, next };
        }
        if wait < BACK_OFF_MAX {
            (number, began) = (number + 1, next);
            continue;
        }
        let waited_ms = now.as_millisecond() - began.as_millisecond();
        let skipped = u32::try_from(waited_ms / BACK_OFF_MAX.as_millis() as i64).unwrap_or(u32::MAX);
        (number, began) = (number.saturating_add(skipped), began + BACK_OFF_MAX * skipped);
        return Attempt { number, began, next: began + BACK_OFF_MAX };
    }
}

/// Returns when the pull that succeeds began: at `turn`, or with the latest attempt when earlier ones have failed.
pub fn attempt_began(status: &ContainerStatus, turn: Timestamp, now: Timestamp) -> Timestamp {
    match waiting_reason(status) {
        Some("ErrImagePull" | "ImagePullBackOff") => attempt(turn, now).began,
        _ => turn,
    }
}

/// Reports a failed pull: as an error at first, as a back-off later.
pub fn fail(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    turn: Timestamp,
    error: &str,
    now: Timestamp,
    progress: &mut Progress,
) {
    let Attempt { number, began, next } = attempt(turn, now);
    let run_attempt = RunAttempt { run, attempt: number };
    let image = view.image();
    progress.normal(view, run_attempt, "Pulling", format!("Pulling image {image:?}"));
    progress.warning(view, run_attempt, "Failed", format!("Failed to pull image {image:?}: {error}"));
    progress.warning(view, run_attempt, "Failed", "Error: ErrImagePull".to_owned());
    let backs_off = began + RELIST_PERIOD;
    if now < backs_off {
        status.state = Some(waiting("ErrImagePull", Some(error.to_owned())));
        return progress.wake_by(backs_off);
    }
    progress.normal(view, run_attempt, "BackOff", format!("Back-off pulling image {image:?}"));
    progress.warning(view, run_attempt, "Failed", "Error: ImagePullBackOff".to_owned());
    let message = format!("Back-off pulling image {image:?}: ErrImagePull: {error}");
    status.state = Some(waiting("ImagePullBackOff", Some(message)));
    progress.wake_by(next);
}

/// Reports an image that may not be pulled. Another pod may bring it to the node, so the agent tries again later.
pub fn never_pulled(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    now: Timestamp,
    progress: &mut Progress,
) {
    let error = format!("Container image {:?} is not present with pull policy of Never", view.image());
    progress.warning(view, run, "ErrImageNeverPull", error.clone());
    progress.warning(view, run, "Failed", "Error: ErrImageNeverPull".to_owned());
    status.state = Some(waiting("ErrImageNeverPull", Some(error)));
    progress.wake_by(now + RESYNC_PERIOD);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_more_and_more_slowly() {
        let at = |s: i64| Timestamp::from_second(1000 + s).unwrap();
        for (now_s, number, began_s, next_s) in [
            (0, 0, 0, 10),
            (9, 0, 0, 10),
            (10, 1, 10, 30),
            (30, 2, 30, 70),
            (70, 3, 70, 150),
            (310, 5, 310, 610),
            (609, 5, 310, 610),
            (610, 6, 610, 910),
            (1509, 8, 1210, 1510),
            (1510, 9, 1510, 1810),
        ] {
            let expected = Attempt { number, began: at(began_s), next: at(next_s) };
            assert_eq!(attempt(at(0), at(now_s)), expected, "at {now_s} s");
        }
    }
}
