//! `Trial`: one run of a workload on a cluster, through the whole control plane and in virtual time.
//!
//! The API server, the controllers, a scheduler with any configuration and simulated nodes run as in `Simulation`, but
//! without the checks of every revision. A user creates pods at their times. What happens to pods and nodes is read from
//! the store, so a moment is that of the write. The same setup gives the same happenings, byte for byte.
//!
//! In depth `scheduler`, the same scheduler runs on a model of everything else (`modelled_api`). Requests take the same time
//! in both depths, so that pods get the same nodes where no controller intervenes.

mod setup;
mod stored;
mod pod_state;
mod node_groups;
mod usage;
mod loads;
mod observed;
mod world;
mod stage;
mod transit;
mod gangs;
mod chooser;
mod decision_log;
mod alone;
mod stepper;
mod steered;
mod rehearsal;

pub use chooser::Decision;
pub use decision_log::{Detail, Told};
pub use experiments::record::Event;
pub use modelled_api::unmodelled;
pub use rehearsal::refusals;
pub use setup::{Depth, NodeGroup, Setup, Submission};
pub use steered::Steered;
pub use stepper::Stepper;

use crate::in_virtual_time;
use crate::part::Part;
use alone::SchedulerAlone;
use chooser::Chooser;
use component_base::env::Env;
use controller_manager::selection::UnknownController;
use decision_log::DecisionLog;
use experiments::workload::{Deployment, LONGEST};
use loads::Loads;
use node_groups::{NodeGroups, Orders};
use observed::Observer;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::{Value, json};
use stage::Stage;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use steered::Onlooker;
use tokio::time::Instant;
use world::{Change, World};

/// Virtual time without any change after which the pods that still wait are given up: twice the time after which the
/// scheduler tries a pod again that nothing has woken.
const STALLED: Duration = Duration::from_secs(600);
/// Virtual time between two reports of progress.
const REPORT_PERIOD: Duration = Duration::from_secs(600);

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Virtual time since the beginning.
    pub at: Duration,
    pub finished: usize,
    /// Part of the run that is over, from 0 to 1: of its pods, or of its time where Deployments run until its end.
    pub part: f64,
}

