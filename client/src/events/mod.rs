//! `Recorder`: records Events about objects, and writes them to the API in the background.
//!
//! Corresponds to k8s.io/client-go/tools/record and, for `Recorder::of_series`, to tools/events.

mod fingerprint;
mod names;
mod body;
mod lru;
mod correlator;
mod series;
mod writer;

use crate::client::Client;
use component_base::env::Env;
use names::Names;
use parking_lot::Mutex;
use proto::kinds::Kind;
use proto::kinds::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Most events that wait to be written, as in client-go's broadcaster. Further ones are dropped with a log line.
const QUEUE_LENGTH: usize = 1000;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Regarding {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Part of the object, such as `spec.containers{web}`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

impl Regarding {
    pub fn of<K: Kind>(object: &K) -> Self {
        Self {
            api_version: K::gvk().api_version(),
            kind: K::KIND.to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
            field_path: String::new(),
        }
    }

    /// Makes the reference of an encoded object.
    pub fn of_value(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        Self {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            resource_version: text(&metadata["resourceVersion"]),
            field_path: String::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    Normal,
    Warning,
}

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// An event in a plan, without time and reporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    pub regarding: Regarding,
    pub event_type: EventType,
    /// One word in CamelCase, for machines.
    pub reason: String,
    pub message: String,
    /// Action that was taken; mostly empty.
    pub action: String,
    /// A second object that the event is about. Only recorders of series write it.
    pub related: Option<Regarding>,
}

impl EventSpec {
    pub fn new(
        regarding: &Regarding,
        event_type: EventType,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            regarding: regarding.clone(),
            event_type,
            reason: reason.into(),
            message: message.into(),
            action: String::new(),
            related: None,
        }
    }

    /// Sets the action that was taken.
    pub fn action(self, action: &str) -> Self {
        Self { action: action.to_owned(), ..self }
    }
}

impl fmt::Display for EventSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Regarding { kind, namespace, name, .. } = &self.regarding;
        let object = crate::cached::key(namespace, name);
        write!(f, "{} {} {kind} {object}: {}", self.event_type.as_str(), self.reason, self.message)
    }
}

/// How an event and its repeats are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// An Event of the core group, with a source and a count.
    Counted,
    /// An Event of `events.k8s.io/v1`. Its repeats are its series.
    Series,
}

/// A recorded event, to be written to the API.
#[derive(Clone, Debug)]
struct Occurrence {
    form: Form,
    spec: EventSpec,
    component: Arc<str>,
    /// The reporting instance; in the core group also the host of the source.
    host: Arc<str>,
    /// The agent that writes the event, if not the recorder's own client.
    agent: Option<Arc<Agent>>,
    name: String,
    /// True if other processes record the same event under the same name. Then nobody knows how often it occurred.
    is_shared: bool,
    count: u32,
    first_at: Timestamp,
    last_at: Timestamp,
}

impl Occurrence {
    /// Returns the event's namespace; `default` for cluster-scoped objects.
    fn namespace(&self) -> &str {
        let namespace = &self.spec.regarding.namespace;
        if namespace.is_empty() { "default" } else { namespace }
    }
}

/// A simulated node agent, as which events are written.
#[derive(Debug)]
struct Agent {
    client: Client,
    /// Events from the time in which the client's link was cut.
    held: Mutex<VecDeque<Occurrence>>,
}

impl Agent {
    /// Keeps an event until the link is mended. The oldest ones of a long time are dropped.
    fn hold(&self, event: Occurrence) {
        let mut held = self.held.lock();
        held.push_back(Occurrence { agent: None, ..event });
        if held.len() > QUEUE_LENGTH {
            held.pop_front();
        }
    }
}

/// Records events under a component's name; clones share the queue.
#[derive(Clone)]
pub struct Recorder {
    env: Env,
    form: Form,
    names: Arc<Names>,
    component: Arc<str>,
    host: Arc<str>,
    agent: Option<Arc<Agent>>,
    /// Where events wait; none if the client forgets them.
    queue: Option<mpsc::Sender<Occurrence>>,
    /// All queues, among which agents are spread.
    queues: Arc<[mpsc::Sender<Occurrence>]>,
}

impl Recorder {
    /// Makes a recorder; `host` is empty for all but node agents.
    pub fn new(client: &Client, component: &str, host: &str) -> Self {
        let queue = queue(client, component, QUEUE_LENGTH, Form::Counted);
        Self::over(client, component, host, Form::Counted, queue.into_iter().collect())
    }

