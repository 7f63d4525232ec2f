//! The RBAC roles and bindings that every cluster has, as tables.
//!
//! Corresponds to plugin/pkg/auth/authorizer/rbac/bootstrappolicy.

mod components;
mod controllers;
mod gated;
mod user_facing;

use access::authz::rules::Rule;
use serde_json::{Value, json};
use strategy::gates::Gates;

/// A role's name and its rules. A rule reads `verbs groups resources [names]` or `verbs url paths`, lists with
/// commas; the core group is `core`.
type RoleRow = (&'static str, &'static [&'static str]);

/// Rule that allows a component to write events.
const EVENTS: &str = "create,patch,update core,events.k8s.io events";

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
/// Annotation that exempts a role or binding from repair if it is `false`.
pub const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Aggregated cluster roles: the name, and the label `aggregate-to-…` by which it selects its parts.
const AGGREGATED: &[(&str, &str)] = &[("admin", "admin"), ("edit", "edit"), ("view", "view")];

/// Parts of aggregated roles: the role, and the label `aggregate-to-…` that it has.
const PARTS: &[(&str, &str)] = &[
    ("edit", "admin"),
    ("view", "edit"),
    ("system:aggregate-to-admin", "admin"),
    ("system:aggregate-to-edit", "edit"),
    ("system:aggregate-to-view", "view"),
];

/// Cluster role bindings: a role, and its subjects (`User:`, `Group:`, or `ServiceAccount:` in kube-system). A
/// binding has the name of its role. The bindings of controllers are made from the table of controllers.
const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["Group:system:masters"]),
    ("system:basic-user", &["Group:system:authenticated"]),
    ("system:discovery", &["Group:system:authenticated"]),
    ("system:kube-controller-manager", &["User:system:kube-controller-manager"]),
    ("system:kube-dns", &["ServiceAccount:kube-dns"]),
    ("system:kube-scheduler", &["User:system:kube-scheduler"]),
    ("system:monitoring", &["Group:system:monitoring"]),
    ("system:node", &[]),
    // Deviation: a proxy authorizes requests for its rules; the original shows only its health, to everybody.
    ("system:auth-delegator", &["User:system:kube-proxy"]),
    // Deviation: the certificate that `orrery` issues to the API server for calls of node agents is allowed just those.
    ("system:kubelet-api-admin", &["User:kube-apiserver-kubelet-client"]),
    ("system:node-proxier", &["User:system:kube-proxy"]),
    ("system:orrery:cloud-controller-manager", &["User:system:cloud-controller-manager"]),
    ("system:orrery:node", &["Group:system:nodes"]),
    ("system:orrery:node-fleet", &["User:system:orrery:node-fleet"]),
    ("system:orrery:volume-provisioner", &["ServiceAccount:simulated-volume-provisioner"]),
    ("system:public-info-viewer", &["Group:system:authenticated", "Group:system:unauthenticated"]),
    ("system:service-account-issuer-discovery", &["Group:system:serviceaccounts"]),
    ("system:volume-scheduler", &["User:system:kube-scheduler"]),
];

/// Bindings of roles that exist only where a feature gate is on.
const GATED_BINDINGS: &[(&str, &[&str])] =
    &[("system:cluster-trust-bundle-discovery", &["Group:system:serviceaccounts"])];

/// Prefix of the roles of controllers, and of their bindings.
const CONTROLLER: &str = "system:controller:";

/// Namespaced roles: namespace, name, rules.
const NAMESPACED: &[(&str, &str, &[&str])] = &[
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        &["get,list,watch core configmaps", "update core configmaps cluster-info", EVENTS],
    ),
    (
        "kube-system",
        "extension-apiserver-authentication-reader",
        &["get,list,watch core configmaps extension-apiserver-authentication"],
    ),
    ("kube-system", "system::leader-locking-kube-controller-manager", LEADER_LOCKING),
    ("kube-system", "system::leader-locking-kube-scheduler", LEADER_LOCKING),
    ("kube-system", "system:controller:bootstrap-signer", &["get,list,watch core secrets"]),
    ("kube-system", "system:controller:cloud-provider", &["create,get,list,watch core configmaps"]),
    ("kube-system", "system:controller:token-cleaner", &["delete,get,list,watch core secrets", EVENTS]),
    // Deviation: a simulated node with an identity of its own follows two ConfigMaps, which say how pods behave and what
    // happens to machines. It may watch these two, by a field selector with the name, and no others.
    ("kube-system", "system:orrery:node", &["list,watch core configmaps orrery-behaviour,orrery-fleet"]),
    // Deviation: the cloud is simulated, and so is its controller manager's provider, which has these rights.
    (
        "kube-system",
        "system:orrery:cloud-controller-manager",
        &[
            "create coordination.k8s.io leases",
            "get,update coordination.k8s.io leases cloud-controller-manager",
            "list,watch core configmaps",
            "create core serviceaccounts,serviceaccounts/token",
            EVENTS,
        ],
    ),
    // Deviation: the machines of the simulated cloud are played by a fleet, which follows a ConfigMap.
    (
        "kube-system",
        "system:orrery:simulated-machine",
        &["create core configmaps", "patch core configmaps orrery-fleet"],
    ),
];

