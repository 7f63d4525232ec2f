//! The users of the components' requests under `orrery up`.

use super::ledger::{self, Ledger};
use crate::cluster_with;
use e2e::store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// Who may change something, but for reviews, leases and events.
const WRITERS: [&str; 4] =
    ["kubernetes-admin", "system:kube-scheduler", "system:node:node-", "system:serviceaccount:kube-system:"];
/// What those write who otherwise read.
const OF_EVERY_COMPONENT: [&str; 5] =
    ["tokenreviews", "subjectaccessreviews", "coordination.k8s.io leases", "events", "serviceaccounts"];

#[test]
fn everybody_calls_under_a_name_of_his_own() {
    let directory = tempfile::tempdir().unwrap();
    let audit = ledger::audit(directory.path());
    let [policy, log] = [audit.audit_policy_file, audit.audit_log_path].map(|path| path.unwrap().display().to_string());
    let flags =
        [format!("--apiserver-arg=audit-policy-file={policy}"), format!("--apiserver-arg=audit-log-path={log}")];
    let cluster = cluster_with(directory.path(), Store::Memory, &[&flags[0], &flags[1]]);
    let kubectl = cluster.kubectl();
    kubectl.ok("create deployment web --image=nginx");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    kubectl.ok("logs deployment/web");
    let ledger = Ledger::read(directory.path());
    assert_eq!(ledger.refused, BTreeMap::new());
    let in_group = |group: &str| -> BTreeSet<&str> {
        let members = ledger.callers.iter().filter(|(_, groups)| groups.contains(group));
        members.map(|(name, _)| name.as_str()).collect()
    };
    assert_eq!(in_group("system:masters"), ["kubernetes-admin"].into());
    assert_eq!(in_group("system:nodes"), ["system:node:node-0", "system:node:node-1", "system:node:node-2"].into());
    for account in ["deployment-controller", "replicaset-controller", "node-controller", "service-account-controller"] {
        let name = format!("system:serviceaccount:kube-system:{account}");
        assert!(ledger.callers.contains_key(&name), "{name}");
    }
    for (caller, asked) in &ledger.asked {
        let writes =
            |asked: &&String| !["get", "list", "watch"].iter().any(|verb| asked.starts_with(&format!("{verb} ")));
        let own = |asked: &&String| !OF_EVERY_COMPONENT.iter().any(|what| asked.contains(what));
        let others: Vec<&String> = asked.iter().filter(writes).filter(own).collect();
        let may = WRITERS.iter().any(|writer| caller.starts_with(writer));
        assert!(may || others.is_empty(), "{caller}: {others:?}");
    }
}
