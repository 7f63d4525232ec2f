//! Pulls a container's image: pull policies, pulls that fail, and their back-off.
//!
//! Corresponds to pkg/kubelet/images/image_manager.go.

use crate::container::back_off::{Attempt, BackOff};
use crate::container::restart::{BACK_OFF_INITIAL, BACK_OFF_MAX};
use crate::image_name;
use crate::image_pulls::{PullRequest, pull_time};
use crate::images;
use crate::progress::{Progress, RunAttempt};
use crate::state::{waiting, waiting_reason};
use crate::view::ContainerView;
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
    /// The name of the image cannot be parsed, for this reason.
    BadName(String),
    /// The image is not on the node, and the policy forbids to pull it.
    Never,
}

/// Decides about a pull. `pulled` are the images that other containers have pulled in the same step.
pub fn pull_of(view: &ContainerView<'_>, pulled: &[String]) -> Pull {
    if let Some(error) = image_name::error(view.image()) {
        return Pull::BadName(error);
    }
    let policy = view.spec.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
    let present = view.image_present || pulled.iter().any(|image| image == view.image());
    if policy == "Never" && !present {
        return Pull::Never;
    }
    match (pull_time(policy, present, view.story.pull_time), &view.story.pull_error) {
        (None, _) => Pull::Present,
        (Some(_), Some(error)) => Pull::Fails(error.clone()),
        (Some(takes), None) => Pull::Takes(takes),
    }
}

/// How long a pull takes, and how long its container has waited for it, other pulls before it included.
#[derive(Clone, Copy, Debug)]
pub struct PullTime {
    pub takes: Duration,
    pub with_waiting: Duration,
}

impl PullTime {
    /// True when nothing is pulled.
    pub fn is_zero(self) -> bool {
        self.takes.is_zero()
    }
}

/// Plans the pull that a container asks for at this time.
pub fn plan(view: &ContainerView<'_>, asked_at: Timestamp, takes: Duration) -> PullTime {
    if takes.is_zero() {
        return PullTime { takes, with_waiting: Duration::ZERO };
    }
    let (pod_uid, container, image) = (view.pod_uid, view.spec.name.as_str(), view.image());
    let planned = (view.plan_pull)(&PullRequest { pod_uid, container, image, asked_at, takes });
    let until_end = |from: Timestamp| Duration::try_from(planned.ends_at.duration_since(from)).unwrap_or(takes);
    PullTime { takes: until_end(planned.begins_at.max(asked_at)), with_waiting: until_end(asked_at) }
}

pub fn pulled_message(view: &ContainerView<'_>, pull_time: PullTime) -> String {
    let image = view.image();
    if pull_time.is_zero() {
        return format!("Container image {image:?} already present on machine and can be accessed by the pod");
    }
    let PullTime { takes, with_waiting } = pull_time;
    let (took, waited, size) = (format_duration(takes), format_duration(with_waiting), images::size_bytes(image));
    format!("Successfully pulled image {image:?} in {took} ({waited} including waiting). Image size: {size} bytes.")
}

/// The delays after failed attempts to pull.
const PULL_BACK_OFF: BackOff = BackOff { initial: BACK_OFF_INITIAL, max: BACK_OFF_MAX };

/// Returns when the pull that succeeds began: at `first_pull_at`, or with the latest attempt when earlier ones have
/// failed.
pub fn attempt_began(status: &ContainerStatus, first_pull_at: Timestamp, now: Timestamp) -> Timestamp {
    match waiting_reason(status) {
        Some("ErrImagePull" | "ImagePullBackOff") => PULL_BACK_OFF.attempt(first_pull_at, now).began,
        _ => first_pull_at,
    }
}

/// Reports a failed pull: as an error at first, as a back-off later.
pub fn fail(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    first_pull_at: Timestamp,
    error: &str,
    now: Timestamp,
    progress: &mut Progress,
) {
    let Attempt { number, began, next } = PULL_BACK_OFF.attempt(first_pull_at, now);
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

/// Reports a name that cannot be parsed. The image of a pod may be changed, so the agent tries again later.
pub fn bad_name(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    (error, first_pull_at): (&str, Timestamp),
    now: Timestamp,
    progress: &mut Progress,
) {
    let syncs =
        u32::try_from(now.duration_since(first_pull_at).as_secs() / RESYNC_PERIOD.as_secs() as i64).unwrap_or(0);
    let run_attempt = RunAttempt { run, attempt: syncs };
    let error = format!("Failed to apply default image tag {:?}: {error}", view.image());
    progress.warning(view, run_attempt, "InspectFailed", error.clone());
    progress.warning(view, run_attempt, "Failed", "Error: InvalidImageName".to_owned());
    status.state = Some(waiting("InvalidImageName", Some(error)));
    progress.wake_by(first_pull_at + RESYNC_PERIOD * (syncs + 1));
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
