//! Writes the allocations and reservations of a pod's claims, and waits until their drivers are ready for it.
//!
//! Corresponds to PreBind, bindClaim and Unreserve in pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go.

use super::binding_conditions;
use super::device_metrics::DeviceMetrics;
use super::extended::{self, ExtendedClaim};
use super::pod_claims::PodClaims;
use super::tracked_claims::TrackedClaims;
use client::{Client, DeleteOptions, Error, EventSpec, EventType, Patch, PatchOptions, Recorder, Regarding};
use component_base::env::Env;
use component_helpers::device_claims::{FINALIZER, allocation, consumer, has_finalizer, is_reserved_for};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::{AllocationResult, ResourceClaim};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use scheduling_framework::pod_info::PodInfo;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Attempts at one claim, if others write it at the same time.
const ATTEMPTS: usize = 5;
/// Time between two looks at the conditions of devices.
const PERIOD: Duration = Duration::from_secs(5);

/// What the plugin writes with.
#[derive(Clone)]
pub struct Writer {
    pub client: Client,
    pub env: Env,
    pub recorder: Recorder,
    /// Time that drivers have for the binding conditions of their devices.
    pub binding_timeout: Duration,
    metrics: DeviceMetrics,
    /// Pods whose reservations are being taken back, by uid. Each channel closes at the end.
    unreserving: Arc<Mutex<BTreeMap<String, oneshot::Receiver<()>>>>,
}

/// Default of `bindingTimeout`.
const BINDING_TIMEOUT: Duration = Duration::from_secs(600);

impl Writer {
    pub fn new(client: &Client, recorder: Recorder) -> Self {
        let env = client.env().clone();
        let metrics = DeviceMetrics::new(&env);
        Self {
            client: client.clone(),
            env,
            recorder,
            binding_timeout: BINDING_TIMEOUT,
            metrics,
            unreserving: Arc::default(),
        }
    }

    /// Returns the time before which an allocation is overdue.
    pub fn oldest(&self) -> Timestamp {
        self.env.wall().saturating_sub(self.binding_timeout).unwrap_or(Timestamp::MIN)
    }
}

/// An error of a write, or the reason why nothing is written.
enum Refused {
    Conflict(String),
    Final(String),
}

/// Writes each claim that is not reserved for the pod yet. It first waits until the reservations of an earlier attempt are taken
/// back; that request would otherwise take this attempt's reservations.
pub async fn bind(
    writer: &Writer,
    tracked: &TrackedClaims,
    claims: &PodClaims,
    pod: &PodInfo,
    node: &str,
) -> Result<(), String> {
    let earlier = writer.unreserving.lock().remove(pod.uid());
    if let Some(ended) = earlier {
        let _ = ended.await;
    }
    for (number, one) in claims.claims.iter().enumerate() {
        let present = || tracked.get(one.claim.namespace(), one.claim.name());
        let claim = match is_reserved_for(&one.claim, &pod.pod) {
            false => one.claim.clone(),
            true => match present().filter(|present| !is_reserved_for(present, &pod.pod)) {
                Some(taken_back) => taken_back,
                None => continue,
            },
        };
        let written = Arc::new(bind_claim(writer, &claim, one.chosen.as_ref(), pod).await?);
        tracked.written(written.clone());
        claims.findings.lock().written.insert(number, written);
    }
    if let Some((extended, allocation)) = &claims.chosen {
        bind_extended(writer, tracked, claims, pod, extended, allocation).await?;
    }
    if claims.newest().iter().any(|claim| binding_conditions::are_awaited(claim)) {
        wait(writer, tracked, claims, pod, node).await?;
    }
    Ok(())
}

