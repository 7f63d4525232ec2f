//! Extended resources that DeviceClasses back: a pod asks for `example.com/gpu: 1` as ever, and the scheduler makes a claim of
//! the class's devices for it.
//!
//! A node whose kubelet counts the resource in its allocatable resources has a device plugin, and NodeResourcesFit decides alone.
//! Corresponds to pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.

use client::{Informer, Lister};
use component_helpers::device_claims::is_for_pod;
use device_allocation::{Allocator, Totals};
use proto::Kind;
use proto::kinds::api::core::v1::{Container, ContainerExtendedResourceRequest};
use proto::kinds::api::resource::v1::{DeviceClaim, DeviceClass, DeviceRequest, ExactDeviceRequest, ResourceClaim};
use proto::kinds::metav1::{ObjectMeta, OwnerReference};
use proto::meta::quantity::Quantity;
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::pod_info::PodInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Annotation of the claims that a scheduler makes.
const MADE_BY_SCHEDULER: &str = "resource.kubernetes.io/extended-resource-claim";
/// Start of the resource that every class backs.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";
/// Classes by the resources that they back.
const BY_RESOURCE: &str = "extendedResourceName";
/// Name of a claim that is not made yet. No claim can have it.
const NOT_MADE: &str = "<extended-resources>";

/// Key in the cycle's state of `Backed`.
pub const BACKED: &str = "DynamicResources/backed";

/// The resources of the pod that classes back. NodeResourcesFit does not ask nodes without them, and the scores of such nodes count
/// devices.
#[derive(Clone, Debug)]
pub struct Backed {
    classes: BTreeMap<String, Arc<DeviceClass>>,
    allocator: Arc<Allocator>,
}

impl Backed {
    pub fn new(resources: &ExtendedResources, allocator: Arc<Allocator>) -> Self {
        Self { classes: resources.classes.clone(), allocator }
    }

    pub fn has(&self, resource: &str) -> bool {
        self.classes.contains_key(resource)
    }

    /// Returns the devices that stand for a resource on a node.
    pub fn totals(&self, resource: &str, node: &NodeInfo) -> Totals {
        let class_and_node = self.classes.get(resource).zip(node.node.as_deref());
        class_and_node.map_or_else(Totals::default, |(class, node)| self.allocator.totals(node, class))
    }
}

/// The classes, by name and by resource.
#[derive(Clone)]
pub struct DeviceClasses(Lister<DeviceClass>);

fn resources(class: &DeviceClass) -> Vec<String> {
    let implicit = format!("{IMPLICIT}{}", class.name());
    class.spec.extended_resource_name.iter().cloned().chain([implicit]).collect()
}

impl DeviceClasses {
    pub fn new(informer: &Informer<DeviceClass>) -> Self {
        informer.index(BY_RESOURCE, resources);
        Self(informer.lister())
    }

    pub fn of(classes: impl IntoIterator<Item = DeviceClass>) -> Self {
        Self(Lister::of(classes).indexed(BY_RESOURCE, resources))
    }

    pub fn get(&self, name: &str) -> Option<Arc<DeviceClass>> {
        self.0.get("", name)
    }

    /// Returns the class that backs a resource: of several the newest, and then the first by name.
    fn backing(&self, resource: &str) -> Option<Arc<DeviceClass>> {
        let age = |class: &Arc<DeviceClass>| class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let classes = self.0.by_index(BY_RESOURCE, resource).into_iter();
        classes.max_by(|a, b| age(a).cmp(&age(b)).then_with(|| b.name().cmp(a.name())))
    }
}

/// The extended resources of a pod that classes back.
#[derive(Clone, Debug, Default)]
pub struct ExtendedResources {
    /// The classes by resource.
    pub classes: BTreeMap<String, Arc<DeviceClass>>,
    /// A claim that an earlier attempt has left behind.
    pub stale: Option<Arc<ResourceClaim>>,
}

/// A claim for a pod's extended resources on one node, and which container has which of its requests.
#[derive(Clone, Debug)]
pub struct ExtendedClaim {
    pub claim: Arc<ResourceClaim>,
    pub mappings: Vec<ContainerExtendedResourceRequest>,
}

impl ExtendedResources {
    /// Returns the pod's resources; `None` if classes back none of them.
    pub fn of(pod: &PodInfo, classes: &DeviceClasses, claims: &Lister<ResourceClaim>) -> Option<Self> {
        let wanted = pod.requests.scalar.iter().filter(|(_, amount)| **amount > 0);
        let backed: BTreeMap<String, Arc<DeviceClass>> =
            wanted.filter_map(|(name, _)| Some((name.clone(), classes.backing(name)?))).collect();
        if backed.is_empty() {
            return None;
        }
        let is_own = |claim: &ResourceClaim| {
            let mark = claim.metadata.annotations.as_ref().and_then(|all| all.get(MADE_BY_SCHEDULER));
            mark.is_some_and(|mark| mark == "true") && is_for_pod(claim, &pod.pod)
        };
        let stale = claims.filter(pod.namespace(), is_own).into_iter().next();
        Some(Self { classes: backed, stale })
    }

