//! `/metrics/resources`: the requests and limits of every pod, as the scheduler counts them.
//!
//! Corresponds to pkg/scheduler/metrics/resources.

use component_base::metrics::{FloatGauges, Labels, Metrics};
use component_helpers::scheduling::requests::{self, Resources};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

const REQUEST: &str = "[STABLE] Resources requested by workloads on the cluster, broken down by pod. This shows the \
    resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.";
const LIMIT: &str = "[STABLE] Resources limit for workloads on the cluster, broken down by pod. This shows the \
    resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.";

/// Returns the text of the page. The pods are those that have not ended.
pub fn page(pods: &[Arc<Pod>]) -> String {
    let metrics = Metrics::default();
    let limit = metrics.float_gauges("kube_pod_resource_limit", LIMIT);
    let request = metrics.float_gauges("kube_pod_resource_request", REQUEST);
    for pod in pods {
        let Some(spec) = &pod.spec else { continue };
        show(&limit, pod, &requests::pod_limits(spec));
        show(&request, pod, &requests::pod_requests(spec));
    }
    metrics.encode()
}

fn show(family: &FloatGauges, pod: &Pod, resources: &Resources) {
    let spec = pod.spec.as_ref();
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    for (resource, amount) in resources.requested() {
        let labels: Labels = vec![
            ("namespace", pod.namespace().to_owned()),
            ("node", text(spec.and_then(|spec| spec.node_name.as_ref()))),
            ("pod", pod.name().to_owned()),
            ("priority", spec.and_then(|spec| spec.priority).map(|p| p.to_string()).unwrap_or_default()),
            ("resource", resource.to_owned()),
            ("scheduler", text(spec.and_then(|spec| spec.scheduler_name.as_ref()))),
            ("unit", unit(resource).to_owned()),
        ];
        let value = if resource == "cpu" { amount as f64 / 1000.0 } else { amount as f64 };
        family.get_or_create(&labels).set(value);
    }
}

fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "cores",
        "memory" | "storage" | "ephemeral-storage" => "bytes",
        _ if resource.starts_with("hugepages-") => "bytes",
        _ if resource.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn requests_and_limits_have_their_units() {
        let resources =
            json!({"requests": {"cpu": "250m", "memory": "64Mi", "example.com/gpu": "1"}, "limits": {"cpu": "1"}});
        let pod = Pod::decode_value(json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"nodeName": "n1", "priority": 7, "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "resources": resources}]},
        }));
        let text = page(&[Arc::new(pod.unwrap())]);
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        lines.sort_unstable();
        expect![[r#"
            kube_pod_resource_limit{namespace="shop",node="n1",pod="web",priority="7",resource="cpu",scheduler="default-scheduler",unit="cores"} 1.0
            kube_pod_resource_request{namespace="shop",node="n1",pod="web",priority="7",resource="cpu",scheduler="default-scheduler",unit="cores"} 0.25
            kube_pod_resource_request{namespace="shop",node="n1",pod="web",priority="7",resource="example.com/gpu",scheduler="default-scheduler",unit=""} 1.0
            kube_pod_resource_request{namespace="shop",node="n1",pod="web",priority="7",resource="memory",scheduler="default-scheduler",unit="bytes"} 67108864.0
        "#]]
        .assert_eq(&(lines.join("\n") + "\n"));
    }
}
