//! Leader election: one of several equal processes works, and the others wait for its Lease to expire.
//!
//! Corresponds to k8s.io/client-go/tools/leaderelection.

use crate::client::Client;
use crate::error::Error;
use crate::events::{EventType, Recorder, Regarding};
use component_base::env::Env;
use component_base::options::LEADER_JITTER;
use component_base::rng::Random;
use parking_lot::Mutex;
use proto::kinds::api::coordination::v1::{Lease, LeaseSpec};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::{MicroTime, ObjectMeta};
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// Least time for one attempt, however short the renew deadline is.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(1);
const HELP: &str = "Whether this process leads: 1, or stands by: 0";

/// A candidate, its Lease, and the election's durations.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    pub lease_name: String,
    pub namespace: String,
    /// Identity of the candidate, unique for each process; see [`identity`].
    pub identity: String,
    /// Time that the others wait for a leader that does not renew.
    pub lease_duration: Duration,
    /// Time that a leader tries to renew before it gives up; shorter than the lease, so that two never lead.
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

/// The Lease could not be renewed in time, so another process may be leading.
#[derive(Debug, thiserror::Error)]
#[error("leader election lost: lease {namespace}/{lease_name} was not renewed within {renew_deadline:?}")]
pub struct LeadershipLost {
    namespace: String,
    lease_name: String,
    renew_deadline: Duration,
}

/// Returns a new identity, `<host>_<uuid>`. It changes with a restart, also under the same seed.
pub fn identity(env: &Env, host: &str) -> String {
    format!("{host}_{}", env.random(&format!("client/leader/{host}/{}", env.wall())).uid())
}

/// The Lease as last observed, with the local time of its last change, since clocks of machines are never compared.
struct Observed {
    lease: Lease,
    at: Instant,
}

/// The next action of a candidate or leader on the Lease.
#[derive(Debug, PartialEq)]
enum LeaseAction {
    Create(Box<LeaseSpec>),
    Update(Box<LeaseSpec>),
    HeldBy(String),
}

impl LeaderElection {
    /// Makes a candidate with the durations of Kubernetes' components.
    pub fn new(lease_name: &str, namespace: &str, identity: &str) -> Self {
        Self {
            lease_name: lease_name.into(),
            namespace: namespace.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Waits to be elected, then leads until `env` shuts down, `lead` returns, or the Lease is lost. Before this returns, the
    /// environment given to `lead` has shut down and its tasks have ended.
    pub async fn run<Fut>(
        &self,
        env: &Env,
        client: &Client,
        lead: impl FnOnce(Env) -> Fut,
    ) -> Result<(), LeadershipLost>
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        let elector = Elector {
            election: self,
            env,
            client,
            random: env.random(&format!("client/leader/{}/{}", self.lease_name, self.identity)),
            observed: Mutex::new(None),
        };
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return Ok(()),
            () = elector.acquire() => {}
        }
        let recorder = Recorder::new(client, &self.lease_name, "");
        elector.announce(&recorder, "became leader");
        let status = env.metrics().gauges("leader_election_master_status", HELP);
        let status = status.get_or_create_owned(&vec![("name", self.lease_name.clone())]);
        status.set(1);
        let leading_env = env.child();
        let mut leading = env.spawn(lead(leading_env.clone()));
        let mut ended = None;
        let result = tokio::select! {
            biased;
            () = env.shutdown().cancelled() => Ok(()),
            end = &mut leading => {
                ended = Some(end);
                Ok(())
            }
            lost = elector.renew() => Err(lost),
        };
        leading_env.drain().await;
        let ended = match ended {
            Some(end) => end,
            None => leading.await,
        };
        status.set(0);
        match &result {
            Ok(()) => elector.release().await,
            Err(_) => elector.announce(&recorder, "stopped leading"),
        }
        match ended.map_err(tokio::task::JoinError::try_into_panic) {
            // Passes on a panic of the component.
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            _ => result,
        }
    }

    /// Decides the next action; a pure function. `now` and `wall` are the same instant.
    fn next_action(&self, held: Option<&Lease>, observed_at: Instant, now: Instant, wall: Timestamp) -> LeaseAction {
        let mine = |acquired: MicroTime, transitions| {
            Box::new(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)),
                acquire_time: Some(acquired),
                renew_time: Some(MicroTime(wall)),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            })
        };
        let Some(lease) = held else { return LeaseAction::Create(mine(MicroTime(wall), 0)) };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or(0);
        if holder == self.identity {
            return LeaseAction::Update(mine(spec.acquire_time.unwrap_or(MicroTime(wall)), transitions));
        }
        let duration_s = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
        if !holder.is_empty() && observed_at + Duration::from_secs(duration_s) > now {
            return LeaseAction::HeldBy(holder);
        }
        LeaseAction::Update(mine(MicroTime(wall), transitions + 1))
    }
}

struct Elector<'a> {
    election: &'a LeaderElection,
    env: &'a Env,
    client: &'a Client,
    random: Random,
    observed: Mutex<Option<Observed>>,
}

