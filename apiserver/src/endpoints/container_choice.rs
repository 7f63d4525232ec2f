//! Chooses the container of a pod for logs, exec and attach, and finds the agent of the pod's node.
//!
//! Corresponds to validateContainer and streamLocation in pkg/registry/core/pod/strategy.go.

use super::Call;
use crate::node_agents::Agent;
use cacher::lookup::{Lookup, ObjectKey};
use proto::Status;
use serde_json::Value;
use strategy::object_meta;

/// Returns the name of the requested container, or of the pod's only one if the request names none.
pub fn choose<'a>(pod: &'a Value, requested: &'a str) -> Result<&'a str, Status> {
    let name = object_meta::text(pod, "name");
    let list = |field: &str| -> Vec<&'a str> {
        pod["spec"][field].as_array().into_iter().flatten().filter_map(|container| container["name"].as_str()).collect()
    };
    let apps = list("containers");
    let all = [list("initContainers"), apps.clone(), list("ephemeralContainers")].concat();
    match (requested, apps.as_slice()) {
        ("", [only]) => Ok(only),
        ("", []) => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (requested, _) if all.contains(&requested) => Ok(requested),
        _ => Err(Status::bad_request(format!("container {requested} is not valid for pod {name}"))),
    }
}

/// Returns the agent of the node to which the pod is bound; `None` if it is bound to none.
pub async fn agent(call: &Call<'_>, pod: &Value) -> Result<Option<Agent>, Status> {
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else { return Ok(None) };
    let key = ObjectKey { group: "", resource: "nodes", namespace: "", name: node };
    let found = call.server.registry.get_live(key).await?.ok_or_else(|| Status::not_found("", "nodes", node))?;
    Agent::of(&found.value()).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_container_has_to_be_named_where_there_are_several() {
        let pod = |apps: &[&str]| {
            let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
            json!({"metadata": {"name": "p"}, "spec": {"containers": named(apps), "initContainers": named(&["i"])}})
        };
        for (apps, requested, expected) in [
            (&["a"][..], "", Ok("a")),
            (&["a"], "i", Ok("i")),
            (&["a", "b"], "b", Ok("b")),
            (&["a", "b"], "", Err("a container name must be specified for pod p, choose one of: [i a b]")),
            (&["a", "b"], "c", Err("container c is not valid for pod p")),
        ] {
            let chosen = choose(&pod(apps), requested).map(str::to_owned).map_err(|status| status.message);
            assert_eq!(chosen, expected.map(str::to_owned).map_err(str::to_owned), "{apps:?} {requested}");
        }
    }
}
