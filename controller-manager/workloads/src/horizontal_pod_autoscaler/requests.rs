//! The requests of pods, of which utilization is a percentage.
//!
//! Corresponds to calculateRequests in pkg/controller/podautoscaler/replica_calculator.go.

use controller_base::pod;
use proto::Kind;
use proto::kinds::api::core::v1::{Container, Pod};
use proto::kinds::apimachinery::api::resource::Quantity as TypedQuantity;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests in thousandths, by the name of the pod.
pub type Requests = BTreeMap<String, i64>;

/// Returns what each pod requests of a resource, or what its named container requests. Each container has to request it:
/// otherwise a percentage means nothing.
pub fn of_pods(pods: &[Arc<Pod>], resource: &str, container: Option<&str>) -> Result<Requests, String> {
    pods.iter().map(|pod| Ok((pod.name().to_owned(), of_pod(pod, resource, container)?))).collect()
}

fn of_pod(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let whole = pod::spec(pod).and_then(|spec| spec.resources.as_ref()).and_then(|all| all.requests.as_ref());
    match (container, whole.filter(|requests| !requests.is_empty())) {
        (None, Some(requests)) => of_whole_pod(pod, resource, requests),
        _ => of_containers(pod, resource, container),
    }
}

/// Returns the request on the level of the pod, which stands for those of its containers.
fn of_whole_pod(pod: &Pod, resource: &str, requests: &BTreeMap<String, TypedQuantity>) -> Result<i64, String> {
    let overhead = pod::spec(pod).and_then(|spec| spec.overhead.as_ref()).and_then(|overhead| overhead.get(resource));
    let request = match requests.get(resource) {
        Some(request) => milli(request),
        None => {
            let own: Vec<i64> = counted(pod).filter_map(|one| requested(one, resource)).collect();
            if own.is_empty() {
                return Err(format!("missing pod-level request for {resource} in Pod {}", pod.name()));
            }
            own.into_iter().fold(0, i64::saturating_add)
        }
    };
    Ok(request.saturating_add(overhead.map_or(0, milli)))
}

fn of_containers(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let mut sum = 0_i64;
    let mut is_found = container.is_none();
    for one in counted(pod).filter(|one| container.is_none_or(|container| one.name == container)) {
        is_found = true;
        let missing = || format!("missing request for {resource} in container {} of Pod {}", one.name, pod.name());
        sum = sum.saturating_add(requested(one, resource).ok_or_else(missing)?);
    }
    if is_found {
        return Ok(sum);
    }
    Err(format!("container {} not found in Pod {}", container.unwrap_or_default(), pod.name()))
}

/// Returns the containers that run as long as the pod: the regular ones, and init containers that are restarted.
fn counted(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod::spec(pod).into_iter().flat_map(|spec| {
        let sidecars = spec.init_containers.iter().flatten();
        spec.containers.iter().chain(sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always")))
    })
}

fn requested(container: &Container, resource: &str) -> Option<i64> {
    container.resources.as_ref()?.requests.as_ref()?.get(resource).map(milli)
}

fn milli(quantity: &TypedQuantity) -> i64 {
    Quantity::try_from(quantity).map_or(0, |quantity| quantity.milli_value())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::requesting;
    use super::*;
    use proto::kinds::api::core::v1::ResourceRequirements;

    #[test]
    fn every_container_has_to_request_the_resource() {
        let pod = requesting("a", &[("web", "100m"), ("proxy", "50m")]);
        let bare = requesting("b", &[("web", "100m"), ("proxy", "")]);
        let cases = [
            (&pod, None, Ok(150)),
            (&pod, Some("proxy"), Ok(50)),
            (&pod, Some("db"), Err("container db not found in Pod a")),
            (&bare, None, Err("missing request for cpu in container proxy of Pod b")),
            (&bare, Some("web"), Ok(100)),
        ];
        for (pod, container, expected) in cases {
            let found = of_pod(pod, "cpu", container);
            assert_eq!(found, expected.map_err(str::to_owned), "{} {container:?}", pod.name());
        }
    }

    #[test]
    fn sidecars_count_and_other_init_containers_do_not() {
        let mut pod = requesting("a", &[("web", "100m"), ("set-up", "1"), ("proxy", "50m")]);
        let spec = pod.spec.as_mut().unwrap();
        let mut init = spec.containers.split_off(1);
        init[1].restart_policy = Some("Always".to_owned());
        spec.init_containers = Some(init);
        assert_eq!(of_pod(&pod, "cpu", None), Ok(150));
    }

    #[test]
    fn a_request_of_the_whole_pod_goes_before() {
        let mut pod = requesting("a", &[("web", "100m")]);
        let requests = |resource: &str| {
            let requests = BTreeMap::from([(resource.to_owned(), TypedQuantity("400m".to_owned()))]);
            Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() })
        };
        pod.spec.as_mut().unwrap().resources = requests("cpu");
        assert_eq!(of_pod(&pod, "cpu", None), Ok(400));
        assert_eq!(of_pod(&pod, "cpu", Some("web")), Ok(100));
        pod.spec.as_mut().unwrap().resources = requests("memory");
        assert_eq!(of_pod(&pod, "cpu", None), Ok(100), "of the containers, since the pod names none");
    }
}
