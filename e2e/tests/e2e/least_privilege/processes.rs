//! Tests under which user names the components send their requests under `orrery up`.

use super::audit_summary::{self, AuditSummary};
use crate::cluster_with;
use e2e::store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// Beginnings of user names that may write objects.
const WRITERS: [&str; 4] =
    ["kubernetes-admin", "system:kube-scheduler", "system:node:node-", "system:serviceaccount:kube-system:"];
/// Parts of the requests that every component may send: reviews, Leases, Events and service accounts.
const OF_EVERY_COMPONENT: [&str; 5] =
    ["tokenreviews", "subjectaccessreviews", "coordination.k8s.io leases", "events", "serviceaccounts"];

#[test]
fn each_component_sends_requests_as_its_own_user() {
    let directory = tempfile::tempdir().unwrap();
    let audit = audit_summary::options(directory.path());
    let [policy, log] = [audit.audit_policy_file, audit.audit_log_path].map(|path| path.unwrap().display().to_string());
    let flags =
        [format!("--apiserver-arg=audit-policy-file={policy}"), format!("--apiserver-arg=audit-log-path={log}")];
    let cluster = cluster_with(directory.path(), Store::Memory, &[&flags[0], &flags[1]]);
    let kubectl = cluster.kubectl();
    kubectl.ok("create deployment web --image=nginx");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    kubectl.ok("logs deployment/web");
    let summary = AuditSummary::read(directory.path());
    assert_eq!(summary.refused, BTreeMap::new());
    let in_group = |group: &str| -> BTreeSet<&str> {
        let members = summary.callers.iter().filter(|(_, groups)| groups.contains(group));
        members.map(|(name, _)| name.as_str()).collect()
    };
    assert_eq!(in_group("system:masters"), ["kubernetes-admin"].into());
    assert_eq!(in_group("system:nodes"), ["system:node:node-0", "system:node:node-1", "system:node:node-2"].into());
    for account in ["deployment-controller", "replicaset-controller", "node-controller", "service-account-controller"] {
        let name = format!("system:serviceaccount:kube-system:{account}");
        assert!(summary.callers.contains_key(&name), "{name}");
    }
    for (caller, requests) in &summary.requested {
        let writes =
            |request: &&String| !["get", "list", "watch"].iter().any(|verb| request.starts_with(&format!("{verb} ")));
        let own = |request: &&String| !OF_EVERY_COMPONENT.iter().any(|what| request.contains(what));
        let others: Vec<&String> = requests.iter().filter(writes).filter(own).collect();
        let may = WRITERS.iter().any(|writer| caller.starts_with(writer));
        assert!(may || others.is_empty(), "{caller}: {others:?}");
    }
}
