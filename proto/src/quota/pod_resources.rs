//! The requests and limits of a whole pod: the sum over its containers, or the larger need of its init containers.
//!
//! Corresponds to k8s.io/component-helpers/resource: PodRequests, PodLimits.

use crate::fields::{items, text};
use crate::meta::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

pub type Amounts = BTreeMap<String, Quantity>;

/// Reads a resource list. Ignores amounts that cannot be parsed, because validation refuses them.
pub fn amounts(list: Option<&Value>) -> Amounts {
    let fields = list.and_then(Value::as_object).into_iter().flatten();
    fields
        .filter_map(|(name, value)| {
            let text = value.as_str().map(str::to_owned).or_else(|| value.as_number().map(ToString::to_string))?;
            Some((name.clone(), Quantity::parse(&text).ok()?))
        })
        .collect()
}

pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, quantity) in more {
        match total.get_mut(name) {
            Some(sum) => *sum += *quantity,
            None => {
                total.insert(name.clone(), *quantity);
            }
        }
    }
}

fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, quantity) in other {
        if total.get(name).is_none_or(|there| there < quantity) {
            total.insert(name.clone(), *quantity);
        }
    }
}

/// Returns the `requests` or the `limits` of a pod, as `which` says.
///
/// Init containers run one after another, each beside the sidecars that started before it. Sidecars run as long as the
/// pod. Amounts that the pod has as a whole replace the sum.
pub fn of_pod(spec: &Value, which: &str) -> Amounts {
    let of = |container: &Value| amounts(container.get("resources").and_then(|r| r.get(which)));
    let mut total = Amounts::new();
    for container in items(spec, "/containers") {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut start) = (Amounts::new(), Amounts::new());
    for container in items(spec, "/initContainers") {
        let own = of(container);
        let mut running = sidecars.clone();
        add(&mut running, &own);
        raise(&mut start, &running);
        if text(container, "/restartPolicy") == "Always" {
            add(&mut total, &own);
            sidecars = running;
        }
    }
    raise(&mut total, &start);
    total.extend(of(spec));
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_needs_what_its_containers_need_or_its_start() {
        let cpu = |amount: &str| json!({"resources": {"requests": {"cpu": amount}}});
        let sidecar = |amount: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": amount}}});
        for (spec, expected) in [
            (json!({"containers": [cpu("600m"), cpu("600m")]}), "1200m"),
            (json!({"containers": [cpu("1")], "initContainers": [cpu("2"), cpu("500m")]}), "2"),
            (json!({"containers": [cpu("1")], "initContainers": [sidecar("1"), cpu("500m")]}), "2"),
            (json!({"containers": [cpu("1")], "initContainers": [sidecar("1"), cpu("3")]}), "4"),
            (json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "5"}}}), "5"),
        ] {
            let total = of_pod(&spec, "requests");
            assert_eq!(total.get("cpu").map(ToString::to_string).as_deref(), Some(expected), "{spec}");
        }
        assert_eq!(of_pod(&json!({"containers": [{}]}), "limits"), Amounts::new());
    }
}
