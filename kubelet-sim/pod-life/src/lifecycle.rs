//! The life cycle of a pod as one pure function: `step` takes a pod, its status and the present time, and returns the
//! next status, the events to record, and when the next step is due.
//!
//! Corresponds to pkg/kubelet: podWorkers, syncPod, syncTerminatingPod and generateAPIPodStatus. The next step depends
//! only on the pod and its status, so an agent that restarts goes on where the last one stopped.
//!
//! ```text
//! bound ─ admitted ─▶ Pending ─ sandbox, init containers one by one ─▶ app containers ─▶ Running ─▶ Ready
//!    └── rejected ─▶ Failed                                              │  ▲
//!                                                                  exit  ▼  │ back-off
//!                                                             Succeeded │ Failed │ CrashLoopBackOff
//! deletionTimestamp, deadline, work done ─▶ SIGTERM, stop time (at most the grace period) ─▶ final status
//! final status and deletionTimestamp ─▶ delete at the API server
//! ```

use crate::admission::{Rejection, ResizeRefusal};
use crate::conditions::{self, is_terminal};
use crate::container::exit::Ending;
use crate::container::image_pull::RESYNC_PERIOD;
use crate::container::life;
use crate::container::restart::is_finished;
use crate::ending::stop_containers;
use crate::handlers::health;
use crate::image_pulls::{PlannedPull, PullRequest};
use crate::latency::Latency;
use crate::live::Live;
use crate::mounts;
use crate::needs::downward::PodFields;
use crate::needs::environment::{environment, sub_path};
use crate::needs::references::Objects;
use crate::notes::{ContainerNotes, Mounts, Notes};
use crate::outage;
use crate::phase;
use crate::progress::ProbeCounts;
use crate::progress::{PodEvent, Progress};
use crate::resize;
use crate::restart_all;
use crate::state;
use crate::story::errors;
use crate::story::{ContainerKind, Story};
use crate::view::{ContainerView, is_sidecar};
use proto::Kind;
use proto::kinds::api::core::v1::{
    Container, ContainerStatus, EphemeralContainer, HostIP, Pod, PodIP, PodSpec, PodStatus,
};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The grace period of a pod that names none.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
const DEADLINE_REASON: &str = "DeadlineExceeded";
const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// A pod, with everything on its node that its next step depends on.
pub struct PodView<'a> {
    pub pod: &'a Pod,
    /// The last known status: the API server's, or a later one that was just written.
    pub status: &'a PodStatus,
    /// The addresses of the node, the primary one first.
    pub node_ips: &'a [IpAddr],
    /// The network of the sandbox, or why there is none.
    pub sandbox: Sandbox,
    pub has_image: &'a dyn Fn(&str) -> bool,
    /// Says when a pull would begin and end.
    pub plan_pull: &'a dyn Fn(&PullRequest<'_>) -> PlannedPull,
    /// The ConfigMaps and Secrets that the pod refers to. They are needed while a container may have to start.
    pub objects: &'a Objects,
    pub notes: Notes,
    /// The processes that the node looks at, by the name of their container.
    pub live: &'a BTreeMap<String, Live>,
    /// What the node says of the resources that the pod asks for, if it asks for others than it has.
    pub resize: Option<Result<(), ResizeRefusal>>,
    pub latency: &'a Latency,
}

