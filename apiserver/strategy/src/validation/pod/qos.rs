//! Computes the quality of service class of a pod from its resources.
//!
//! Corresponds to pkg/apis/core/helper/qos ComputePodQOS.

use proto::meta::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// The resources that decide the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// Returns the class: `Guaranteed`, `Burstable` or `BestEffort`.
pub fn class(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut guaranteed = true;
    let mut count = |resources: &Value| {
        add(&mut requests, resources.get("requests"));
        let limited = add(&mut limits, resources.get("limits"));
        guaranteed &= limited == COUNTED.len();
    };
    match spec.get("resources").filter(|resources| !resources.is_null()) {
        Some(of_pod) => count(of_pod),
        None => {
            for list in ["containers", "initContainers"] {
                for container in spec.get(list).and_then(Value::as_array).into_iter().flatten() {
                    count(container.get("resources").unwrap_or(&Value::Null));
                }
            }
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds cpu and memory to the sums. Returns the number of amounts above zero.
fn add(sums: &mut Amounts<'static>, amounts: Option<&Value>) -> usize {
    let mut found = 0;
    for name in COUNTED {
        let amount = amounts.and_then(|amounts| amounts.get(name)).and_then(|amount| Quantity::try_from(amount).ok());
        let Some(amount) = amount.filter(|amount| amount.signum() > 0) else { continue };
        found += 1;
        match sums.get_mut(name) {
            Some(sum) => *sum += amount,
            None => drop(sums.insert(name, amount)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_class_depends_on_requests_and_limits() {
        let both = json!({"cpu":"1","memory":"1Gi"});
        let cases = [
            (json!({"containers":[{"name":"a"}]}), "BestEffort"),
            (json!({"containers":[{"resources":{"requests":{"example.com/gpu":"1"}}}]}), "BestEffort"),
            (json!({"containers":[{"resources":{"requests":both,"limits":both}}]}), "Guaranteed"),
            (
                json!({"containers":[{"resources":{"requests":{"cpu":"1000m","memory":"1024Mi"},"limits":both}}]}),
                "Guaranteed",
            ),
            (json!({"containers":[{"resources":{"requests":both,"limits":both}},{}]}), "Burstable"),
            (json!({"containers":[{"resources":{"requests":{"cpu":"1"}}}]}), "Burstable"),
            (json!({"containers":[{"resources":{"limits":both,"requests":{"cpu":"1","memory":"2Gi"}}}]}), "Burstable"),
            (json!({"containers":[{}],"resources":{"requests":both,"limits":both}}), "Guaranteed"),
        ];
        for (spec, expected) in cases {
            assert_eq!(class(&spec), expected, "{spec}");
        }
    }
}