/// Makes the claim of the pod's extended resources, and names it in the pod's status.
async fn bind_extended(
    writer: &Writer,
    tracked: &TrackedClaims,
    claims: &PodClaims,
    pod: &PodInfo,
    extended: &ExtendedClaim,
    allocation: &AllocationResult,
) -> Result<(), String> {
    let api = writer.client.api::<ResourceClaim>(pod.namespace());
    let created = api.create(&extended::to_create(&extended.claim)).await;
    writer.metrics.created(created.is_ok());
    let created = created.map_err(|error| format!("create claim for extended resources {}: {error}", pod.key))?;
    claims.findings.lock().extended = Some(Arc::new(created.clone()));
    let written = Arc::new(bind_claim(writer, &created, Some(allocation), pod).await?);
    tracked.written(written.clone());
    tracked.release(&extended.claim);
    claims.findings.lock().extended = Some(written.clone());
    let status = json!({"requestMappings": extended.mappings, "resourceClaimName": written.name()});
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"extendedResourceClaimStatus": status}});
    let pods = writer.client.api::<Pod>(pod.namespace());
    let patched = pods.patch_status(pod.pod.name(), &Patch::Strategic(patch), &PatchOptions::default()).await;
    patched.map(drop).map_err(|error| format!("update pod {} ExtendedResourceClaimStatus: {error}", pod.key))
}

async fn bind_claim(
    writer: &Writer,
    claim: &ResourceClaim,
    chosen: Option<&AllocationResult>,
    pod: &PodInfo,
) -> Result<ResourceClaim, String> {
    let mut claim = claim.clone();
    let mut attempt = 1;
    loop {
        match write(writer, claim.clone(), chosen, pod).await {
            Ok(written) => return Ok(written),
            Err(Refused::Conflict(_)) if attempt < ATTEMPTS => {}
            Err(Refused::Conflict(why) | Refused::Final(why)) => return Err(why),
        }
        attempt += 1;
        let present = writer.client.api::<ResourceClaim>(claim.namespace()).get(claim.name()).await;
        claim = present.map_err(|error| format!("get updated claim {} after conflict: {error}", claim.key()))?;
    }
}

/// Writes the finalizer, and then the allocation and the reservation.
async fn write(
    writer: &Writer,
    mut claim: ResourceClaim,
    chosen: Option<&AllocationResult>,
    pod: &PodInfo,
) -> Result<ResourceClaim, Refused> {
    let api = writer.client.api::<ResourceClaim>(claim.namespace());
    let key = claim.key();
    if claim.is_deleting() {
        return Err(Refused::Final(format!("claim {key} got deleted in the meantime")));
    }
    if let Some(chosen) = chosen {
        if allocation(&claim).is_some() {
            return Err(Refused::Final(format!("claim {key} got allocated elsewhere in the meantime")));
        }
        if !has_finalizer(&claim) {
            claim.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
            claim = api.update(&claim).await.map_err(|error| refused("add finalizer to claim", &key, &error))?;
        }
        claim.status.get_or_insert_default().allocation = Some(chosen.clone());
    }
    let status = claim.status.get_or_insert_default();
    status.reserved_for.get_or_insert_default().push(consumer(&pod.pod));
    if let Some(allocation) = &mut status.allocation {
        allocation.allocation_timestamp.get_or_insert_with(|| Time(writer.env.wall()));
    }
    let what = if chosen.is_some() { "add allocation and reservation to claim" } else { "add reservation to claim" };
    api.update_status(&claim).await.map_err(|error| refused(what, &key, &error))
}

fn refused(what: &str, key: &str, error: &Error) -> Refused {
    let why = format!("{what} {key}: {error}");
    if error.is_conflict() { Refused::Conflict(why) } else { Refused::Final(why) }
}

