//! `PodGroups`, the PodGroups of the cluster and the pods that belong to them.
//!
//! Event handlers keep it. The scheduling loop moves pods between its states, and plugins read it.
//! Corresponds to the pod group states of pkg/scheduler/backend/cache.

use crate::pod_info::PodInfo;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clones share the groups.
#[derive(Clone, Default)]
pub struct PodGroups(Arc<Mutex<BTreeMap<String, Group>>>);

/// A group by its key `NAMESPACE/NAME`. The object and the pods come and go independently.
#[derive(Debug, Default)]
struct Group {
    object: Option<Arc<PodGroup>>,
    /// Places of the pods, by uid.
    members: BTreeMap<String, Place>,
}

/// What the scheduler has done for a member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Unscheduled,
    /// The pod has this node, and no event has confirmed it.
    Assumed(String),
    /// The pod is bound to this node.
    Assigned(String),
}

impl Place {
    fn node(&self) -> Option<&str> {
        match self {
            Place::Unscheduled => None,
            Place::Assumed(node) | Place::Assigned(node) => Some(node),
        }
    }
}

/// A copy of what is known of one group.
#[derive(Clone, Debug, Default)]
pub struct PodGroupState {
    /// `None` if only pods of the group are known.
    pub object: Option<Arc<PodGroup>>,
    /// Number of the pods.
    pub all: usize,
    /// Uids of the pods without a node.
    pub unscheduled: Vec<String>,
    /// Uids of the pods that have a node and are not bound.
    pub assumed: Vec<String>,
    /// Nodes of the assumed and the bound pods, one for each pod.
    pub nodes: Vec<String>,
}

impl PodGroupState {
    /// Returns the number of pods that must have a node before any of them is bound; `None` for the basic policy.
    pub fn min_count(&self) -> Option<usize> {
        min_count(self.object.as_ref()?)
    }

    /// Returns the number of assumed and bound pods.
    pub fn scheduled(&self) -> usize {
        self.nodes.len()
    }
}

/// Returns `minCount` of a gang; `None` for the basic policy.
pub fn min_count(group: &PodGroup) -> Option<usize> {
    let gang = group.spec.scheduling_policy.gang.as_ref()?;
    Some(gang.min_count.try_into().unwrap_or(0))
}

impl PodGroups {
    /// Adds or updates the object of a group.
    pub fn set_object(&self, object: Arc<PodGroup>) {
        let key = object.key();
        self.0.lock().entry(key).or_default().object = Some(object);
    }

    pub fn remove_object(&self, key: &str) {
        self.change(key, |group| group.object = None);
    }

    /// Adds or updates a pod. A pod with a node is bound; any other keeps its state.
    pub fn set_pod(&self, pod: &PodInfo) {
        let Some(key) = pod.pod_group_key() else { return };
        let mut groups = self.0.lock();
        let members = &mut groups.entry(key).or_default().members;
        let place = match (pod.node_name(), members.get(pod.uid())) {
            ("", Some(known)) => known.clone(),
            ("", None) => Place::Unscheduled,
            (node, _) => Place::Assigned(node.to_owned()),
        };
        members.insert(pod.uid().to_owned(), place);
    }

    pub fn remove_pod(&self, pod: &PodInfo) {
        let Some(key) = pod.pod_group_key() else { return };
        self.change(&key, |group| drop(group.members.remove(pod.uid())));
    }

    /// Gives a pod without a node this one. A pod that was deleted meanwhile, or bound by somebody else, stays as it is.
    pub fn assume(&self, pod: &PodInfo, node: &str) {
        self.change_member(pod, |place| {
            if *place == Place::Unscheduled {
                *place = Place::Assumed(node.to_owned());
            }
        });
    }

    /// Takes the node from a pod that is not bound.
    pub fn forget(&self, pod: &PodInfo) {
        self.change_member(pod, |place| {
            if matches!(place, Place::Assumed(_)) {
                *place = Place::Unscheduled;
            }
        });
    }