/// The network of a pod's sandbox.
#[derive(Clone, Debug, PartialEq)]
pub enum Sandbox {
    /// One address of each IP family of the node.
    Addresses(Vec<IpAddr>),
    /// The pod uses the node's network.
    OnHost,
    /// The pod is being deleted before it got an address.
    NotNeeded,
    /// There is none, for the reason and message of an event.
    Impossible { reason: &'static str, message: String },
}

/// The result of one step of a pod.
#[derive(Debug)]
pub struct PodStep {
    pub status: PodStatus,
    pub events: Vec<PodEvent>,
    /// Images that were pulled onto the node.
    pub pulled: Vec<String>,
    /// By container and kind of probe: how many there were in the present run.
    pub probes: BTreeMap<(String, &'static str), ProbeCounts>,
    pub notes: Notes,
    /// When the next step is due, if nothing happens before.
    pub wake_at: Option<Timestamp>,
    /// True when the pod is being deleted and nothing of it runs any more, so that its object can be removed.
    pub ended: bool,
}

/// Takes the step of a pod that is due at `now`.
pub fn step(view: &PodView<'_>, now: Timestamp) -> PodStep {
    let mut status = view.status.clone();
    let mut progress = Progress { notes: view.notes.clone(), ..Progress::default() };
    if !is_terminal(&status) {
        let machine = PodMachine::new(view);
        machine.report_story_errors(&mut progress);
        machine.initialize(&mut status, now);
        if let Some(outage) = view.notes.outage {
            outage::recover(outage, &machine.init, &machine.apps, &mut status, &mut progress);
        }
        let course = machine.advance(&mut status, now, &mut progress);
        machine.show_sandbox(&mut status);
        let phase = match course {
            Completion::Incomplete => machine.phase(&status),
            Completion::Complete => machine.final_phase(&status),
            Completion::Stopped { verdict } => machine.finish_stopped(&mut status, verdict.as_ref()),
        };
        status.phase = Some(phase.to_owned());
        status.observed_generation = view.pod.metadata.generation.or(status.observed_generation);
        conditions::refresh(view.pod, &mut status, now);
        if is_terminal(&status) && conditions::find(&status, conditions::ALL_CONTAINERS_RESTARTING).is_some() {
            conditions::set_all_restarting(&mut status, false, now);
        }
        if let (true, Some(disruption)) = (is_terminal(&status), view.notes.disruption()) {
            conditions::set_disrupted(&mut status, disruption, now);
        }
        // Up to here in the order of the spec; the kubelet writes those of app containers by name.
        status.container_statuses.iter_mut().for_each(|list| list.sort_by(|a, b| a.name.cmp(&b.name)));
    }
    let ended = is_terminal(&status) && view.pod.is_deleting();
    let wake_at = progress.wake_at.filter(|_| !is_terminal(&status));
    let Progress { events, pulled, probes, mut notes, .. } = progress;
    notes.containers.retain(|_, notes| *notes != ContainerNotes::default());
    PodStep { status, events, pulled, probes, notes, wake_at, ended }
}

/// Returns the failed status of a pod that the node does not admit.
pub fn reject(pod: &Pod, status: &PodStatus, rejection: &Rejection, now: Timestamp) -> PodStep {
    let mut status = status.clone();
    status.start_time.get_or_insert(Time(now));
    status.phase = Some("Failed".to_owned());
    status.reason = Some(rejection.reason.clone());
    status.message = Some(format!("Pod was rejected: {}", rejection.message));
    status.observed_generation = pod.metadata.generation.or(status.observed_generation);
    let events = vec![PodEvent::of_pod(true, &rejection.reason, rejection.message.as_str())];
    let (pulled, probes, notes) = (Vec::new(), BTreeMap::new(), Notes::default());
    PodStep { status, events, pulled, probes, notes, wake_at: None, ended: false }
}

/// Returns an ending that was asked for in the past of the machine's clock. If the clock is behind, the time counts from
/// the first step that sees the request.
fn by_own_clock(ending: Ending, now: Timestamp, progress: &mut Progress) -> Ending {
    if ending.asked_at <= now {
        return ending;
    }
    let seen_at = *progress.notes.ending_seen_at.get_or_insert(now);
    Ending { asked_at: seen_at.min(now), ..ending }
}

fn statuses(list: &Option<Vec<ContainerStatus>>) -> &[ContainerStatus] {
    list.as_deref().unwrap_or_default()
}

/// Whether the work of a pod is complete after a step.
enum Completion {
    /// Something still runs or may run.
    Incomplete,
    /// All work has ended by itself.
    Complete,
    /// The pod was stopped, and nothing runs any more.
    Stopped {
        /// Set when not its deletion has stopped the pod.
        verdict: Option<Verdict>,
    },
}

/// Why a pod was stopped that nobody has deleted: reason and message of its final status.
struct Verdict {
    reason: &'static str,
    message: String,
}

/// A pod with a view of each of its containers.
struct PodMachine<'a> {
    view: &'a PodView<'a>,
    spec: &'a PodSpec,
    init: Vec<ContainerView<'a>>,
    apps: Vec<ContainerView<'a>>,
    ephemeral: Vec<ContainerView<'a>>,
}

impl<'a> PodMachine<'a> {
    fn new(view: &'a PodView<'a>) -> Self {
        static NO_SPEC: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
        static NO_ANNOTATIONS: BTreeMap<String, String> = BTreeMap::new();
        let spec = view.pod.spec.as_ref().unwrap_or(&NO_SPEC);
        let annotations = view.pod.metadata.annotations.as_ref().unwrap_or(&NO_ANNOTATIONS);
        let restart_policy = spec.restart_policy.as_deref().unwrap_or("Always");
        let pod_ip = match &view.sandbox {
            Sandbox::Addresses(ips) => ips.first().copied(),
            Sandbox::OnHost => view.node_ips.first().copied(),
            Sandbox::NotNeeded | Sandbox::Impossible { .. } => None,
        };
        let container = |container: Cow<'a, Container>, kind: ContainerKind| ContainerView {
            kind,
            pod: spec,
            story: Story::of(&container, kind, restart_policy, annotations, view.latency),
            live: view.live.get(&container.name),
            image_present: (view.has_image)(container.image.as_deref().unwrap_or_default()),
            plan_pull: view.plan_pull,
            pod_uid: view.pod.uid(),
            pod_ip,
            pod_title: format!("{}_{}({})", view.pod.name(), view.pod.namespace(), view.pod.uid()),
            start_latency: view.latency.container_start,
            config: config(view, &container),
            spec: container,
        };
        let kind_of = |init: &Container| if is_sidecar(init) { ContainerKind::Sidecar } else { ContainerKind::Init };
        let init = spec.init_containers.iter().flatten();
        let ephemeral = spec.ephemeral_containers.iter().flatten();
        Self {
            view,
            spec,
            init: init.map(|c| container(Cow::Borrowed(c), kind_of(c))).collect(),
            apps: spec.containers.iter().map(|c| container(Cow::Borrowed(c), ContainerKind::App)).collect(),
            ephemeral: ephemeral.map(|c| container(Cow::Owned(as_container(c)), ContainerKind::Ephemeral)).collect(),
        }
    }

