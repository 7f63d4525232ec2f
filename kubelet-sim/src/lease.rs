//! The lease of a node, its heartbeat. It is cheap to renew, and the node lifecycle controller reads it.
//!
//! Corresponds to k8s.io/component-helpers/apimachinery/lease and pkg/kubelet/util/nodelease.go.

use proto::kinds::api::coordination::v1::{Lease, LeaseSpec};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::{MicroTime, ObjectMeta, OwnerReference};
use std::time::Duration;

pub const NAMESPACE: &str = "kube-node-lease";

/// Returns the renewed lease, or the first one. The node owns it, so that it is deleted with the node. While the node's
/// uid is unknown the lease has no owner; a later renewal adds it. The lease of a node that was deleted and made again gets the
/// new owner: the garbage collector would delete it after each renewal.
///
/// Deviation: a kubelet sets the owner only of a lease that has none. It does not register its node a second time.
pub fn renewed(present: Option<&Lease>, node_name: &str, node_uid: &str, duration: Duration, now: Timestamp) -> Lease {
    let mut lease = present.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(node_name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..Default::default()
        },
        spec: None,
    });
    let owners = lease.metadata.owner_references.as_deref().unwrap_or_default();
    let is_of_node = |owner: &OwnerReference| owner.uid == node_uid && owner.name == node_name;
    if !node_uid.is_empty() && !owners.iter().any(is_of_node) {
        lease.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: node_name.to_owned(),
            uid: node_uid.to_owned(),
            ..Default::default()
        }]);
    }
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.holder_identity = Some(node_name.to_owned());
    spec.lease_duration_seconds = Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX));
    spec.renew_time = Some(MicroTime(now));
    lease
}

/// Returns when a lease is renewed: after a quarter of its duration.
pub fn renew_interval(duration: Duration) -> Duration {
    duration / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_made_once_and_then_renewed() {
        let (t0, t1) = (Timestamp::from_second(100).unwrap(), Timestamp::from_second(110).unwrap());
        let first = renewed(None, "node-0", "", Duration::from_secs(40), t0);
        assert_eq!(first.metadata.owner_references, None);
        let mut stored = first.clone();
        stored.metadata.resource_version = Some("7".into());
        let second = renewed(Some(&stored), "node-0", "uid-1", Duration::from_secs(40), t1);
        assert_eq!(second.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(second.metadata.owner_references.as_ref().unwrap()[0].uid, "uid-1");
        let of_new_node = renewed(Some(&second), "node-0", "uid-2", Duration::from_secs(40), t1);
        let owners: Vec<String> =
            of_new_node.metadata.owner_references.unwrap().into_iter().map(|owner| owner.uid).collect();
        assert_eq!(owners, ["uid-2"], "the node was made again");
        let unknown = renewed(Some(&second), "node-0", "", Duration::from_secs(40), t1);
        assert_eq!(unknown.metadata.owner_references, second.metadata.owner_references);
        let spec = second.spec.unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("node-0"), Some(40)));
        assert_eq!(spec.renew_time, Some(MicroTime(t1)));
        assert_eq!(renew_interval(Duration::from_secs(40)), Duration::from_secs(10));
    }
}
