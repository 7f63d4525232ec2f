//! `FlowSchema`: matches requests, and divides them into flows.
//!
//! It is compiled from the object, so that matching a request allocates no strings.
//! Corresponds to k8s.io/apiserver/pkg/util/flowcontrol/rule.go.

use request::UserInfo;
use request::info::RequestInfo;
use request::user_info::split_service_account;
use serde_json::Value;

/// `distinguisherMethod`: what separates the flows of one schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinguisher {
    User,
    Namespace,
    /// All requests of the schema are one flow.
    None,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FlowSchema {
    pub name: String,
    pub uid: String,
    pub precedence: i64,
    /// The name of its priority level.
    pub level: String,
    pub distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    User(Names),
    Group(Names),
    ServiceAccount { namespace: String, name: Names },
}

#[derive(Clone, Debug, PartialEq)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    resources: Names,
    cluster_scope: bool,
    namespaces: Names,
}

#[derive(Clone, Debug, PartialEq)]
struct PathRule {
    verbs: Names,
    paths: Vec<String>,
}

/// Some names, or all.
#[derive(Clone, Debug, PartialEq)]
enum Names {
    All,
    Some(Vec<String>),
}

impl Names {
    fn of(list: &Value) -> Self {
        let names = texts(list);
        if names.iter().any(|name| name == "*") { Self::All } else { Self::Some(names) }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(names) => names.iter().any(|known| known == name),
        }
    }

    /// Tells whether the names contain `resource/subresource`, without building that string.
    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        let Self::Some(names) = self else { return true };
        names.iter().any(|known| match known.split_once('/') {
            Some((of, part)) => of == resource && part == subresource,
            None => subresource.is_empty() && known == resource,
        })
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

impl FlowSchema {
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (meta, spec) = (&object["metadata"], &object["spec"]);
        Self {
            name: text(&meta["name"]),
            uid: text(&meta["uid"]),
            precedence: spec["matchingPrecedence"].as_i64().unwrap_or(1000),
            level: text(&spec["priorityLevelConfiguration"]["name"]),
            distinguisher: match spec["distinguisherMethod"]["type"].as_str() {
                Some("ByUser") => Distinguisher::User,
                Some("ByNamespace") => Distinguisher::Namespace,
                _ => Distinguisher::None,
            },
            rules: items(&spec["rules"]).map(Rule::of).collect(),
        }
    }

    pub fn matches(&self, info: &RequestInfo, user: &UserInfo) -> bool {
        self.rules.iter().any(|rule| rule.matches(info, user))
    }

    /// Returns the flow distinguisher of a request.
    pub fn flow<'a>(&self, info: &'a RequestInfo, user: &'a UserInfo) -> &'a str {
        match self.distinguisher {
            Distinguisher::User => &user.name,
            Distinguisher::Namespace if info.is_resource => &info.namespace,
            Distinguisher::Namespace | Distinguisher::None => "",
        }
    }
}

impl Rule {
    fn of(rule: &Value) -> Self {
        Self {
            subjects: items(&rule["subjects"]).filter_map(Subject::of).collect(),
            resources: items(&rule["resourceRules"])
                .map(|rule| ResourceRule {
                    verbs: Names::of(&rule["verbs"]),
                    groups: Names::of(&rule["apiGroups"]),
                    resources: Names::of(&rule["resources"]),
                    cluster_scope: rule["clusterScope"] == true,
                    namespaces: Names::of(&rule["namespaces"]),
                })
                .collect(),
            paths: items(&rule["nonResourceRules"])
                .map(|rule| PathRule { verbs: Names::of(&rule["verbs"]), paths: texts(&rule["nonResourceURLs"]) })
                .collect(),
        }
    }

    fn matches(&self, info: &RequestInfo, user: &UserInfo) -> bool {
        if !self.subjects.iter().any(|subject| subject.is(user)) {
            return false;
        }
        if info.is_resource {
            self.resources.iter().any(|rule| rule.matches(info))
        } else {
            self.paths.iter().any(|rule| rule.matches(info))
        }
    }
}

