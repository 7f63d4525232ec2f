//! The downward API: fields of a pod and resources of its containers, as variables and files.
//!
//! Corresponds to ExtractFieldPathAsString of pkg/fieldpath and ExtractContainerResourceValue of pkg/api/v1/resource.

use proto::Kind;
use proto::kinds::api::core::v1::{Container, ObjectFieldSelector, Pod, PodStatus, ResourceFieldSelector};
use proto::kinds::apimachinery::api::resource::Quantity as QuantityText;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

/// The quantities of a node's allocatable resources: the limits of containers that have none.
pub type Allocatable = BTreeMap<String, QuantityText>;

/// A pod with its latest status, as its own containers can see it.
#[derive(Clone, Copy, Debug)]
pub struct PodFields<'a> {
    pub pod: &'a Pod,
    pub status: &'a PodStatus,
    pub allocatable: Option<&'a Allocatable>,
}

impl PodFields<'_> {
    /// Returns the value of a field such as `metadata.labels['app']` or `status.podIP`.
    pub fn field(&self, selector: &ObjectFieldSelector) -> Result<String, String> {
        let path = selector.field_path.as_str();
        let metadata = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        let joined = |ips: Vec<&str>| ips.join(",");
        if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
            let map = match map {
                "metadata.labels" => metadata.labels.as_ref(),
                "metadata.annotations" => metadata.annotations.as_ref(),
                _ => return Err(format!("fieldPath {path:?} does not support subscript")),
            };
            return Ok(map.and_then(|map| map.get(key)).cloned().unwrap_or_default());
        }
        Ok(match path {
            "metadata.name" => self.pod.name().to_owned(),
            "metadata.namespace" => self.pod.namespace().to_owned(),
            "metadata.uid" => self.pod.uid().to_owned(),
            "metadata.labels" => lines(metadata.labels.as_ref()),
            "metadata.annotations" => lines(metadata.annotations.as_ref()),
            "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
            "status.hostIP" => self.status.host_ip.clone().unwrap_or_default(),
            "status.hostIPs" => joined(self.status.host_ips.iter().flatten().map(|host| host.ip.as_str()).collect()),
            "status.podIP" => self.status.pod_ip.clone().unwrap_or_default(),
            "status.podIPs" => joined(self.status.pod_ips.iter().flatten().map(|pod| pod.ip.as_str()).collect()),
            _ => return Err(format!("unsupported fieldPath: {path}")),
        })
    }

    /// Returns a resource such as `limits.cpu` of a container, divided and rounded up. A container without the limit
    /// has the node's.
    pub fn resource(&self, selector: &ResourceFieldSelector, own: Option<&Container>) -> Result<String, String> {
        let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
        let container = match (named, own) {
            (Some(name), _) => self.container(name).ok_or_else(|| format!("container {name} not found"))?,
            (None, Some(own)) => own,
            (None, None) => return Err("container name is required".to_owned()),
        };
        let (list, resource) = selector.resource.split_once('.').unwrap_or_default();
        let resources = container.resources.as_ref();
        let given = match list {
            "limits" => resources.and_then(|resources| resources.limits.as_ref()).and_then(|list| list.get(resource)),
            "requests" => {
                resources.and_then(|resources| resources.requests.as_ref()).and_then(|list| list.get(resource))
            }
            _ => return Err(format!("unsupported container resource : {}", selector.resource)),
        };
        let of_node = || self.allocatable.and_then(|list| list.get(resource)).filter(|_| list == "limits");
        let amount = given.or_else(of_node).and_then(|text| Quantity::parse(&text.0).ok()).unwrap_or_default();
        let divisor = selector.divisor.as_ref().and_then(|text| Quantity::parse(&text.0).ok());
        let divisor = divisor.filter(|divisor| !divisor.is_zero()).unwrap_or(Quantity::new(1, amount.format()));
        let (amount, divisor) = match resource {
            "cpu" => (amount.milli_value(), divisor.milli_value()),
            _ => (amount.value(), divisor.value()),
        };
        Ok((amount as f64 / divisor as f64).ceil().to_string())
    }

    fn container(&self, name: &str) -> Option<&Container> {
        let spec = self.pod.spec.as_ref()?;
        spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
    }
}

/// Formats labels or annotations as the file of a volume holds them.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
}
