//! Decisions of an index; and after random changes, the updated index equals one compiled from scratch and decides as a
//! plain search over all bindings does.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use std::collections::BTreeMap;

/// Objects by namespace and name.
type Objects = BTreeMap<(String, String), Arc<Value>>;

#[derive(Clone, Debug, Default)]
struct Policy {
    cluster_roles: Objects,
    roles: Objects,
    cluster_role_bindings: Objects,
    role_bindings: Objects,
}

fn put(objects: &mut Objects, object: Value) {
    let key = (text(&object, "/metadata/namespace").to_owned(), text(&object, "/metadata/name").to_owned());
    objects.insert(key, Arc::new(object));
}

fn changes(before: &Objects, after: &Objects) -> Vec<Change> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let change = |key| Change { before: before.get(key).cloned(), after: after.get(key).cloned() };
    keys.into_iter().map(change).filter(|change| change.before != change.after).collect()
}

impl Policy {
    fn since(&self, before: &Self) -> Changes {
        Changes {
            cluster_roles: changes(&before.cluster_roles, &self.cluster_roles),
            roles: changes(&before.roles, &self.roles),
            cluster_role_bindings: changes(&before.cluster_role_bindings, &self.cluster_role_bindings),
            role_bindings: changes(&before.role_bindings, &self.role_bindings),
        }
    }

    fn index(&self) -> RbacIndex {
        RbacIndex::default().after(&self.since(&Self::default()))
    }
}

fn rule(verb: &str, resource: &str) -> Value {
    json!([{"verbs": [verb], "apiGroups": [""], "resources": [resource]}])
}

fn cluster_role(name: &str, label: &str, rules: Value, collected_label: &str) -> Value {
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"to": collected_label}}]});
    let aggregation = if collected_label.is_empty() { Value::Null } else { selectors };
    json!({"metadata": {"name": name, "labels": {"to": label}}, "rules": rules, "aggregationRule": aggregation})
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subject: (&str, &str)) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"kind": role.0, "name": role.1},
        "subjects": [{"kind": subject.0, "name": subject.1}],
    })
}

fn policy() -> Policy {
    let mut policy = Policy::default();
    put(&mut policy.cluster_roles, cluster_role("parts", "view", rule("list", "pods"), ""));
    put(&mut policy.cluster_roles, cluster_role("view", "", Value::Null, "view"));
    put(&mut policy.roles, json!({"metadata": {"name": "r", "namespace": "a"}, "rules": rule("get", "secrets")}));
    put(&mut policy.cluster_role_bindings, binding("", "viewers", ("ClusterRole", "view"), ("Group", "devs")));
    put(&mut policy.role_bindings, binding("a", "b", ("Role", "r"), ("ServiceAccount", "bot")));
    put(&mut policy.role_bindings, binding("a", "dangling", ("Role", "gone"), ("User", "eve")));
    policy
}

fn ask(index: &RbacIndex, user: &UserInfo, verb: &str, resource: &str, namespace: &str) -> Decision {
    index.authorize(&Attributes { namespace, ..Attributes::of_resource(user, verb, "", resource) })
}