    fn report_story_errors(&self, progress: &mut Progress) {
        let Some(annotations) = &self.view.pod.metadata.annotations else { return };
        for error in errors::find(self.spec, annotations) {
            progress.events.push(PodEvent::of_pod(true, "InvalidStory", error));
        }
    }

    /// Fills in what is known from the start: start time, the node's addresses, a status for each container.
    fn initialize(&self, status: &mut PodStatus, now: Timestamp) {
        status.start_time.get_or_insert(Time(now));
        let node_ips = self.view.node_ips;
        if status.host_ip.is_none() {
            status.host_ip = node_ips.first().map(ToString::to_string);
            status.host_ips = Some(node_ips.iter().map(|ip| HostIP { ip: ip.to_string() }).collect());
        }
        if self.view.sandbox == Sandbox::OnHost {
            set_pod_ips(status, node_ips);
        }
        let reason = if self.init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        complete(&mut status.init_container_statuses, &self.init, reason);
        complete(&mut status.container_statuses, &self.apps, reason);
        complete(&mut status.ephemeral_container_statuses, &self.ephemeral, reason);
    }

    /// Writes the pod's addresses. A kubelet learns of them together with the state of the first container, not before.
    fn show_sandbox(&self, status: &mut PodStatus) {
        if let (Sandbox::Addresses(ips), true) = (&self.view.sandbox, conditions::has_sandbox(status)) {
            set_pod_ips(status, ips);
        }
    }