    /// Returns what is known of a group.
    pub fn state(&self, key: &str) -> PodGroupState {
        let groups = self.0.lock();
        let Some(group) = groups.get(key) else { return PodGroupState::default() };
        let uids = |wanted: fn(&Place) -> bool| {
            let members = group.members.iter().filter(|(_, place)| wanted(place));
            members.map(|(uid, _)| uid.clone()).collect()
        };
        PodGroupState {
            object: group.object.clone(),
            all: group.members.len(),
            unscheduled: uids(|place| *place == Place::Unscheduled),
            assumed: uids(|place| matches!(place, Place::Assumed(_))),
            nodes: group.members.values().filter_map(Place::node).map(str::to_owned).collect(),
        }
    }

    /// Returns the object of a pod's group.
    pub fn object_of(&self, pod: &PodInfo) -> Option<Arc<PodGroup>> {
        self.0.lock().get(&pod.pod_group_key()?)?.object.clone()
    }

    fn change_member(&self, pod: &PodInfo, change: impl FnOnce(&mut Place)) {
        let Some(key) = pod.pod_group_key() else { return };
        if let Some(place) = self.0.lock().get_mut(&key).and_then(|group| group.members.get_mut(pod.uid())) {
            change(place);
        }
    }

    /// Changes a group, and drops it if nothing of it is left.
    fn change(&self, key: &str, change: impl FnOnce(&mut Group)) {
        let mut groups = self.0.lock();
        let Some(group) = groups.get_mut(key) else { return };
        change(group);
        if group.object.is_none() && group.members.is_empty() {
            groups.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{gang, info, pod};
    use serde_json::json;

    fn member(name: &str, node: &str) -> Arc<PodInfo> {
        let node = if node.is_empty() { json!(null) } else { json!(node) };
        info(pod(name, "1", json!({"schedulingGroup": {"podGroupName": "g"}, "nodeName": node})))
    }

    fn shown(groups: &PodGroups) -> String {
        let PodGroupState { object, all, unscheduled, assumed, nodes } = groups.state("shop/g");
        format!("{} {all} {unscheduled:?} {assumed:?} {nodes:?}", object.is_some())
    }

    #[test]
    fn pods_move_between_their_states() {
        let groups = PodGroups::default();
        assert_eq!(shown(&groups), "false 0 [] [] []");
        groups.set_pod(&member("a", ""));
        groups.set_pod(&member("b", "n2"));
        groups.set_pod(&info(pod("other", "1", json!({}))));
        assert_eq!(shown(&groups), r#"false 2 ["a"] [] ["n2"]"#);
        groups.set_object(gang("g", 2));
        assert_eq!(groups.state("shop/g").min_count(), Some(2));
        groups.assume(&member("a", ""), "n1");
        groups.assume(&member("b", ""), "n1");
        groups.assume(&member("deleted", ""), "n1");
        assert_eq!(shown(&groups), r#"true 2 [] ["a"] ["n1", "n2"]"#);
        // An update of an assumed pod does not take its node.
        groups.set_pod(&member("a", ""));
        assert_eq!(shown(&groups), r#"true 2 [] ["a"] ["n1", "n2"]"#);
        groups.forget(&member("a", ""));
        groups.forget(&member("b", ""));
        assert_eq!(shown(&groups), r#"true 2 ["a"] [] ["n2"]"#);
        groups.assume(&member("a", ""), "n1");
        groups.set_pod(&member("a", "n3"));
        assert_eq!(shown(&groups), r#"true 2 [] [] ["n3", "n2"]"#);
        groups.remove_pod(&member("b", ""));
        groups.remove_object("shop/g");
        assert_eq!(shown(&groups), r#"false 1 [] [] ["n3"]"#);
        groups.remove_pod(&member("a", ""));
        assert!(groups.0.lock().is_empty(), "nothing of the group is left");
    }
}