#[test]
fn bindings_grant_in_their_scope() {
    let index = policy().index();
    let dev = UserInfo::new("ann", &["devs"]);
    let bot = UserInfo::new("system:serviceaccount:a:bot", &[]);
    let allowed = |why: &str| Decision::Allow(format!("RBAC: allowed by {why}"));
    assert_eq!(
        ask(&index, &dev, "list", "pods", "b"),
        allowed(r#"ClusterRoleBinding "viewers" of ClusterRole "view" to Group "devs""#)
    );
    assert_eq!(ask(&index, &dev, "get", "pods", "b"), Decision::NoOpinion(String::new()));
    assert_eq!(
        ask(&index, &bot, "get", "secrets", "a"),
        allowed(r#"RoleBinding "b/a" of Role "r" to ServiceAccount "bot/a""#)
    );
    assert_eq!(ask(&index, &bot, "get", "secrets", "b"), Decision::NoOpinion(String::new()));
    assert_eq!(ask(&index, &bot, "get", "secrets", ""), Decision::NoOpinion(String::new()));
}

#[test]
fn a_role_that_is_missing_is_named() {
    let expected = "RBAC: role.rbac.authorization.k8s.io \"gone\" not found";
    let decision = ask(&policy().index(), &UserInfo::new("eve", &[]), "get", "pods", "a");
    assert_eq!(decision, Decision::NoOpinion(expected.into()));
}

#[test]
fn a_role_of_many_bindings_is_one_role_and_the_next_one_is_found() {
    let mut policy = policy();
    for number in 0..200 {
        let name = format!("b{number:03}");
        put(&mut policy.role_bindings, binding("a", &name, ("ClusterRole", "parts"), ("User", "ann")));
    }
    put(&mut policy.role_bindings, binding("a", "z", ("Role", "r"), ("User", "ann")));
    let index = policy.index();
    let ann = UserInfo::new("ann", &[]);
    assert!(matches!(ask(&index, &ann, "get", "secrets", "a"), Decision::Allow(_)));
    assert_eq!(
        ask(&index, &ann, "list", "pods", "a"),
        Decision::Allow(r#"RBAC: allowed by RoleBinding "b000/a" of ClusterRole "parts" to User "ann""#.into())
    );
    assert_eq!(index.rules_for(&ann, "a").0.len(), 201);
}

const LABELS: [&str; 3] = ["", "p", "q"];
const VERBS: [&str; 2] = ["get", "list"];
const RESOURCES: [&str; 2] = ["pods", "secrets"];
const CLUSTER_ROLES: [&str; 4] = ["c0", "c1", "c2", "c3"];
const NAMESPACES: [&str; 2] = ["a", "b"];
const SUBJECTS: [(&str, &str); 4] =
    [("User", "ann"), ("Group", "devs"), ("ServiceAccount", "bot"), ("User", "system:serviceaccount:a:bot")];

/// An object that replaces the one of the same name, or that is deleted.
#[derive(Clone, Debug)]
enum PolicyObject {
    ClusterRole(Value),
    Role(Value),
    ClusterRoleBinding(Value),
    RoleBinding(Value),
}

fn objects_and_presence() -> impl Strategy<Value = (PolicyObject, bool)> {
    let rules = || (select(&VERBS), select(&RESOURCES)).prop_map(|(verb, resource)| rule(verb, resource));
    let name = || select(&["m", "n", "o"]);
    let step = prop_oneof![
        (select(&CLUSTER_ROLES), select(&LABELS), rules(), select(&LABELS)).prop_map(
            |(name, label, rules, collected)| PolicyObject::ClusterRole(cluster_role(name, label, rules, collected))
        ),
        (select(&NAMESPACES), name(), rules()).prop_map(|(namespace, name, rules)| {
            PolicyObject::Role(json!({"metadata": {"namespace": namespace, "name": name}, "rules": rules}))
        }),
        (name(), select(&CLUSTER_ROLES), select(&SUBJECTS)).prop_map(|(name, role, subject)| {
            PolicyObject::ClusterRoleBinding(binding("", name, ("ClusterRole", role), subject))
        }),
        (select(&NAMESPACES), name(), select(&CLUSTER_ROLES), select(&SUBJECTS)).prop_map(
            |(namespace, name, role, subject)| PolicyObject::RoleBinding(binding(
                namespace,
                name,
                ("ClusterRole", role),
                subject
            ))
        ),
        (select(&NAMESPACES), name(), name(), select(&SUBJECTS)).prop_map(|(namespace, name, role, subject)| {
            PolicyObject::RoleBinding(binding(namespace, name, ("Role", role), subject))
        }),
    ];
    (step, prop::bool::weighted(0.7))
}

fn apply(policy: &mut Policy, object: PolicyObject, is_present: bool) {
    let (objects, object) = match object {
        PolicyObject::ClusterRole(object) => (&mut policy.cluster_roles, object),
        PolicyObject::Role(object) => (&mut policy.roles, object),
        PolicyObject::ClusterRoleBinding(object) => (&mut policy.cluster_role_bindings, object),
        PolicyObject::RoleBinding(object) => (&mut policy.role_bindings, object),
    };
    put(objects, object.clone());
    if !is_present {
        objects.remove(&(text(&object, "/metadata/namespace").to_owned(), text(&object, "/metadata/name").to_owned()));
    }
}

/// Decides by a plain search over every binding and every role that it refers to.
fn is_allowed(policy: &Policy, user: &UserInfo, attributes: &Attributes<'_>) -> bool {
    let bindings = policy.cluster_role_bindings.values().chain(policy.role_bindings.values());
    bindings.into_iter().any(|binding| {
        let namespace = text(binding, "/metadata/namespace");
        let binds = binding["subjects"].as_array().into_iter().flatten().any(|subject| {
            let name = text(subject, "/name");
            match text(subject, "/kind") {
                "User" => name == user.name,
                "Group" => user.in_group(name),
                _ => format!("system:serviceaccount:{namespace}:{name}") == user.name,
            }
        });
        let holds = namespace.is_empty() || namespace == attributes.namespace;
        let role = text(binding, "/roleRef/name").to_owned();
        let roles: Vec<&Arc<Value>> = match text(binding, "/roleRef/kind") {
            "ClusterRole" => reachable(policy, &role),
            _ => policy.roles.get(&(namespace.to_owned(), role)).into_iter().collect(),
        };
        binds && holds && roles.iter().any(|role| Rule::all_of(role).iter().any(|rule| rule.allows(attributes)))
    })
}

/// Returns a ClusterRole and all roles that it aggregates.
fn reachable<'a>(policy: &'a Policy, name: &str) -> Vec<&'a Arc<Value>> {
    let mut found: Vec<&Arc<Value>> = policy.cluster_roles.get(&(String::new(), name.to_owned())).into_iter().collect();
    let mut next = 0;
    while let Some(role) = found.get(next) {
        let wanted = text(role, "/aggregationRule/clusterRoleSelectors/0/matchLabels/to").to_owned();
        for other in policy.cluster_roles.values() {
            let is_wanted = !wanted.is_empty() && text(other, "/metadata/labels/to") == wanted;
            if is_wanted && !found.contains(&other) {
                found.push(other);
            }
        }
        next += 1;
    }
    found
}

proptest! {
    #[test]
    fn an_index_that_follows_changes_is_the_one_made_anew(
        batches in prop::collection::vec(prop::collection::vec(objects_and_presence(), 1..4), 1..24)
    ) {
        let (mut policy, mut index) = (Policy::default(), RbacIndex::default());
        let users = [
            UserInfo::new("ann", &["devs"]),
            UserInfo::new("system:serviceaccount:a:bot", &[]),
            UserInfo::new("system:serviceaccount:b:bot", &["ops"]),
        ];
        for batch in batches {
            let before = policy.clone();
            for (object, is_present) in batch {
                apply(&mut policy, object, is_present);
            }
            index = index.after(&policy.since(&before));
            prop_assert_eq!(&index, &policy.index());
            for user in &users {
                for (namespace, verb, resource) in
                    ["", "a", "b"].iter().flat_map(|n| VERBS.iter().flat_map(move |v| RESOURCES.iter().map(move |r| (n, v, r))))
                {
                    let attributes = Attributes { namespace, ..Attributes::of_resource(user, verb, "", resource) };
                    let is_right = matches!(index.authorize(&attributes), Decision::Allow(_)) == is_allowed(&policy, user, &attributes);
                    prop_assert!(is_right, "{} {} {} in {:?}", user.name, verb, resource, namespace);
                }
            }
        }
    }
}