    /// Advances all containers: to their end when the pod has to stop, and otherwise by their stories.
    fn advance(&self, status: &mut PodStatus, now: Timestamp, progress: &mut Progress) -> Completion {
        let start_time = status.start_time.as_ref().map_or(now, |t| t.0);
        let deadline = self.deadline(start_time, now, progress);
        if deadline.is_some() {
            progress.events.push(PodEvent::of_pod(false, DEADLINE_REASON, DEADLINE_MESSAGE));
        }
        let termination = self.view.notes.termination.as_ref();
        let by_node = termination.map(|end| Ending { asked_at: end.asked_at, grace: end.grace });
        let requests =
            [self.deletion(), by_node].map(|ending| ending.map(|ending| by_own_clock(ending, now, progress)));
        if let Some(ending) = requests.into_iter().chain([deadline]).flatten().min() {
            let of_node = termination.map(|end| Verdict { reason: end.reason, message: end.message.clone() });
            let of_deadline = || Verdict { reason: DEADLINE_REASON, message: DEADLINE_MESSAGE.to_owned() };
            let verdict = of_node.or_else(|| deadline.map(|_| of_deadline()));
            let all_ended = stop_containers(ending, self.with_statuses(status), now, progress);
            return if all_ended { Completion::Stopped { verdict } } else { Completion::Incomplete };
        }
        let Some(mounted_at) = self.mount(status, start_time, now, progress) else { return Completion::Incomplete };
        if let Sandbox::Impossible { reason, message } = &self.view.sandbox {
            progress.events.push(PodEvent::of_pod(true, reason, message.as_str()));
            progress.wake_by(now + RESYNC_PERIOD);
            return Completion::Incomplete;
        }
        let views = [self.init.as_slice(), self.apps.as_slice()];
        resize::advance(self.view.pod, self.view.resize.as_ref(), status, &views, now, progress);
        let resumed_at = progress.notes.outage.map_or(mounted_at, |outage| outage.on_at.max(mounted_at));
        self.run(status, resumed_at + self.view.latency.sandbox, now, progress);
        if self.restart_all(status, now, progress) {
            return Completion::Incomplete;
        }
        resize::finish(self.view.pod, status, &views, progress);
        let Some(asked_at) = self.work_done(status) else { return Completion::Incomplete };
        // Sidecars serve the app containers, so they are stopped once those have ended for good.
        let ending = Ending { asked_at, grace: self.grace() };
        let all_ended = stop_containers(ending, self.with_statuses(status), now, progress);
        if all_ended { Completion::Complete } else { Completion::Incomplete }
    }

    /// Mounts the volumes, unless a container was tried already: then they are mounted.
    fn mount(
        &self,
        status: &PodStatus,
        start_time: Timestamp,
        now: Timestamp,
        progress: &mut Progress,
    ) -> Option<Timestamp> {
        match (conditions::has_sandbox(status), progress.notes.mounts) {
            (true, Mounts::MountedAt(at)) => Some(at),
            (true, _) => Some(start_time),
            (false, _) => {
                let fields = PodFields { pod: self.view.pod, status, allocatable: None };
                mounts::mount(fields, self.spec, self.view.objects, start_time, now, progress)
            }
        }
    }

    /// Advances each container by its story: ephemeral ones, then init containers, then app containers.
    fn run(&self, status: &mut PodStatus, sandbox_at: Timestamp, now: Timestamp, progress: &mut Progress) {
        let mut init = status.init_container_statuses.take().unwrap_or_default();
        let mut apps = status.container_statuses.take().unwrap_or_default();
        let done = self.apps.iter().zip(&apps).all(|(view, status)| is_finished(view, status));
        for (view, status) in self.ephemeral.iter().zip(status.ephemeral_container_statuses.iter_mut().flatten()) {
            // No field says when it was added: the step that sees it first counts as that time.
            let is_new =
                !statuses(&self.view.status.ephemeral_container_statuses).iter().any(|s| s.name == status.name);
            let may_start_at = if is_new { now } else { sandbox_at };
            life::advance(view, status, Some(may_start_at), now, progress);
        }
        let mut may_start_at = Some(sandbox_at);
        for (view, status) in self.init.iter().zip(&mut init) {
            if !(done && view.kind == ContainerKind::Sidecar) {
                life::advance(view, status, may_start_at, now, progress);
            }
            may_start_at = may_start_at.and_then(|may_start_at| may_start_after_init(view, status, may_start_at, now));
        }
        for (view, status) in self.apps.iter().zip(&mut apps) {
            life::advance(view, status, may_start_at, now, progress);
            may_start_at = may_start_at.and_then(|may_start_at| may_start_after_app(status, may_start_at));
        }
        status.init_container_statuses = (!init.is_empty()).then_some(init);
        status.container_statuses = Some(apps);
    }

    /// Restarts all containers if one has exited with a code that asks for it. Returns true while that is under way.
    fn restart_all(&self, status: &mut PodStatus, now: Timestamp, progress: &mut Progress) -> bool {
        if !restart_all::is_possible(self.init.iter().chain(&self.apps)) {
            return false;
        }
        let mut lists = [
            status.init_container_statuses.take().unwrap_or_default(),
            status.container_statuses.take().unwrap_or_default(),
            status.ephemeral_container_statuses.take().unwrap_or_default(),
        ];
        let [init, apps, ephemeral] = &mut lists;
        let containers =
            [(self.init.as_slice(), init), (self.apps.as_slice(), apps), (self.ephemeral.as_slice(), ephemeral)];
        let restarting = restart_all::advance(status, containers, now, progress);
        let [init, apps, ephemeral] = lists.map(|list| (!list.is_empty()).then_some(list));
        status.init_container_statuses = init;
        status.container_statuses = apps;
        status.ephemeral_container_statuses = ephemeral;
        conditions::set_all_restarting(status, restarting, now);
        restarting
    }