impl Elector<'_> {
    async fn acquire(&self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!(lease = self.election.lease_name, %error, "cannot stand for leader"),
            }
            self.env.sleep(self.random.jitter(self.election.retry_period, LEADER_JITTER)).await;
        }
    }

    /// Renews until renewing has failed for the whole deadline.
    async fn renew(&self) -> LeadershipLost {
        let LeaderElection { lease_name, namespace, renew_deadline, retry_period, .. } = self.election;
        let renewed_in_time = async || {
            loop {
                match self.attempt().await {
                    Ok(true) => return,
                    Ok(false) => tracing::warn!(lease = lease_name, "somebody else holds the lease"),
                    Err(error) => tracing::warn!(lease = lease_name, %error, "cannot renew the lease"),
                }
                self.env.sleep(*retry_period).await;
            }
        };
        loop {
            self.env.sleep(*retry_period).await;
            if self.env.timeout(*renew_deadline, renewed_in_time()).await.is_err() {
                return LeadershipLost {
                    namespace: namespace.clone(),
                    lease_name: lease_name.clone(),
                    renew_deadline: *renew_deadline,
                };
            }
        }
    }

    /// Tries once to get or keep the Lease, and returns true if this candidate holds it. The attempt has a time limit, so
    /// that one unanswered request does not use up the deadline.
    async fn attempt(&self) -> Result<bool, Error> {
        let limit = (self.election.renew_deadline / 2).max(SHORTEST_ATTEMPT);
        let attempt = self.env.timeout(limit, self.try_acquire_or_renew()).await;
        attempt.unwrap_or_else(|elapsed| Err(Error::Lost(elapsed.to_string())))
    }

    /// Returns the Lease as this candidate wrote it, if it has not expired.
    fn own(&self) -> Option<Lease> {
        let observed = self.observed.lock();
        let Observed { lease, at } = observed.as_ref()?;
        let is_ours = lease.spec.as_ref()?.holder_identity.as_deref() == Some(&self.election.identity);
        (is_ours && *at + self.election.lease_duration > self.env.now()).then(|| lease.clone())
    }

    async fn try_acquire_or_renew(&self) -> Result<bool, Error> {
        let api = self.client.api::<Lease>(&self.election.namespace);
        // Nobody else can have taken a Lease that has not expired, so it need not be read.
        if let Some(lease) = self.own()
            && let LeaseAction::Update(spec) =
                self.election.next_action(Some(&lease), self.env.now(), self.env.now(), self.env.wall())
        {
            match api.update(&Lease { spec: Some(*spec), ..lease }).await {
                Ok(updated) => {
                    self.observe(Some(&updated));
                    return Ok(true);
                }
                Err(error) => tracing::debug!(lease = self.election.lease_name, %error, "looking at the lease again"),
            }
        }
        let held = match api.get(&self.election.lease_name).await {
            Ok(lease) => Some(lease),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let observed_at = self.observe(held.as_ref());
        match self.election.next_action(held.as_ref(), observed_at, self.env.now(), self.env.wall()) {
            LeaseAction::HeldBy(holder) => {
                tracing::debug!(lease = self.election.lease_name, holder, "lease is held");
                Ok(false)
            }
            LeaseAction::Create(spec) => {
                let metadata = ObjectMeta {
                    name: Some(self.election.lease_name.clone()),
                    namespace: Some(self.election.namespace.clone()),
                    ..ObjectMeta::default()
                };
                let created = api.create(&Lease { metadata, spec: Some(*spec) }).await?;
                self.observe(Some(&created));
                Ok(true)
            }
            LeaseAction::Update(spec) => {
                let lease = Lease { spec: Some(*spec), ..held.unwrap_or_default() };
                let updated = api.update(&lease).await?;
                self.observe(Some(&updated));
                Ok(true)
            }
        }
    }

    /// Records the Lease, and returns the time at which it was first observed in this state.
    fn observe(&self, lease: Option<&Lease>) -> Instant {
        let now = self.env.now();
        let Some(lease) = lease else { return now };
        let mut observed = self.observed.lock();
        match &*observed {
            Some(known) if known.lease.spec == lease.spec => known.at,
            _ => {
                *observed = Some(Observed { lease: lease.clone(), at: now });
                now
            }
        }
    }

    /// Releases the Lease, so that the next leader can begin at once.
    async fn release(&self) {
        let api = self.client.api::<Lease>(&self.election.namespace);
        let giving_up = async {
            let mut lease = api.get(&self.election.lease_name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.election.identity) {
                return Ok(());
            }
            spec.holder_identity = None; // an empty text would be invalid
            spec.lease_duration_seconds = Some(1);
            spec.acquire_time = Some(MicroTime(self.env.wall()));
            spec.renew_time = Some(MicroTime(self.env.wall()));
            api.update(&lease).await.map(drop)
        };
        match self.env.timeout(self.election.retry_period, giving_up).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(lease = self.election.lease_name, %error, "lease not released"),
            Err(elapsed) => tracing::warn!(lease = self.election.lease_name, %elapsed, "lease not released"),
        }
    }

    fn announce(&self, recorder: &Recorder, what: &str) {
        let message = format!("{} {what}", self.election.identity);
        tracing::info!(lease = self.election.lease_name, "{message}");
        if let Some(observed) = &*self.observed.lock() {
            recorder.event(&Regarding::of(&observed.lease), EventType::Normal, "LeaderElection", message);
        }
    }
}