/// Receives what happens, and reports of progress.
pub trait Audience {
    /// Of nodes and pods that are new, the trial knows the names alone.
    fn happened(&mut self, at: Duration, event: Event);
    /// Receives an attempt of the scheduler, if the setup asks for them.
    fn decided(&mut self, _: Told) {}
    fn progress(&mut self, _: Progress) {}
    /// Returns why the run is not worth going on with, such as a full disk, as an error.
    fn failure(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Lets who runs a trial look at its audience meanwhile.
impl<A: Audience> Audience for Rc<RefCell<A>> {
    fn happened(&mut self, at: Duration, event: Event) {
        self.borrow_mut().happened(at, event);
    }

    fn decided(&mut self, told: Told) {
        self.borrow_mut().decided(told);
    }

    fn progress(&mut self, progress: Progress) {
        self.borrow_mut().progress(progress);
    }

    fn failure(&self) -> Result<(), String> {
        self.borrow().failure()
    }
}

/// Runs a trial until its last pod has finished, until nothing goes on any more, or until the time of the setup. Returns
/// the virtual time that it took, or why it could not run.
pub fn run(setup: Setup, submissions: Vec<Submission>, audience: &mut impl Audience) -> Result<Duration, String> {
    in_virtual_time(play(setup, submissions, audience, Guest::Nobody))
}

/// Who takes part in a trial from outside.
enum Guest {
    Nobody,
    /// Chooses nodes, in depth `scheduler`.
    Chooser(Arc<Chooser>),
    /// Looks at the cluster or schedules its pods, in depth `full`. It stays after the trial's end.
    Onlooker(Arc<Onlooker>),
}

/// Runs a trial inside a runtime with virtual time.
async fn play(
    mut setup: Setup,
    submissions: Vec<Submission>,
    audience: &mut impl Audience,
    guest: Guest,
) -> Result<Duration, String> {
    setup.add_first_of_groups()?;
    let env = Env::simulated(setup.seed);
    let log = DecisionLog::new(&env, setup.decisions, setup.cpu_clock);
    let templates = setup.deployments.iter().map(|deployment| &deployment.document["spec"]["template"]);
    let pods = || submissions.iter().map(|one| &one.pod).chain(templates.clone());
    let namespaces: BTreeSet<String> = pods().map(|pod| namespace(pod).to_owned()).collect();
    match setup.depth {
        Depth::Full => {
            let priorities: BTreeSet<i64> = pods().filter_map(priority).collect();
            let gangs = gangs::of(&submissions);
            let mut stage = Stage::raise(&env, setup.clone(), !gangs.is_empty(), log.clone()).await?;
            stage.prepare(&priorities, &namespaces).await?;
            if let Guest::Onlooker(onlooker) = &guest
                && setup.is_scheduled_from_outside
            {
                onlooker.begin(env.now(), &env, stage.outsider());
                onlooker.arrival().await;
            }
            let admin = stage.admin();
            let looks_on = matches!(guest, Guest::Onlooker(_));
            let loads = Loads::new(&env, &setup.deployments, looks_on.then(|| setup.node_names()));
            if !loads.is_empty() {
                stage.serve_metrics(&loads).await?;
            }
            let world = stage.watched(gangs).await?;
            let mut trial = Trial::new(&env, &setup, world, log, submissions)?;
            trial.loads = loads;
            if let Guest::Onlooker(onlooker) = guest {
                onlooker.begin(trial.began, &env, admin);
                trial.stays = true;
            }
            trial.play(audience).await
        }
        Depth::Scheduler => {
            let chooser = match guest {
                Guest::Chooser(chooser) => Some(chooser),
                Guest::Nobody | Guest::Onlooker(_) => None,
            };
            let world = SchedulerAlone::raise(&env, &setup, namespaces, chooser.clone(), log.clone()).await?;
            if let Some(chooser) = chooser {
                chooser.begin(env.now());
            }
            Trial::new(&env, &setup, world, log, submissions)?.play(audience).await
        }
    }
}

/// Returns why a controller manager could not run these controllers, if it could not.
pub fn controllers_problem(names: &[String]) -> Option<String> {
    let selected = controller_manager::selection::selected(controller_manager::controllers::CONTROLLERS, names);
    selected.err().map(|UnknownController(name)| format!("{name:?} is not in the list of known controllers"))
}

/// Returns everything for which a scheduler with these settings could not start.
pub fn scheduler_problems(settings: &scheduler::Settings) -> Vec<String> {
    in_virtual_time(async {
        let client = stage::connect(&Env::simulated(1), Part::Scheduler.user(), Part::Scheduler.name());
        scheduler::problems(&settings.configuration, &client)
    })
}

/// Returns the namespace in which a pod is created.
fn namespace(pod: &Value) -> &str {
    pod["metadata"]["namespace"].as_str().unwrap_or("default")
}

fn priority(pod: &Value) -> Option<i64> {
    pod["spec"]["priority"].as_i64()
}

struct Trial<W> {
    env: Env,
    began: Instant,
    until: Duration,
    world: W,
    observer: Observer,
    /// The nodes that come and go, if any do.
    groups: Option<NodeGroups>,
    log: Arc<DecisionLog>,
    deployments: BTreeMap<String, Deployment>,
    loads: Arc<Loads>,
    /// When something happened to a pod last, other than a failed attempt.
    last_change: Duration,
    submissions: Vec<Submission>,
    created: usize,
    /// True if the cluster is looked at after the end.
    stays: bool,
}

impl<W: World> Trial<W> {
    fn new(
        env: &Env,
        setup: &Setup,
        world: W,
        log: Arc<DecisionLog>,
        submissions: Vec<Submission>,
    ) -> Result<Self, String> {
        let groups = (!setup.groups.is_empty()).then(|| NodeGroups::new(setup)).transpose()?;
        let began = env.now();
        log.begin(began);
        Ok(Self {
            began,
            until: setup.until.unwrap_or(LONGEST).min(LONGEST),
            env: env.clone(),
            world,
            observer: Observer::new(setup.node_names()),
            groups,
            log,
            deployments: loads::by_name(&setup.deployments),
            loads: Loads::new(env, &[], None),
            last_change: Duration::ZERO,
            submissions,
            created: 0,
            stays: false,
        })
    }

    async fn play(mut self, audience: &mut impl Audience) -> Result<Duration, String> {
        // What the start of the cluster took is not of the run.
        drop(self.world.take_answered());
        for event in self.observer.begin() {
            audience.happened(Duration::ZERO, event);
        }
        for deployment in self.deployments.values() {
            self.world.create_deployment(deployment).await?;
        }
        let mut next_report = self.began + REPORT_PERIOD;
        loop {
            // Without more arrivals, the pods that run on decide how long to wait.
            let arrival = self.submissions.get(self.created).map(|next| self.began + next.at);
            let wake =
                arrival.unwrap_or_else(|| self.env.now() + STALLED).min(self.began + self.until).min(next_report);
            let scaling = self.groups.as_ref().and_then(NodeGroups::next_at);
            let scaling = scaling.into_iter().chain(self.loads.next_at()).min();
            let wake = scaling.map_or(wake, |at| wake.min(self.began + at));
            tokio::select! {
                biased;
                changes = self.world.changes() => {
                    for change in changes? {
                        self.observe(&change, audience).await?;
                    }
                }
                () = self.env.sleep_until(wake) => {}
            }
            self.log.take().into_iter().for_each(|told| audience.decided(told));
            self.world.failure()?;
            audience.failure()?;
            let now = self.env.now();
            while self.submissions.get(self.created).is_some_and(|next| self.began + next.at <= now) {
                let pod = self.submissions[self.created].pod.take();
                self.create(&pod).await?;
                self.observer.remember(&pod);
                self.loads.remember(&pod);
                self.created += 1;
                self.last_change = self.elapsed();
            }
            let at = self.elapsed();
            self.loads.advance(at).into_iter().for_each(|event| audience.happened(at, event));
            let orders = self.groups.as_mut().map(|groups| groups.act(at)).unwrap_or_default();
            if orders != Orders::default() {
                self.world.change_machines(&orders).await?;
            }
            if now >= next_report {
                audience.progress(self.progress());
                next_report = now + REPORT_PERIOD;
            }
            if now >= self.began + self.until || self.has_ended() {
                break;
            }
        }
        let took = self.elapsed();
        audience.happened(took, Event::RequestsAnswered { requests: self.world.take_answered() });
        audience.happened(took, Event::Ended);
        audience.progress(self.progress());
        if self.stays {
            return std::future::pending().await;
        }
        self.world.strike().await;
        Ok(took)
    }

    async fn observe(&mut self, change: &Change, audience: &mut impl Audience) -> Result<(), String> {
        let at = self.elapsed();
        let (events, again) = match change {
            Change::Node { name, is_ready } => {
                self.loads.see_node(name, *is_ready);
                if let Some(groups) = &mut self.groups {
                    groups.see_node(name, *is_ready, at);
                }
                (Vec::from_iter(self.observer.see_node(name, *is_ready)), None)
            }
            Change::Pod { name, state } => {
                self.loads.see_pod(name, state.as_ref());
                let deployment = state.as_ref().and_then(|state| self.deployments.get(state.deployment.as_ref()?));
                if let Some(groups) = &mut self.groups {
                    if let Some(deployment) = deployment {
                        groups.remember_named(name, &deployment.pod);
                    }
                    groups.see_pod(name, state.as_ref(), at);
                }
                self.observer.see_pod(name, state.as_ref())
            }
        };
        for mut event in events {
            self.log.complete(&mut event);
            // Machines that fail for ever would keep pods waiting that fit nowhere.
            let is_progress =
                !matches!(event, Event::AttemptFailed { .. } | Event::NodeAdded(_) | Event::NodeRemoved { .. });
            if is_progress {
                self.last_change = at;
            }
            audience.happened(at, event);
        }
        // A user whose pod is lost creates it again.
        match again {
            Some(pod) => self.create(&pod).await,
            None => Ok(()),
        }
    }

    async fn create(&mut self, pod: &Value) -> Result<(), String> {
        if let Some(groups) = &mut self.groups {
            groups.remember(&read(pod)?);
        }
        self.world.create_pod(pod).await
    }

    fn has_ended(&self) -> bool {
        if self.created < self.submissions.len() || !self.deployments.is_empty() {
            return false;
        }
        let stalled = self.elapsed() >= self.last_change + STALLED
            && !self.observer.lacks_nodes()
            && !self.groups.as_ref().is_some_and(NodeGroups::is_waiting);
        self.observer.unfinished() == 0 || (self.observer.to_finish() == 0 && stalled)
    }

    fn elapsed(&self) -> Duration {
        self.env.now().duration_since(self.began)
    }

    fn progress(&self) -> Progress {
        let (at, finished) = (self.elapsed(), self.observer.finished());
        let part = match self.deployments.is_empty() {
            true => finished as f64 / self.submissions.len().max(1) as f64,
            false => at.as_secs_f64() / self.until.as_secs_f64(),
        };
        Progress { at, finished, part: part.min(1.0) }
    }
}

/// Returns a pod as it can be created: users name a class, and the server writes the priority.
fn with_class(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let (Some(priority), Some(spec)) = (priority(&pod), pod["spec"].as_object_mut()) {
        spec.remove("priority");
        spec.insert("priorityClassName".to_owned(), json!(setup::priority_class(priority)));
    }
    pod
}

/// Reads a pod; the error names it.
fn read(pod: &Value) -> Result<Pod, String> {
    Pod::decode_value(pod.clone()).map_err(|error| format!("pod {}: {error}", pod["metadata"]["name"]))
}

#[cfg(test)]
mod tests;
