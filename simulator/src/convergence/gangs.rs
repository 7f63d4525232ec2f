//! Finds gangs of which only a part has nodes.

use super::{Objects, number, text};
use serde_json::Value;

const GROUP: &str = "/spec/schedulingGroup/podGroupName";

/// Checks that no pod of a gang has a node, or as many as it needs.
pub fn check(group: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let needed = min_count(group);
    let bound = members(group, objects).iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count();
    if bound > 0 && bound < needed {
        reasons.push(format!("has {bound} pods with nodes, and needs {needed}"));
    }
}

/// Returns true for a pod that has to wait without a node, because its gang has too few pods.
pub fn waits_for_members(pod: &Value, objects: &Objects) -> bool {
    let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, GROUP));
    let group = objects.by_key.get(&format!("/registry/podgroups/{namespace}/{name}"));
    group.is_some_and(|group| members(group, objects).len() < min_count(group))
        && text(pod, "/spec/nodeName").is_empty()
}

/// Returns the least number of pods that run together; 0 for a group that is no gang.
fn min_count(group: &Value) -> usize {
    usize::try_from(number(group, "/spec/schedulingPolicy/gang/minCount")).unwrap_or_default()
}

fn members<'a>(group: &Value, objects: &'a Objects) -> Vec<&'a Value> {
    let (namespace, name) = (text(group, "/metadata/namespace"), text(group, "/metadata/name"));
    let is_member = |pod: &&Value| text(pod, "/metadata/namespace") == namespace && text(pod, GROUP) == name;
    objects.below("/registry/pods/").filter(is_member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns what is wrong with a gang of three that has pods with these nodes, and how many of its pods may wait.
    fn found(nodes: &[&str]) -> (Vec<String>, usize) {
        let metadata = |name: &str| json!({"name": name, "namespace": "default"});
        let group = json!({"metadata": metadata("g"), "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}});
        let mut objects = Objects::default();
        for (at, node) in nodes.iter().enumerate() {
            let spec = json!({"schedulingGroup": {"podGroupName": "g"}, "nodeName": node});
            let pod = json!({"metadata": metadata(&format!("p{at}")), "spec": spec});
            objects.by_key.insert(format!("/registry/pods/default/p{at}"), pod);
        }
        let other = json!({"metadata": metadata("other"), "spec": {"nodeName": "n"}});
        objects.by_key.insert("/registry/pods/default/other".to_owned(), other);
        objects.by_key.insert("/registry/podgroups/default/g".to_owned(), group.clone());
        let mut reasons = Vec::new();
        check(&group, &objects, &mut reasons);
        let pods = objects.below("/registry/pods/");
        (reasons, pods.filter(|pod| waits_for_members(pod, &objects)).count())
    }

    #[test]
    fn a_gang_has_all_its_nodes_or_none() {
        let half = |bound: usize| vec![format!("has {bound} pods with nodes, and needs 3")];
        assert_eq!(found(&[]), (vec![], 0));
        assert_eq!(found(&["", ""]), (vec![], 2), "it is incomplete");
        assert_eq!(found(&["", "", ""]), (vec![], 0), "all wait, and need not");
        assert_eq!(found(&["n", "", ""]), (half(1), 0));
        assert_eq!(found(&["n", ""]), (half(1), 1));
        assert_eq!(found(&["n", "n", "m", ""]), (vec![], 0));
    }
}