    /// Makes a recorder of Events of `events.k8s.io/v1`, as client-go's tools/events does: an event that repeats soon becomes
    /// a series. The reporting instance is the controller on this host. Each event needs an action.
    pub fn of_series(client: &Client, controller: &str) -> Self {
        let instance = format!("{controller}-{}", client.env().host_name());
        let queue = queue(client, controller, QUEUE_LENGTH, Form::Series);
        Self::over(client, controller, &instance, Form::Series, queue.into_iter().collect())
    }

    /// Makes a recorder for a process that simulates many node agents: it has several queues, and each agent uses one of
    /// them, as `on_behalf_of` says.
    pub fn of_agents(client: &Client, component: &str, queues: usize, queue_length: usize) -> Self {
        let form = Form::Counted;
        let one = |number| queue(client, &format!("{component}/{number}"), queue_length, form);
        Self::over(client, component, "", form, (0..queues.max(1)).filter_map(one).collect())
    }

    fn over(client: &Client, component: &str, host: &str, form: Form, queues: Arc<[mpsc::Sender<Occurrence>]>) -> Self {
        let env = client.env().clone();
        Self {
            names: Arc::new(Names::new(&env.random(&format!("client/events/{component}/{host}")))),
            env,
            form,
            component: component.into(),
            host: host.into(),
            agent: None,
            queue: queues.first().cloned(),
            queues,
        }
    }

    /// Returns a recorder of one simulated node agent, which writes as `client` from `host`. All its events go through one
    /// queue, in their order.
    pub fn on_behalf_of(&self, client: &Client, host: &str) -> Self {
        let number = host.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let agent = Agent { client: client.clone(), held: Mutex::default() };
        Self {
            agent: Some(Arc::new(agent)),
            host: host.into(),
            queue: self.queues.get(number % self.queues.len().max(1)).cloned(),
            ..self.clone()
        }
    }

    /// Records an event, and returns at once.
    pub fn event(
        &self,
        regarding: &Regarding,
        event_type: EventType,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.record(EventSpec::new(regarding, event_type, reason, message));
    }

    pub fn record(&self, spec: EventSpec) {
        self.record_at(spec, self.env.wall());
    }

    /// Records an event that occurred at `at`.
    pub fn record_at(&self, spec: EventSpec, at: Timestamp) {
        if self.queue.is_some() {
            let name = self.names.next(&spec.regarding.name, self.env.wall());
            self.record_as(name, false, spec, at);
        }
    }

    /// Records an event that several processes record without knowing of each other. They all give it the same name, so that
    /// the API server keeps one: the first one is created, and the others exist already.
    pub fn record_shared(&self, spec: EventSpec) {
        if self.queue.is_some() {
            self.record_as(names::shared(&spec), true, spec, self.env.wall());
        }
    }

    fn record_as(&self, name: String, is_shared: bool, spec: EventSpec, at: Timestamp) {
        let occurrence = Occurrence {
            form: self.form,
            name,
            is_shared,
            spec,
            component: self.component.clone(),
            host: self.host.clone(),
            agent: self.agent.clone(),
            count: 1,
            first_at: at,
            last_at: at,
        };
        self.send(occurrence);
    }

    /// Writes the events from the time in which the link of this agent's client was cut.
    pub fn send_held(&self) {
        let held = self.agent.iter().flat_map(|agent| std::mem::take(&mut *agent.held.lock()));
        held.for_each(|event| self.send(Occurrence { agent: self.agent.clone(), ..event }));
    }

    fn send(&self, occurrence: Occurrence) {
        let Some(queue) = &self.queue else { return };
        if let Err(refused) = queue.try_send(occurrence) {
            let reason = match &refused {
                mpsc::error::TrySendError::Full(_) => "too many wait",
                mpsc::error::TrySendError::Closed(_) => "shutting down",
            };
            tracing::warn!(event = %refused.into_inner().spec, reason, "event dropped");
        }
    }
}

/// Starts a task that writes events, and returns its queue, unless the client forgets them. `name` tells its random numbers from those of others.
fn queue(client: &Client, name: &str, length: usize, form: Form) -> Option<mpsc::Sender<Occurrence>> {
    if client.forgets_events() {
        return None;
    }
    let (queue, waiting) = mpsc::channel(length.max(1));
    client.env().spawn(writer::write_all(client.clone(), name.to_owned(), form, waiting));
    Some(queue)
}