impl Subject {
    fn of(subject: &Value) -> Option<Self> {
        let name = |of: &str| {
            let name = subject[of]["name"].as_str()?;
            Some(if name == "*" { Names::All } else { Names::Some(vec![name.to_owned()]) })
        };
        match subject["kind"].as_str()? {
            "User" => Some(Self::User(name("user")?)),
            "Group" => Some(Self::Group(name("group")?)),
            "ServiceAccount" => Some(Self::ServiceAccount {
                namespace: subject["serviceAccount"]["namespace"].as_str()?.to_owned(),
                name: name("serviceAccount")?,
            }),
            _ => None,
        }
    }

    fn is(&self, user: &UserInfo) -> bool {
        match self {
            Self::User(name) => name.has(&user.name),
            Self::Group(Names::All) => true,
            Self::Group(name) => user.groups.iter().any(|group| name.has(group)),
            Self::ServiceAccount { namespace, name } => {
                split_service_account(&user.name).is_some_and(|(of, account)| of == namespace && name.has(account))
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        let is_here = if info.namespace.is_empty() { self.cluster_scope } else { self.namespaces.has(&info.namespace) };
        is_here
            && self.verbs.has(&info.verb)
            && self.groups.has(&info.group)
            && self.resources.has_resource(&info.resource, &info.subresource)
    }
}

impl PathRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        let is_path = |rule: &String| match rule.strip_suffix('*') {
            Some(prefix) => info.path.starts_with(prefix),
            None => *rule == info.path,
        };
        self.verbs.has(&info.verb) && self.paths.iter().any(is_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use strategy::validation::flow_schemas;

    /// Returns the default schema that matches a request, and its flow.
    fn classified(method: Method, path: &str, user: &UserInfo) -> String {
        let schemas = flow_schemas::objects().iter().filter(|(kind, _)| *kind == "flowschemas");
        let mut schemas: Vec<FlowSchema> = schemas.map(|(_, schema)| FlowSchema::of(schema)).collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        let info = RequestInfo::of(&method, path, "");
        let schema = schemas.iter().find(|schema| schema.matches(&info, user)).expect("catch-all");
        format!("{} {}", schema.name, schema.flow(&info, user)).trim().to_owned()
    }

    #[test]
    fn requests_of_a_fresh_cluster() {
        let user = |name: &str, groups: &[&str]| UserInfo::new(name, groups).authenticated();
        let account = |namespace: &str| UserInfo::service_account(namespace, "x", "").authenticated();
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
        let node_lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1";
        let pods = "/api/v1/namespaces/a/pods";
        let node = user("system:node:n1", &["system:nodes"]);
        let scheduler = user("system:kube-scheduler", &[]);
        let cases = [
            (Method::GET, pods, user("admin", &["system:masters"]), "exempt"),
            (Method::GET, "/readyz", UserInfo::anonymous(), "probes"),
            (Method::GET, "/readyz/etcd", UserInfo::anonymous(), "global-default system:anonymous"),
            (Method::PUT, lease, scheduler.clone(), "system-leader-election system:kube-scheduler"),
            (Method::DELETE, lease, scheduler.clone(), "kube-scheduler kube-system"),
            (Method::PUT, lease, account("kube-system"), "system-leader-election system:serviceaccount:kube-system:x"),
            (Method::PUT, lease, account("default"), "service-accounts system:serviceaccount:default:x"),
            (Method::PUT, node_lease, node.clone(), "system-node-high system:node:n1"),
            (Method::PATCH, "/api/v1/nodes/n1/status", node.clone(), "system-node-high system:node:n1"),
            (Method::GET, "/api/v1/nodes/n1/proxy", node.clone(), "system-nodes system:node:n1"),
            (Method::GET, pods, node, "system-nodes system:node:n1"),
            (Method::POST, "/api/v1/namespaces/a/pods/p/binding", scheduler, "kube-scheduler a"),
            (Method::GET, pods, account("kube-system"), "kube-system-service-accounts a"),
            (Method::GET, pods, user("ann", &[]), "global-default ann"),
        ];
        for (method, path, user, expected) in cases {
            assert_eq!(classified(method, path, &user), expected, "{path}");
        }
    }
}