    /// Returns when the work was done: all app containers have ended for good, or will never start. `None` before.
    fn work_done(&self, status: &PodStatus) -> Option<Timestamp> {
        let (init, apps) = (statuses(&status.init_container_statuses), statuses(&status.container_statuses));
        let over = self.init_failed(init) || self.apps.iter().zip(apps).all(|(view, s)| is_finished(view, s));
        let work =
            self.init.iter().zip(init).filter(|(view, _)| view.kind == ContainerKind::Init).map(|(_, s)| s).chain(apps);
        let finished_at = |s: &ContainerStatus| state::terminated(s)?.finished_at.as_ref().map(|t| t.0);
        over.then(|| work.filter_map(finished_at).max().unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// True when an init container has failed and is not restarted.
    fn init_failed(&self, init: &[ContainerStatus]) -> bool {
        self.init.iter().zip(init).any(|(view, status)| {
            let failed = state::terminated(status).is_some_and(|exit| exit.exit_code != 0);
            view.kind == ContainerKind::Init && failed && is_finished(view, status)
        })
    }

    /// Returns the ending that `deletionTimestamp` asks for.
    fn deletion(&self) -> Option<Ending> {
        let metadata = &self.view.pod.metadata;
        let deadline = metadata.deletion_timestamp.as_ref()?.0;
        let grace_s = metadata.deletion_grace_period_seconds.unwrap_or(0);
        let grace = Duration::from_secs(u64::try_from(grace_s).unwrap_or(0));
        Some(Ending { asked_at: deadline - grace, grace })
    }

    /// Returns the ending that `activeDeadlineSeconds` asks for, once it has passed.
    fn deadline(&self, start_time: Timestamp, now: Timestamp, progress: &mut Progress) -> Option<Ending> {
        let deadline_s = u64::try_from(self.spec.active_deadline_seconds?).unwrap_or(0);
        let at = start_time + Duration::from_secs(deadline_s);
        if now < at {
            progress.wake_by(at);
        }
        (now >= at).then(|| Ending { asked_at: at, grace: self.grace() })
    }

    fn grace(&self) -> Duration {
        let grace_s = self.spec.termination_grace_period_seconds;
        grace_s.map_or(DEFAULT_GRACE, |s| Duration::from_secs(u64::try_from(s).unwrap_or(0)))
    }

    fn phase(&self, status: &PodStatus) -> &'static str {
        let init = self.init.iter().zip(statuses(&status.init_container_statuses));
        let sidecars = init.filter(|(view, _)| view.kind == ContainerKind::Sidecar).map(|(_, status)| status);
        phase::while_alive(statuses(&status.container_statuses).iter().chain(sidecars))
    }

    fn final_phase(&self, status: &PodStatus) -> &'static str {
        match self.init_failed(statuses(&status.init_container_statuses)) {
            true => "Failed",
            false => phase::at_the_end(statuses(&status.container_statuses)),
        }
    }

    /// Completes the statuses of a stopped pod's containers, and returns its final phase.
    fn finish_stopped(&self, status: &mut PodStatus, verdict: Option<&Verdict>) -> &'static str {
        let (mut no_init, mut no_apps) = (Vec::new(), Vec::new());
        let init = status.init_container_statuses.as_mut().unwrap_or(&mut no_init);
        let apps = status.container_statuses.as_mut().unwrap_or(&mut no_apps);
        phase::restore_last_exits(init);
        phase::restore_last_exits(apps);
        phase::mark_lost(init, apps);
        let Some(verdict) = verdict else { return self.final_phase(status) };
        status.reason = Some(verdict.reason.to_owned());
        status.message = Some(verdict.message.clone());
        "Failed"
    }

    fn with_statuses<'s>(&'s self, status: &'s mut PodStatus) -> Vec<(&'s ContainerView<'a>, &'s mut ContainerStatus)> {
        let init = self.init.iter().zip(status.init_container_statuses.iter_mut().flatten());
        let apps = self.apps.iter().zip(status.container_statuses.iter_mut().flatten());
        let ephemeral = self.ephemeral.iter().zip(status.ephemeral_container_statuses.iter_mut().flatten());
        init.chain(apps).chain(ephemeral).collect()
    }
}

