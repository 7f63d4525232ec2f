//! A view of a container: everything but its status that its life depends on.

use crate::entrypoint;
use crate::image_pulls::{PlannedPull, PullRequest};
use crate::live::{LastWords, Live};
use crate::state::waiting;
use crate::story::{ContainerKind, Story};
use proto::kinds::api::core::v1::{
    Container, ContainerState, ContainerStatus, ContainerUser, LinuxContainerUser, PodSpec, VolumeMountStatus,
};
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

/// True for an init container that keeps running beside the app containers.
pub fn is_sidecar(init_container: &Container) -> bool {
    init_container.restart_policy.as_deref() == Some("Always")
}

/// A container's spec and story, and what its node has for it.
pub struct ContainerView<'a> {
    /// Borrowed; an ephemeral container has a type of its own and is converted.
    pub spec: Cow<'a, Container>,
    pub kind: ContainerKind,
    pub pod: &'a PodSpec,
    pub story: Story,
    /// What the node has observed of its process; `None` when it does not look.
    pub live: Option<&'a Live>,
    pub image_present: bool,
    pub plan_pull: &'a (dyn Fn(&PullRequest<'_>) -> PlannedPull + 'a),
    pub pod_uid: &'a str,
    /// The pod's first address; `None` before it has one.
    pub pod_ip: Option<IpAddr>,
    /// The pod as the kubelet's messages name it: `web-1_default(uid)`.
    pub pod_title: String,
    /// The reason why the container cannot be created from its spec. It counts while the container waits.
    pub config: Result<(), String>,
    /// Time from creating the container to its process running.
    pub start_latency: Duration,
}

impl ContainerView<'_> {
    pub fn image(&self) -> &str {
        self.spec.image.as_deref().unwrap_or_default()
    }

    /// Returns the message that the container's process leaves when it ends with this code.
    pub fn termination_message(&self, exit_code: i32) -> Option<String> {
        if let Some(message) = &self.story.termination_message {
            return Some(message.clone());
        }
        let words = match self.live {
            Some(live) => live.last_words.clone(),
            None if self.story.log.lines.is_empty() => entrypoint::last_words(&self.spec),
            None => LastWords::of_log(&self.story.log.lines),
        };
        words.message(&self.spec, exit_code)
    }

    /// Returns the status before anything has happened.
    pub fn first_status(&self, reason: &str) -> ContainerStatus {
        ContainerStatus {
            name: self.spec.name.clone(),
            image: self.image().to_owned(),
            state: Some(waiting(reason, None)),
            last_state: Some(ContainerState::default()),
            started: (self.kind != ContainerKind::Ephemeral).then_some(false),
            volume_mounts: self.mounts(),
            ..Default::default()
        }
    }

    fn mounts(&self) -> Option<Vec<VolumeMountStatus>> {
        let mounts = self.spec.volume_mounts.as_ref()?;
        let status = |read_only: bool, recursive: &Option<String>| match (read_only, recursive.as_deref()) {
            (false, _) => None,
            (true, Some("IfPossible" | "Enabled")) => Some("Enabled".to_owned()),
            (true, _) => Some("Disabled".to_owned()),
        };
        let mounts = mounts.iter().map(|mount| VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only.filter(|read_only| *read_only),
            recursive_read_only: status(mount.read_only.unwrap_or(false), &mount.recursive_read_only),
            ..Default::default()
        });
        Some(mounts.collect())
    }

    /// Returns the user of the first process: root unless the spec names another, because simulated images name none.
    pub fn user(&self) -> ContainerUser {
        let pod = self.pod.security_context.as_ref();
        let own = self.spec.security_context.as_ref();
        let uid = own.and_then(|c| c.run_as_user).or(pod.and_then(|p| p.run_as_user)).unwrap_or(0);
        let gid = own.and_then(|c| c.run_as_group).or(pod.and_then(|p| p.run_as_group)).unwrap_or(0);
        let mut groups = vec![gid];
        let further = pod.iter().flat_map(|p| p.supplemental_groups.iter().flatten().copied().chain(p.fs_group));
        for group in further {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        ContainerUser { linux: Some(LinuxContainerUser { uid, gid, supplemental_groups: Some(groups) }) }
    }
}
