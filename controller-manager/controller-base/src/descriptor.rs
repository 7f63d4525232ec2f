//! `ControllerDescriptor`, a row of the table of controllers, and `Setup`, which gives a controller what its row names.
//!
//! Corresponds to ControllerDescriptor in cmd/kube-controller-manager/app.

use crate::context::{Actor, Context, Running};
use crate::flags::KubeControllerManager;
use crate::options::Settings;
use crate::resync::resync;
use crate::served::is_served;
use client::reconcile::{self, PeriodicReconciler, Reconciler};
use client::work_queue::rate_limit::RateLimiter;
use client::{Client, Event, Informer, Informers, Lister, WorkQueue};
use component_base::env::Env;
use component_base::options::{Original, feature_gates};
use proto::{Gvr, Kind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub struct ControllerDescriptor {
    /// Name in `--controllers`.
    pub name: &'static str,
    /// Names that older releases used.
    pub aliases: &'static [&'static str],
    /// ServiceAccount in `kube-system` under which the controller writes; the bootstrap roles are bound to it. `None`
    /// for a controller that writes under the manager's own identity.
    pub service_account: Option<&'static str>,
    /// Component that the controller's events name, as `kubectl describe` shows it.
    pub component: &'static str,
    /// Names of the controller's work queues, as their metrics show them.
    pub queues: &'static [&'static str],
    /// The informers that the controller needs, in the order in which they start.
    pub informers: &'static [Watch],
    pub on_by_default: bool,
    /// Registers the controller's event handlers and returns its future. The informers start before that is polled.
    pub start: fn(&Setup<'_>) -> Running,
}

/// An entry of the `informers` column.
pub struct Watch {
    purpose: Purpose,
    /// The informer of a typed collection; `None` for those that discovery finds.
    collection: Option<Collection>,
    /// The feature gate that this needs; empty for none.
    gate: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Triggers,
    Reads,
    Discovers,
}

struct Collection {
    gvr: fn() -> Gvr,
    /// Empty for all namespaces.
    namespace: &'static str,
    register: fn(&Informers, &str),
}

/// Events of these objects trigger the controller.
pub const fn triggers<K: Kind>() -> Watch {
    Watch::typed::<K>(Purpose::Triggers)
}

/// The controller reads these objects, and their events do not trigger it.
pub const fn reads<K: Kind>() -> Watch {
    Watch::typed::<K>(Purpose::Reads)
}

/// Events of every resource that discovery finds trigger the controller, which keeps informers of its own for them.
pub const fn discovers() -> Watch {
    Watch { purpose: Purpose::Discovers, collection: None, gate: "" }
}

impl Watch {
    const fn typed<K: Kind>(purpose: Purpose) -> Self {
        let register = |informers: &Informers, namespace: &str| drop(informers.of_namespace::<K>(namespace));
        Self { purpose, collection: Some(Collection { gvr: K::gvr, namespace: "", register }), gate: "" }
    }

    /// Starts the informer only if the gate is on and the API server serves the resource.
    pub const fn behind(self, gate: &'static str) -> Self {
        Self { gate, ..self }
    }

    pub const fn in_namespace(self, namespace: &'static str) -> Self {
        let Self { purpose, collection, gate } = self;
        let collection = match collection {
            Some(Collection { gvr, register, .. }) => Some(Collection { gvr, namespace, register }),
            None => None,
        };
        Self { purpose, collection, gate }
    }

    fn is_of(&self, gvr: &Gvr) -> bool {
        self.collection.as_ref().is_some_and(|collection| (collection.gvr)() == *gvr)
    }

    /// Returns the collection, unless it stands behind a gate and is not served.
    fn active(&self, served: &BTreeSet<Gvr>) -> Option<&Collection> {
        let collection = self.collection.as_ref();
        collection.filter(|collection| self.gate.is_empty() || served.contains(&(collection.gvr)()))
    }
}

impl ControllerDescriptor {
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Returns the resources behind gates.
    #[cfg(any(test, feature = "testing"))]
    pub fn gated(&self) -> impl Iterator<Item = Gvr> {
        let gated = self.informers.iter().filter(|watch| !watch.gate.is_empty());
        gated.filter_map(|watch| Some((watch.collection.as_ref()?.gvr)()))
    }

