//! `Rule`: one RBAC policy rule, what it allows, and whether one set of rules covers another.
//!
//! Corresponds to pkg/apis/rbac/v1 evaluation helpers and k8s.io/component-helpers/auth/rbac/validation.

use super::attributes::Attributes;
use serde_json::{Value, json};
use std::fmt;

/// A PolicyRule of rbac.authorization.k8s.io/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub urls: Vec<String>,
}

impl Rule {
    /// Returns the rules that allow every verb on every resource and on every path.
    pub fn everything() -> [Self; 2] {
        let all = || vec!["*".to_owned()];
        let none = Vec::new;
        [
            Self { verbs: all(), groups: all(), resources: all(), names: none(), urls: none() },
            Self { verbs: all(), groups: none(), resources: none(), names: none(), urls: all() },
        ]
    }
}

fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == value)
}

fn has_or_all(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == "*" || item == value)
}

impl Rule {
    pub fn of(value: &Value) -> Self {
        let list = |key: &str| {
            let items = value.get(key).and_then(Value::as_array);
            items.map(|items| items.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()).unwrap_or_default()
        };
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    pub fn to_value(&self) -> Value {
        let Self { verbs, groups, resources, names, urls } = self;
        let lists = [
            ("verbs", verbs),
            ("apiGroups", groups),
            ("resources", resources),
            ("resourceNames", names),
            ("nonResourceURLs", urls),
        ];
        lists.iter().filter(|(_, list)| !list.is_empty()).map(|(key, list)| ((*key).to_owned(), json!(list))).collect()
    }

    pub fn all_of(object: &Value) -> Vec<Self> {
        object
            .get("rules")
            .and_then(Value::as_array)
            .map(|rules| rules.iter().map(Self::of).collect())
            .unwrap_or_default()
    }

    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, attributes.verb) {
            return false;
        }
        match attributes.path {
            Some(path) => self.allows_url(path),
            None => {
                has_or_all(&self.groups, attributes.group)
                    && self.allows_resource(attributes.resource, attributes.subresource)
                    && (self.names.is_empty() || has(&self.names, attributes.name))
            }
        }
    }

    fn allows_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| {
            if rule == "*" {
                return true;
            }
            if subresource.is_empty() {
                return rule == resource;
            }
            match rule.split_once('/') {
                Some((parent, part)) => part == subresource && (parent == "*" || parent == resource),
                None => false,
            }
        })
    }

    fn allows_url(&self, path: &str) -> bool {
        self.urls.iter().any(|rule| match rule.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => rule == path,
        })
    }

    /// Splits the rule into rules of one verb with one group, resource and name; or of one verb with one URL.
    fn single_grants(&self) -> Vec<Self> {
        let mut grants = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let one = Self {
                        verbs: vec![verb.clone()],
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        grants.push(one);
                    } else {
                        grants.extend(self.names.iter().map(|n| Self { names: vec![n.clone()], ..one.clone() }));
                    }
                }
            }
        }
        for url in &self.urls {
            for verb in &self.verbs {
                grants.push(Self { verbs: vec![verb.clone()], urls: vec![url.clone()], ..Self::default() });
            }
        }
        grants
    }

    /// Tells whether this rule alone allows all that `grant`, one of `single_grants`, allows.
    fn covers(&self, grant: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| has(own, "*") || wanted.iter().all(|w| has(own, w));
        let resources = |wanted: &String| {
            has_or_all(&self.resources, wanted)
                || wanted.split_once('/').is_some_and(|(_, part)| has(&self.resources, &format!("*/{part}")))
        };
        let urls = |wanted: &String| {
            self.urls
                .iter()
                .any(|own| own == wanted || own.strip_suffix('*').is_some_and(|prefix| wanted.starts_with(prefix)))
        };
        all(&self.verbs, &grant.verbs)
            && all(&self.groups, &grant.groups)
            && grant.resources.iter().all(resources)
            && (self.names.is_empty() || (!grant.names.is_empty() && grant.names.iter().all(|n| has(&self.names, n))))
            && grant.urls.iter().all(urls)
    }

    fn same_shape(&self, other: &Self) -> bool {
        (&self.groups, &self.resources, &self.names, &self.urls)
            == (&other.groups, &other.resources, &other.names, &other.urls)
    }
}

/// Returns the part of `wanted` that no rule of `held` covers, compacted into few rules.
pub fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let mut missing: Vec<Rule> = Vec::new();
    for grant in wanted.iter().flat_map(Rule::single_grants) {
        if held.iter().any(|rule| rule.covers(&grant)) {
            continue;
        }
        match missing.iter_mut().find(|m| m.same_shape(&grant)) {
            Some(same) => same.verbs.extend(grant.verbs),
            None => missing.push(grant),
        }
    }
    for rule in &mut missing {
        let mut seen = Vec::new();
        rule.verbs.retain(|v| {
            !seen.contains(v) && {
                seen.push(v.clone());
                true
            }
        });
    }
    missing
}

/// Formats a rule as `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |list: &[String]| list.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" ");
        let parts: Vec<String> = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.names),
            ("NonResourceURLs", &self.urls),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name}:[{}]", quoted(list)))
        .collect();
        write!(f, "{{{}}}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use request::UserInfo;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Rule {
        let list = |text: &str| {
            if text.is_empty() { vec![] } else { text.split(',').map(|s| s.replace("core", "")).collect() }
        };
        Rule { verbs: list(verbs), groups: list(groups), resources: list(resources), names: list(names), urls: vec![] }
    }

    #[test]
    fn wildcards_and_subresources() {
        let ann = UserInfo::new("ann", &[]);
        let ask = |rule: &Rule, verb, group, resource, subresource, name| {
            rule.allows(&Attributes { subresource, name, ..Attributes::of_resource(&ann, verb, group, resource) })
        };
        let apps = rule("*", "apps", "*", "");
        assert!(ask(&apps, "delete", "apps", "deployments", "scale", "x"));
        assert!(!ask(&apps, "get", "", "pods", "", ""));
        let scale = rule("get", "*", "*/scale,pods/log", "");
        assert!(ask(&scale, "get", "", "replicationcontrollers", "scale", "r"));
        assert!(ask(&scale, "get", "", "pods", "log", "p"));
        assert!(!ask(&scale, "get", "", "pods", "", "p"));
        let named = rule("get", "core", "configmaps", "a");
        assert!(ask(&named, "get", "", "configmaps", "", "a"));
        assert!(!ask(&named, "get", "", "configmaps", "", "b"));
        assert!(!ask(&named, "list", "", "configmaps", "", ""));
    }

    #[test]
    fn what_is_missing_is_shown_compactly() {
        let held = [rule("get,list", "core", "pods", "")];
        let wanted = [rule("get,list,delete,patch", "core", "pods", ""), rule("get", "core", "secrets", "")];
        let missing: Vec<String> = uncovered(&held, &wanted).iter().map(ToString::to_string).collect();
        assert_eq!(
            missing,
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete" "patch"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#
            ]
        );
        assert!(uncovered(&[rule("*", "*", "*", "")], &wanted).is_empty());
    }
}