const LEADER_LOCKING: &[&str] = &[
    "create,get,list,update,watch coordination.k8s.io leases",
    "create,get,list,update,watch coordination.k8s.io leasecandidates",
];

/// Namespaced bindings: namespace, name, role, subjects.
const NAMESPACED_BINDINGS: &[(&str, &str, &str, &[&str])] = &[
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &["ServiceAccount:bootstrap-signer"],
    ),
    (
        "kube-system",
        "system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        &["User:system:kube-controller-manager", "User:system:kube-scheduler"],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        &[
            "User:system:kube-controller-manager",
            "ServiceAccount:kube-controller-manager",
            "ServiceAccount:leader-election-controller",
        ],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        &["User:system:kube-scheduler", "ServiceAccount:kube-scheduler"],
    ),
    (
        "kube-system",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &["ServiceAccount:bootstrap-signer"],
    ),
    (
        "kube-system",
        "system:controller:cloud-provider",
        "system:controller:cloud-provider",
        &["ServiceAccount:cloud-provider"],
    ),
    (
        "kube-system",
        "system:controller:token-cleaner",
        "system:controller:token-cleaner",
        &["ServiceAccount:token-cleaner"],
    ),
    ("kube-system", "system:orrery:node", "system:orrery:node", &["Group:system:nodes"]),
    (
        "kube-system",
        "system:orrery:cloud-controller-manager",
        "system:orrery:cloud-controller-manager",
        &["User:system:cloud-controller-manager"],
    ),
    (
        "kube-system",
        "system:orrery:simulated-machine",
        "system:orrery:simulated-machine",
        &["ServiceAccount:simulated-machine-controller"],
    ),
];

/// A role or binding that every cluster has, and its resource.
#[derive(Debug)]
pub struct RoleObject {
    pub resource: &'static str,
    pub object: Value,
}

/// Returns the rules of `system:node`, which the Node authorizer applies to every node.
pub fn node_rules(gates: &Gates) -> Vec<Rule> {
    let roles = cluster_roles(gates);
    let (_, rules) = roles.iter().find(|(name, _)| name == "system:node").expect("the table has it");
    rules.iter().map(|rule| Rule::of(&policy_rule(rule))).collect()
}

/// Returns the cluster roles that are not aggregated, with their rules.
fn cluster_roles(gates: &Gates) -> Vec<(String, Vec<&'static str>)> {
    let others = user_facing::USER_FACING.iter().chain(components::COMPONENTS);
    let others = others.map(|(name, rules)| ((*name).to_owned(), rules.to_vec()));
    let of_controllers = controllers::CONTROLLERS.iter();
    let of_controllers = of_controllers.map(|(name, rules)| (format!("{CONTROLLER}{name}"), rules.to_vec()));
    let mut roles = others.chain(of_controllers).collect();
    gated::extend(&mut roles, gates);
    roles
}

/// Returns all roles and bindings, roles before the bindings that name them.
pub fn objects(gates: &Gates) -> Vec<RoleObject> {
    let roles = cluster_roles(gates);
    let mut all: Vec<RoleObject> = roles.iter().map(|(name, rules)| cluster_role(name, Some(rules))).collect();
    all.extend(AGGREGATED.iter().map(|(name, _)| cluster_role(name, None)));
    for (namespace, name, rules) in NAMESPACED {
        let rules: Vec<Value> = rules.iter().map(|rule| policy_rule(rule)).collect();
        all.push(RoleObject {
            resource: "roles",
            object: json!({"apiVersion": API_VERSION, "kind": "Role", "metadata": meta(name, namespace), "rules": rules}),
        });
    }
    let gated = GATED_BINDINGS.iter().filter(|(role, _)| roles.iter().any(|(name, _)| name == role));
    for (role, subjects) in BINDINGS.iter().chain(gated) {
        all.push(binding("", role, "ClusterRole", role, subjects));
    }
    for (role, _) in &roles {
        if let Some(name) = role.strip_prefix(CONTROLLER) {
            all.push(binding("", role, "ClusterRole", role, &[&format!("ServiceAccount:{name}")]));
        }
    }
    for (namespace, name, role, subjects) in NAMESPACED_BINDINGS {
        all.push(binding(namespace, name, "Role", role, subjects));
    }
    all
}

