//! Devices: tries every choice of devices for the requests of a pod's claims.

mod extended;
mod world;

use crate::nodes::{matches, to_highest};
use crate::{Cluster, Rejection};
use component_helpers::device_claims::{
    ClaimName, MAX_CONSUMERS, allocation, claim_name, consumers, devices, entries, is_for_pod, is_reserved_for,
};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use proto::kinds::api::resource::v1::{DeviceRequest, DeviceRequestAllocationResult, ResourceClaim};
use world::{Choice, World};

const NAME: &str = "DynamicResources";
/// Annotation of the claims that a scheduler makes.
const MADE_BY_SCHEDULER: &str = "resource.kubernetes.io/extended-resource-claim";
/// Points of the first alternative of a request.
const FIRST_ALTERNATIVE: i64 = 8;

/// The claims of a pod.
#[derive(Default)]
pub struct Wanted<'a> {
    claims: Vec<&'a ResourceClaim>,
    /// The pod, for the resources that classes back.
    pod: Option<&'a Pod>,
}

/// Returns the names of the classes in a request, each with the name of its request.
fn classes(request: &DeviceRequest) -> Vec<(String, &str)> {
    match &request.exactly {
        Some(exactly) => vec![(request.name.clone(), &exactly.device_class_name)],
        None => {
            let listed = request.first_available.iter().flatten();
            listed.map(|one| (format!("{}/{}", request.name, one.name), one.device_class_name.as_str())).collect()
        }
    }
}

fn requests(claim: &ResourceClaim) -> impl Iterator<Item = &DeviceRequest> {
    claim.spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten())
}

/// Returns true if a driver has reported that it cannot make a device of the claim ready.
fn has_failed(claim: &ResourceClaim) -> bool {
    let devices = allocation(claim).into_iter().flat_map(|it| it.devices.iter());
    let results = devices.flat_map(|it| it.results.iter().flatten());
    let mut awaited = results.filter(|it| it.binding_conditions.as_ref().is_some_and(|all| !all.is_empty()));
    let reports = |driver: &str, pool: &str, device: &str, condition: &str| {
        let reports = claim.status.iter().flat_map(|status| status.devices.iter().flatten());
        let mut reports = reports.filter(|it| it.driver == driver && it.pool == pool && it.device == device);
        reports.any(|it| it.conditions.iter().flatten().any(|it| it.type_ == condition && it.status == "True"))
    };
    awaited.any(|it| {
        let mut failures = it.binding_failure_conditions.iter().flatten();
        failures.any(|condition| reports(&it.driver, &it.pool, &it.device, condition))
    })
}

impl Cluster {
    /// Returns the number of devices that stand for a resource on a node, and of those that claims have.
    pub(crate) fn device_totals(&self, node: &Node, resource: &str) -> (i64, i64) {
        let Some(class) = self.backing(resource) else { return (0, 0) };
        world::totals(self, node, class).unwrap_or((0, 0))
    }
}

impl Cluster {
    /// Returns the parts of a pod that this evaluator does not know: devices that drivers have to make ready, which needs a
    /// clock, and a claim that a scheduler has made for its extended resources.
    pub fn unknown_devices(&self, pod: &Pod) -> Vec<&'static str> {
        let mut unknown = Vec::new();
        let own = entries(pod).filter_map(|entry| match claim_name(pod, entry) {
            ClaimName::Shared(name) | ClaimName::Own(name) => self.devices.claims.get_in(pod.namespace(), name),
            ClaimName::NotNeeded | ClaimName::NotMade => None,
        });
        let awaits = |it: &DeviceRequestAllocationResult| {
            it.binding_conditions.as_ref().is_some_and(|conditions| !conditions.is_empty())
        };
        if own.flat_map(devices).any(awaits) {
            unknown.push("devices that have to be made ready");
        }
        let is_made = |claim: &ResourceClaim| {
            let mark = claim.metadata.annotations.as_ref().and_then(|all| all.get(MADE_BY_SCHEDULER));
            mark.is_some_and(|mark| mark == "true") && is_for_pod(claim, pod)
        };
        if self.devices.claims.iter().any(is_made) {
            unknown.push("a claim of extended resources that was made before");
        }
        unknown
    }
}