/// Waits until all binding conditions are true.
async fn wait(
    writer: &Writer,
    tracked: &TrackedClaims,
    claims: &PodClaims,
    pod: &PodInfo,
    node: &str,
) -> Result<(), String> {
    let message = format!("waiting for binding conditions for device on node {node}");
    let regarding = Regarding::of(&*pod.pod);
    let event = EventSpec::new(&regarding, EventType::Normal, "BindingConditionsPending", message);
    writer.recorder.record(event.action("Scheduling"));
    let ready = async {
        while !are_ready(writer, tracked, claims)? {
            writer.env.sleep(PERIOD).await;
        }
        Ok(())
    };
    let began = writer.env.now();
    let ended = writer.env.timeout(writer.binding_timeout, ready).await;
    let status = match &ended {
        Ok(Ok(())) => "success",
        Ok(Err(_)) => "failure",
        Err(_) => "timeout",
    };
    let profile = pod.spec().scheduler_name.as_deref().unwrap_or_default();
    writer.metrics.waited(profile, &claims.newest(), status, writer.env.now() - began);
    ended.unwrap_or_else(|_| Err("device binding timeout".to_owned()))
}

fn are_ready(writer: &Writer, tracked: &TrackedClaims, claims: &PodClaims) -> Result<bool, String> {
    for (number, claim) in claims.newest().iter().enumerate() {
        let Some(present) = tracked.get(claim.namespace(), claim.name()) else {
            return Err(format!("could not find ResourceClaim {:?}: object not found", claim.key()));
        };
        claims.findings.lock().written.insert(number, present.clone());
        if !binding_conditions::is_ready(&present)? {
            return match binding_conditions::is_overdue(&present, Some(writer.oldest())) {
                true => Err(format!("claim {} binding timeout", present.name())),
                false => Ok(false),
            };
        }
    }
    Ok(true)
}

/// Deletes the claim of extended resources that are not used. If that fails, PostFilter of the next attempt does it.
async fn delete(client: &Client, claim: &ResourceClaim) -> Result<(), Error> {
    let api = client.api::<ResourceClaim>(claim.namespace());
    let mut present = api.get(claim.name()).await?;
    present.metadata.finalizers.iter_mut().for_each(|all| all.retain(|finalizer| finalizer != FINALIZER));
    api.update(&present).await?;
    api.delete(claim.name(), &DeleteOptions::with_uid(claim.uid())).await
}

/// Takes back the reservations of a pod that is not bound. What cannot be written now, the next attempt uses, or the
/// controller of claims removes after the pod. If the pod is bound after all, because only the answer was lost, the controller
/// reserves its claims again.
pub fn unreserve(writer: &Writer, tracked: &Arc<TrackedClaims>, claims: &PodClaims, pod: &PodInfo) {
    if let Some(made) = claims.findings.lock().extended.take() {
        let client = writer.client.clone();
        writer.env.spawn(async move {
            if let Err(error) = delete(&client, &made).await {
                tracing::warn!(claim = made.key(), %error, "not deleted");
            }
        });
    }
    let is_reserved = |claim: &Arc<ResourceClaim>| allocation(claim).is_some() && is_reserved_for(claim, &pod.pod);
    let reserved: Vec<Arc<ResourceClaim>> = claims.newest().into_iter().filter(is_reserved).collect();
    if reserved.is_empty() {
        return;
    }
    let (ends, ended) = oneshot::channel::<()>();
    let uid = pod.uid().to_owned();
    writer.unreserving.lock().insert(uid.clone(), ended);
    let (tracked, own) = (tracked.clone(), writer.clone());
    writer.env.spawn(async move {
        for claim in reserved {
            let patch = json!({
                "metadata": {"uid": claim.uid()},
                "status": {"reservedFor": [{"$patch": "delete", "uid": uid}]},
            });
            let api = own.client.api::<ResourceClaim>(claim.namespace());
            match api.patch_status(claim.name(), &Patch::Strategic(patch), &PatchOptions::default()).await {
                Ok(patched) => tracked.written(Arc::new(patched)),
                Err(error) => tracing::warn!(claim = claim.key(), %error, "not unreserved"),
            }
        }
        own.unreserving.lock().remove(&uid);
        drop(ends);
    });
}