    /// Returns the resources that the controller watches, and in brackets those that it only reads.
    #[cfg(any(test, feature = "testing"))]
    pub fn watched(&self) -> String {
        let names = |purpose: Purpose| -> Vec<String> {
            let watches = self.informers.iter().filter(|watch| watch.purpose == purpose);
            watches.filter_map(|watch| watch.collection.as_ref()).map(|it| (it.gvr)().resource).collect()
        };
        let mut triggers = names(Purpose::Triggers);
        if self.informers.iter().any(|watch| watch.purpose == Purpose::Discovers) {
            triggers.push("every resource".to_owned());
        }
        let (triggers, reads) = (triggers.join(", "), names(Purpose::Reads).join(", "));
        let reads = if reads.is_empty() { reads } else { format!("({reads})") };
        [triggers, reads].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Starts the controller with what this row names.
    ///
    /// # Panics
    ///
    /// In a debug build if the controller leaves a trigger of its row without a handler.
    pub fn start(&self, context: &Context) -> Running {
        let setup = Setup {
            env: &context.env,
            client: &context.client,
            settings: &context.settings,
            context,
            descriptor: self,
            are_registered: Cell::new(false),
            handled: RefCell::default(),
        };
        let running = (self.start)(&setup);
        if setup.are_registered.get() {
            let triggers = self.informers.iter().filter(|watch| watch.purpose == Purpose::Triggers);
            let triggers = triggers.filter(|watch| watch.active(&context.served).is_some());
            let has_handler = |watch: &Watch| setup.handled.borrow().iter().any(|gvr| watch.is_of(gvr));
            debug_assert!(triggers.into_iter().all(has_handler), "{} leaves a trigger without a handler", self.name);
        }
        running
    }
}

/// Asks the API server which of the resources behind gates it serves that these controllers need.
pub async fn find_served(context: &mut Context, controllers: &[&ControllerDescriptor]) {
    let watches = controllers.iter().flat_map(|controller| controller.informers);
    let is_on = |gate: &str| feature_gates::is_on(KubeControllerManager::NAME, &context.settings.feature_gates, gate);
    let gated = watches.filter(|watch| !watch.gate.is_empty() && is_on(watch.gate));
    let resources: BTreeSet<Gvr> = gated.filter_map(|watch| Some((watch.collection.as_ref()?.gvr)())).collect();
    for resource in resources {
        if is_served(&context.client, &resource).await {
            context.served.insert(resource);
        }
    }
}

/// The manager's context, limited to what a controller's row names. Its `start` function receives it.
pub struct Setup<'a> {
    pub env: &'a Env,
    /// The manager's own identity, under which everything is read.
    pub client: &'a Client,
    pub settings: &'a Arc<Settings>,
    context: &'a Context,
    descriptor: &'a ControllerDescriptor,
    are_registered: Cell<bool>,
    /// The triggers that have a handler.
    handled: RefCell<Vec<Gvr>>,
}

