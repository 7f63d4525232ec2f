//! Defaults of fields that hold one address and belong to a list of addresses: `podIP` is the first of `podIPs`.
//!
//! Corresponds to the conversions of PodStatus and NodeSpec in pkg/apis/core/v1. If both are given and differ, the
//! single field counts, because an old client may not know the list.

use super::{Members, text};
use serde_json::{Value, json};

pub fn of_pod(status: &mut Members) {
    agree(status, "podIP", "podIPs", "/0/ip", |ip| json!([{"ip": ip}]));
}

pub fn of_host(status: &mut Members) {
    agree(status, "hostIP", "hostIPs", "/0/ip", |ip| json!([{"ip": ip}]));
}

pub fn of_node(spec: &mut Members) {
    agree(spec, "podCIDR", "podCIDRs", "/0", |range| json!([range]));
}

fn agree(members: &mut Members, one: &str, all: &str, first: &str, list: fn(&str) -> Value) {
    let single = text(members, one).to_owned();
    let of_list = members.get(all).and_then(|all| all.pointer(first)).and_then(Value::as_str).map(str::to_owned);
    match of_list {
        Some(of_list) if single.is_empty() => drop(members.insert(one.to_owned(), Value::from(of_list))),
        of_list if !single.is_empty() && of_list.as_deref() != Some(single.as_str()) => {
            members.insert(all.to_owned(), list(&single));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_field_is_the_first_of_the_list() {
        let cases = [
            (
                json!({"podIP": "1.1.1.2", "podIPs": [{"ip": "1.1.1.1"}]}),
                json!({"podIP": "1.1.1.2", "podIPs": [{"ip": "1.1.1.2"}]}),
            ),
            (
                json!({"podIPs": [{"ip": "::1"}, {"ip": "1.1.1.1"}]}),
                json!({"podIP": "::1", "podIPs": [{"ip": "::1"}, {"ip": "1.1.1.1"}]}),
            ),
            (json!({"podIP": "1.1.1.2"}), json!({"podIP": "1.1.1.2", "podIPs": [{"ip": "1.1.1.2"}]})),
            (json!({}), json!({})),
        ];
        for (mut status, expected) in cases {
            of_pod(status.as_object_mut().unwrap());
            assert_eq!(status, expected);
        }
        let mut spec = json!({"podCIDR": "10.5.0.0/24", "podCIDRs": ["10.6.0.0/24"]});
        of_node(spec.as_object_mut().unwrap());
        assert_eq!(spec, json!({"podCIDR": "10.5.0.0/24", "podCIDRs": ["10.5.0.0/24"]}));
    }
}