    /// Returns the claim for a node; `None` if a device plugin of the node has all the resources.
    pub fn claim_on(&self, pod: &PodInfo, node: &NodeInfo) -> Option<ExtendedClaim> {
        let missing = self.classes.iter().filter(|(name, _)| node.allocatable.get(name) == 0);
        let mut requests = Requests::default();
        for (resource, class) in missing {
            requests.add(pod, resource, class.name());
        }
        let Requests { mut requests, mappings } = requests;
        requests.sort_by(|a, b| a.name.cmp(&b.name));
        (!requests.is_empty()).then(|| ExtendedClaim { claim: Arc::new(claim_of(pod, requests)), mappings })
    }
}

/// Returns the uid of a pod's claim before the server gives it one.
fn provisional_uid(pod: &PodInfo) -> String {
    format!("extended-resources-of-{}", pod.uid())
}

fn claim_of(pod: &PodInfo, requests: Vec<DeviceRequest>) -> ResourceClaim {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.pod.name().to_owned(),
        uid: pod.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let metadata = ObjectMeta {
        name: Some(NOT_MADE.to_owned()),
        namespace: Some(pod.namespace().to_owned()),
        uid: Some(provisional_uid(pod)),
        generate_name: Some(format!("{}-extended-resources-", pod.pod.name())),
        owner_references: Some(vec![owner]),
        annotations: Some([(MADE_BY_SCHEDULER.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let mut claim = ResourceClaim { metadata, ..ResourceClaim::default() };
    claim.spec.devices = Some(DeviceClaim { requests: Some(requests), ..DeviceClaim::default() });
    claim
}

/// Returns the claim as it is sent to the server, which gives it a name and a uid.
pub fn to_create(claim: &ResourceClaim) -> ResourceClaim {
    let mut new = claim.clone();
    (new.metadata.name, new.metadata.uid, new.status) = (None, None, None);
    new
}

#[derive(Default)]
struct Requests {
    requests: Vec<DeviceRequest>,
    mappings: Vec<ContainerExtendedResourceRequest>,
}

impl Requests {
    /// Adds the requests of all containers for one resource. Init containers that end use the devices of later containers, and
    /// what one of them needs beyond that, the next may use too.
    fn add(&mut self, pod: &PodInfo, resource: &str, class: &str) {
        let init = pod.spec().init_containers.as_deref().unwrap_or_default();
        let containers: Vec<&Container> = init.iter().chain(&pod.spec().containers).collect();
        let ends =
            |number: usize| number < init.len() && containers[number].restart_policy.as_deref() != Some("Always");
        let mut lasting: BTreeMap<usize, (String, i64)> = BTreeMap::new();
        for (number, container) in containers.iter().enumerate().filter(|(number, _)| !ends(*number)) {
            if let Some((place, amount)) = wanted(container, resource) {
                let name = format!("container-{number}-request-{place}");
                self.map(container, resource, &name);
                self.request(&name, class, amount);
                lasting.insert(number, (name, amount));
            }
        }
        let mut beyond: Option<(String, i64)> = None;
        let mut users: Vec<&Container> = Vec::new();
        for (number, container) in containers.iter().enumerate().filter(|(number, _)| ends(*number)) {
            let Some((place, amount)) = wanted(container, resource) else { continue };
            let mut left = amount;
            for (name, has) in lasting.range(number..).map(|(_, request)| request) {
                if left <= 0 {
                    break;
                }
                self.map(container, resource, name);
                left -= has;
            }
            if left > 0 {
                users.push(container);
                if beyond.as_ref().is_none_or(|(_, most)| *most < left) {
                    beyond = Some((format!("container-{number}-request-{place}"), left));
                }
            }
        }
        if let Some((name, amount)) = beyond {
            users.into_iter().for_each(|container| self.map(container, resource, &name));
            self.request(&name, class, amount);
        }
    }

    fn request(&mut self, name: &str, class: &str, count: i64) {
        let exactly = ExactDeviceRequest {
            device_class_name: class.to_owned(),
            allocation_mode: Some("ExactCount".to_owned()),
            count: Some(count),
            ..ExactDeviceRequest::default()
        };
        self.requests.push(DeviceRequest { name: name.to_owned(), exactly: Some(exactly), first_available: None });
    }

    fn map(&mut self, container: &Container, resource: &str, request: &str) {
        self.mappings.push(ContainerExtendedResourceRequest {
            container_name: container.name.clone(),
            request_name: request.to_owned(),
            resource_name: resource.to_owned(),
        });
    }
}

/// Returns how much of a resource a container requests, and the resource's place among its requests.
fn wanted(container: &Container, resource: &str) -> Option<(usize, i64)> {
    let requests = container.resources.as_ref()?.requests.as_ref()?;
    let place = requests.keys().position(|name| name == resource)?;
    let amount = Quantity::try_from(requests.get(resource)?).ok()?.value();
    (amount > 0).then_some((place, amount))
}