fn meta(name: &str, namespace: &str) -> Value {
    let mut meta = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {AUTOUPDATE: "true"},
    });
    if !namespace.is_empty() {
        meta["namespace"] = json!(namespace);
    }
    meta
}

fn cluster_role(name: &str, rules: Option<&[&str]>) -> RoleObject {
    let mut object = json!({"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": meta(name, "")});
    match rules {
        Some(rules) => object["rules"] = rules.iter().map(|rule| policy_rule(rule)).collect(),
        None => object["rules"] = Value::Null,
    }
    let label = |to: &str| format!("{GROUP}/aggregate-to-{to}");
    for (_, to) in PARTS.iter().filter(|(part, _)| *part == name) {
        object["metadata"]["labels"][label(to)] = json!("true");
    }
    for (_, to) in AGGREGATED.iter().filter(|(whole, _)| *whole == name) {
        object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label(to): "true"}}]});
    }
    RoleObject { resource: "clusterroles", object }
}

fn binding(namespace: &str, name: &str, role_kind: &str, role: &str, subjects: &[&str]) -> RoleObject {
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|subject| match subject.split_once(':').expect("a subject of the table has a kind") {
            ("ServiceAccount", name) => json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}),
            (kind, name) => json!({"apiGroup": GROUP, "kind": kind, "name": name}),
        })
        .collect();
    let (resource, kind) = match namespace {
        "" => ("clusterrolebindings", "ClusterRoleBinding"),
        _ => ("rolebindings", "RoleBinding"),
    };
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": meta(name, namespace),
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
    });
    if !subjects.is_empty() {
        object["subjects"] = json!(subjects);
    }
    RoleObject { resource, object }
}

/// Converts a rule of a table into a PolicyRule.
fn policy_rule(rule: &str) -> Value {
    fn list(text: &str) -> Vec<&str> {
        text.split(',').map(|item| if item == "core" { "" } else { item }).collect()
    }
    let parts: Vec<&str> = rule.split(' ').collect();
    match parts.as_slice() {
        [verbs, "url", urls] => json!({"verbs": list(verbs), "nonResourceURLs": list(urls)}),
        [verbs, groups, resources] => {
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
        }
        [verbs, groups, resources, names] => json!({
            "verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources), "resourceNames": list(names),
        }),
        _ => unreachable!("a rule of the table has three or four parts: {rule}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binding_names_a_role_of_the_table() {
        let on: Vec<String> = gated::gates().map(|gate| format!("{gate}=true")).collect();
        let all = objects(&Gates::with(&on.join(",")));
        let name = |b: &RoleObject| b.object["metadata"]["name"].as_str().unwrap().to_owned();
        let roles: Vec<String> = all.iter().filter(|b| b.resource.ends_with("roles")).map(name).collect();
        for binding in all.iter().filter(|b| b.resource.ends_with("bindings")) {
            let role = binding.object["roleRef"]["name"].as_str().unwrap();
            assert!(roles.iter().any(|r| r == role), "{role}");
        }
    }

    #[test]
    fn a_gate_adds_rules_and_roles() {
        let rules = |gates: &str, role: &str| {
            let found = objects(&Gates::with(gates)).into_iter().find(|it| it.object["metadata"]["name"] == role);
            found.map(|role| role.object["rules"].as_array().map_or(0, Vec::len))
        };
        let publisher = "system:controller:kube-apiserver-serving-clustertrustbundle-publisher";
        assert_eq!(rules("", publisher), None);
        assert_eq!(rules("ClusterTrustBundle=true", publisher), Some(3));
        let (without, with) = (rules("", "system:node"), rules("ClusterTrustBundle=true", "system:node"));
        assert_eq!(without.map(|count| count + 1), with);
        assert_eq!(with, Some(node_rules(&Gates::with("ClusterTrustBundle=true")).len()));
    }

    #[test]
    fn rules_read_as_policy_rules() {
        assert_eq!(
            policy_rule("get,update core configmaps a"),
            json!({"verbs": ["get", "update"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]})
        );
        assert_eq!(policy_rule("get url /a,/b/*"), json!({"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*"]}));
        assert_eq!(policy_rule("* url *"), json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
}