impl<'a> Wanted<'a> {
    /// Reads the claims of a pod, or returns why it can run nowhere.
    pub fn of(cluster: &'a Cluster, pod: &'a Pod) -> Result<Self, Rejection> {
        let refuse = |why: String| Rejection { plugin: NAME, reasons: vec![why], is_resolvable: false };
        let mut claims = Vec::new();
        for entry in entries(pod) {
            let (name, is_own) = match claim_name(pod, entry) {
                ClaimName::Shared(name) => (name, false),
                ClaimName::Own(name) => (name, true),
                ClaimName::NotNeeded => continue,
                ClaimName::NotMade => {
                    return Err(refuse(format!("pod {:?}: ResourceClaim not created yet", pod.key())));
                }
            };
            let key = format!("{}/{name}", pod.namespace());
            let missing = || refuse(format!("could not find ResourceClaim {key:?}: object not found"));
            let claim = cluster.devices.claims.get_in(pod.namespace(), name).ok_or_else(missing)?;
            if claim.is_deleting() {
                return Err(refuse(format!("resourceclaim {name:?} is being deleted")));
            }
            if is_own && !is_for_pod(claim, pod) {
                let pod = pod.key();
                return Err(refuse(format!("ResourceClaim {key} was not created for pod {pod} (pod is not owner)")));
            }
            claims.push(claim);
        }
        for claim in &claims {
            if allocation(claim).is_some() {
                if consumers(claim).len() >= MAX_CONSUMERS && !is_reserved_for(claim, pod) {
                    return Err(refuse("resourceclaim in use".to_owned()));
                }
                continue;
            }
            let known = |name: &str| cluster.devices.classes.get(name).is_some();
            if let Some((request, class)) = requests(claim).flat_map(classes).find(|(_, class)| !known(class)) {
                return Err(refuse(format!("request {request}: device class {class} does not exist")));
            }
        }
        Ok(Self { claims, pod: Some(pod) })
    }

    fn pending(&self) -> Vec<&'a ResourceClaim> {
        self.claims.iter().copied().filter(|claim| allocation(claim).is_none()).collect()
    }

    /// Rejects a node on which the claims do not get devices, or cannot use those that they have.
    pub fn reject(&self, cluster: &Cluster, node: &Node) -> Option<Rejection> {
        let extended = self.pod.and_then(|pod| extended::claim_on(cluster, pod, node));
        let pending: Vec<&ResourceClaim> = self.pending().into_iter().chain(&extended).collect();
        if !pending.is_empty() && World::of(cluster, node).first_choice(&pending).is_none() {
            return Some(Rejection::unresolvable(NAME, "cannot allocate all claims"));
        }
        let is_elsewhere = |claim: &&&ResourceClaim| {
            allocation(claim).is_some_and(|it| !matches(it.node_selector.as_ref(), node)) || has_failed(claim)
        };
        let is_elsewhere = self.claims.iter().any(|claim| is_elsewhere(&claim));
        is_elsewhere.then(|| Rejection::unresolvable(NAME, "resourceclaim not available on the node"))
    }

    /// Scores nodes on which better alternatives are free.
    pub fn scores(&self, cluster: &Cluster, fit: &[&Node]) -> Option<Vec<i64>> {
        let pending = self.pending();
        let lists = || pending.iter().flat_map(|claim| requests(claim)).map(|request| request.exactly.is_none());
        if !lists().any(|is_list| is_list) {
            return None;
        }
        let points = |node: &&Node| -> i64 {
            let chosen = World::of(cluster, node).first_choice(&pending).unwrap_or_default();
            let points = |(is_list, choice): (bool, &Choice)| match is_list {
                true => FIRST_ALTERNATIVE - choice.alternative as i64,
                false => 0,
            };
            lists().zip(&chosen).map(points).sum()
        };
        Some(to_highest(fit.iter().map(points).collect()))
    }
}
