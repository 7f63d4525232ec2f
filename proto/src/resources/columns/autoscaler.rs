//! Columns of HorizontalPodAutoscalers: the current and the wanted value of the first metrics.
//!
//! Corresponds to formatHPAMetrics in pkg/printers/internalversion/printers.go. Cells read the stored form, v2.

use super::read::{items, str_at};
use super::{Column, age, name, read, string};
use serde_json::{Value, json};

const METRICS_SHOWN: usize = 2;

pub fn columns() -> Vec<Column> {
    vec![
        name(),
        string("Reference", "What is scaled.", |hpa, _| {
            let (kind, name) = (str_at(hpa, "/spec/scaleTargetRef/kind"), str_at(hpa, "/spec/scaleTargetRef/name"));
            json!(format!("{kind}/{name}"))
        }),
        string("Targets", "Current and wanted value of each metric.", |hpa, _| json!(metrics(hpa))),
        string("MinPods", "The fewest pods.", |hpa, _| {
            json!(hpa.pointer("/spec/minReplicas").map_or("<unset>".to_owned(), Value::to_string))
        }),
        string("MaxPods", "The most pods.", |hpa, _| read::number(hpa, "/spec/maxReplicas")),
        string("Replicas", "How many pods there were when last looked.", |hpa, _| {
            read::number(hpa, "/status/currentReplicas")
        }),
        age(),
    ]
}

fn metrics(hpa: &Value) -> String {
    let specs = items(hpa, "/spec/metrics");
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let statuses = items(hpa, "/status/currentMetrics");
    let list: Vec<String> = specs.iter().enumerate().map(|(i, spec)| metric(spec, statuses.get(i))).collect();
    read::abridged(&list, METRICS_SHOWN, ", ")
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (source, by_name) = match str_at(spec, "/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let spec = &spec[source];
    let current = |field: &str| status.and_then(|s| s.get(source)?.get("current")?.get(field)).filter(|v| !v.is_null());
    let target = |field: &str| spec.pointer(&format!("/target/{field}")).filter(|v| !v.is_null());
    let pair = |field: &str, unset: &str| {
        let unit = if field == "averageUtilization" { "%" } else { "" };
        let current = current(field).map_or("<unknown>".to_owned(), |value| shown(value) + unit);
        let target = target(field).map_or(unset.to_owned(), |value| shown(value) + unit);
        format!("{current}/{target}")
    };
    let is_average = target("averageValue").is_some();
    if by_name {
        let values = if is_average { pair("averageValue", "") } else { pair("averageUtilization", "<auto>") };
        return format!("{}: {values}", str_at(spec, "/name"));
    }
    match (source, is_average) {
        ("pods", _) => pair("averageValue", ""),
        (_, true) => pair("averageValue", "") + " (avg)",
        (_, false) => pair("value", ""),
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_metrics_are_shown_and_the_rest_counted() {
        let resource =
            |name: &str, target: Value| json!({"type": "Resource", "resource": {"name": name, "target": target}});
        let cpu = resource("cpu", json!({"averageUtilization": 70}));
        let memory = resource("memory", json!({"averageValue": "500Mi"}));
        let external = json!({"type": "External", "external": {"target": {"averageValue": "30"}}});
        let object = json!({"type": "Object", "object": {"target": {"value": "10"}}});
        let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "1k"}}});
        let used = json!([{"resource": {"current": {"averageUtilization": 12, "averageValue": "1"}}}]);
        let cases = [
            (json!([]), json!([]), "<none>"),
            (json!([cpu]), json!([]), "cpu: <unknown>/70%"),
            (json!([cpu]), used, "cpu: 12%/70%"),
            (json!([external, object]), json!([]), "<unknown>/30 (avg), <unknown>/10"),
            (json!([pods]), json!([{"pods": {"current": {"averageValue": "900"}}}]), "900/1k"),
            (
                json!([cpu, memory, pods, object, external]),
                json!([]),
                "cpu: <unknown>/70%, memory: <unknown>/500Mi + 3 more...",
            ),
        ];
        for (specs, statuses, expected) in cases {
            let hpa = json!({"spec": {"metrics": specs}, "status": {"currentMetrics": statuses}});
            assert_eq!(metrics(&hpa), expected);
        }
    }
}