/// Checks what a container is created from; the error is the message of `CreateContainerConfigError`.
fn config(view: &PodView<'_>, container: &Container) -> Result<(), String> {
    let fields = PodFields { pod: view.pod, status: view.status, allocatable: None };
    let env = environment(fields, container, view.objects)?;
    container.volume_mounts.iter().flatten().try_for_each(|mount| sub_path(mount, &env).map(drop))
}

fn set_pod_ips(status: &mut PodStatus, ips: &[IpAddr]) {
    if status.pod_ip.is_none() {
        status.pod_ip = ips.first().map(ToString::to_string);
        status.pod_ips = Some(ips.iter().map(|ip| PodIP { ip: ip.to_string() }).collect());
    }
}

/// Finds a container of the pod by name, in any of its lists.
pub fn container_named(pod: &Pod, name: &str) -> Option<(Container, ContainerKind)> {
    let spec = pod.spec.as_ref()?;
    let apps = spec.containers.iter().map(|container| (container.clone(), ContainerKind::App));
    let init = spec.init_containers.iter().flatten().map(|container| {
        let kind = if is_sidecar(container) { ContainerKind::Sidecar } else { ContainerKind::Init };
        (container.clone(), kind)
    });
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|c| (as_container(c), ContainerKind::Ephemeral));
    apps.chain(init).chain(ephemeral).find(|(container, _)| container.name == name)
}

/// Converts an ephemeral container; only the fields that matter here.
fn as_container(ephemeral: &EphemeralContainer) -> Container {
    Container {
        name: ephemeral.name.clone(),
        image: ephemeral.image.clone(),
        image_pull_policy: ephemeral.image_pull_policy.clone(),
        command: ephemeral.command.clone(),
        args: ephemeral.args.clone(),
        env: ephemeral.env.clone(),
        env_from: ephemeral.env_from.clone(),
        working_dir: ephemeral.working_dir.clone(),
        stdin: ephemeral.stdin,
        tty: ephemeral.tty,
        resources: ephemeral.resources.clone(),
        security_context: ephemeral.security_context.clone(),
        volume_mounts: ephemeral.volume_mounts.clone(),
        ..Default::default()
    }
}

/// Adds the missing statuses, in the order of the spec; those that exist stay as they are.
fn complete(statuses: &mut Option<Vec<ContainerStatus>>, views: &[ContainerView<'_>], reason: &str) {
    let mut known = statuses.take().unwrap_or_default();
    let status_of = |view: &ContainerView<'_>| match known.iter().position(|s| s.name == view.spec.name) {
        Some(at) => known.swap_remove(at),
        None => view.first_status(reason),
    };
    let all: Vec<_> = views.iter().map(status_of).collect();
    *statuses = (!all.is_empty()).then_some(all);
}

/// Returns when the container after this init container may start: once this one has completed or, as a sidecar,
/// started.
fn may_start_after_init(
    view: &ContainerView<'_>,
    status: &ContainerStatus,
    may_start_at: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    if view.kind == ContainerKind::Sidecar {
        let restarting = state::last_exit(status).is_some() || state::terminated(status).is_some();
        // A sidecar that crashes later delays no other container.
        let started_at = || health::observe(view, status, None, now, &mut Progress::default())?.started_at;
        return if restarting { Some(may_start_at) } else { started_at().map(|at| at.max(may_start_at)) };
    }
    let exit = state::terminated(status).filter(|exit| exit.exit_code == 0)?;
    Some(exit.finished_at.as_ref().map_or(may_start_at, |t| t.0.max(may_start_at)))
}

/// Returns when the container after this app container may start. They start in order; one that cannot start delays
/// none.
fn may_start_after_app(status: &ContainerStatus, may_start_at: Timestamp) -> Option<Timestamp> {
    match state::running(status) {
        Some(started_at) => Some(may_start_at.max(started_at)),
        None if state::is_untouched(status) => None,
        None => Some(may_start_at),
    }
}

#[cfg(test)]
mod tests;