impl Setup<'_> {
    /// Returns the client and the event recorder of the row's ServiceAccount. Each call creates a recorder.
    pub fn actor(&self) -> Actor {
        self.context.act_as(self.descriptor.service_account, self.descriptor.component)
    }

    /// Returns true if all these feature gates are on, which the controller needs. Logs if not.
    pub fn has_gates(&self, gates: &[&str]) -> bool {
        let values = &self.settings.feature_gates;
        let has_all = gates.iter().all(|gate| feature_gates::is_on(KubeControllerManager::NAME, values, gate));
        if !has_all {
            let controller = self.descriptor.name;
            tracing::info!(controller, required_feature_gates = ?gates, "controller is disabled by a feature gate");
        }
        has_all
    }

    /// Returns true if the API server serves a resource of the row that stands behind a gate, and the gate is on. Logs if not.
    pub fn serves<K: Kind>(&self) -> bool {
        let resource = K::gvr();
        let is_served = self.context.served.contains(&resource);
        if !is_served {
            let controller = self.descriptor.name;
            tracing::info!(controller, %resource, "the API server does not serve the resource, or its gate is off");
        }
        is_served
    }

    /// Creates the work queues of the row.
    pub fn queues<const N: usize>(&self) -> [WorkQueue<String>; N] {
        let names: [&'static str; N] = self.descriptor.queues.try_into().expect("the row names as many queues");
        names.map(|name| self.context.queue(name))
    }

    /// Creates the work queue of a row that names one.
    pub fn queue(&self) -> WorkQueue<String> {
        let [queue] = self.queues();
        queue
    }

    /// Creates the work queue of a row that names one, in which a key that failed waits for a fixed time.
    pub fn queue_with_fixed_delay(&self, delay: Duration) -> WorkQueue<String> {
        self.queue_with_delays(delay, delay)
    }

    /// Creates the work queue of a row that names one, in which a key that failed waits longer each time.
    pub fn queue_with_delays(&self, shortest: Duration, longest: Duration) -> WorkQueue<String> {
        let [name] = self.descriptor.queues.try_into().expect("the row names one queue");
        WorkQueue::with_limiter(self.env, name, RateLimiter::per_key(shortest, longest))
    }

    /// Returns an informer of the row. The first call registers all informers of the row, in its order. A controller
    /// that does not run without a certain flag requests none, so none starts for it.
    pub fn informer<K: Kind>(&self) -> Informer<K> {
        let informers = &self.context.informers;
        if !self.are_registered.replace(true) {
            for Collection { namespace, register, .. } in self.collections() {
                register(informers, namespace);
            }
        }
        let named = self.collections().find(|collection| (collection.gvr)() == K::gvr());
        informers.of_namespace(named.expect("the row names the informer").namespace)
    }

    pub fn lister<K: Kind>(&self) -> Lister<K> {
        self.informer().lister()
    }

    /// Hands every event of a trigger to `handler`, which adds to `queue` the keys that the event concerns.
    pub fn on_event<K: Kind>(
        &self,
        queue: &WorkQueue<String>,
        handler: impl Fn(&Event<K>, &WorkQueue<String>) + Send + Sync + 'static,
    ) {
        let is_trigger = |watch: &Watch| watch.purpose == Purpose::Triggers && watch.is_of(&K::gvr());
        assert!(self.descriptor.informers.iter().any(is_trigger), "the row names the trigger");
        self.handled.borrow_mut().push(K::gvr());
        let queue = queue.clone();
        self.informer::<K>().on_event(move |event| handler(event, &queue));
    }

    /// Returns the informers of the process, for a controller whose row `discovers`.
    pub fn discovered(&self) -> Informers {
        let mut row = self.descriptor.informers.iter();
        assert!(row.any(|watch| watch.purpose == Purpose::Discovers), "the row discovers resources");
        self.context.informers.clone()
    }

    /// Runs a reconciler under the row's ServiceAccount.
    pub fn run<R: Reconciler>(&self, queue: WorkQueue<String>, workers: usize, reconciler: R) -> Running {
        Box::pin(reconcile::run(self.actor(), queue, workers, reconciler))
    }

    /// Runs a periodic reconciler under the row's ServiceAccount; `name` is the name in its log lines.
    pub fn run_periodically<R: PeriodicReconciler>(
        &self,
        name: &'static str,
        period: Duration,
        reconciler: R,
    ) -> Running {
        Box::pin(reconcile::run_periodically(self.env.clone(), self.actor(), name, period, reconciler))
    }

    /// Adds the objects of the row that are due to a queue once in a period, without an event; never if it is zero.
    pub fn resync<K: Kind>(
        &self,
        queue: &WorkQueue<String>,
        period: Duration,
        is_due: impl Fn(&K) -> bool + Send + 'static,
    ) -> Running {
        Box::pin(resync(self.env.clone(), queue.clone(), self.lister(), period, is_due))
    }

    fn collections(&self) -> impl Iterator<Item = &Collection> {
        self.descriptor.informers.iter().filter_map(|watch| watch.active(&self.context.served))
    }
}
