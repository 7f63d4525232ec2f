//! The ABAC authorizer: a file with one policy, a JSON object, on each line. A request is allowed if one policy allows it.
//!
//! Corresponds to pkg/auth/authorizer/abac and pkg/apis/abac.

use super::attributes::{Attributes, Decision};
use super::rules::Rule;
use request::UserInfo;
use request::user_info::ALL_AUTHENTICATED;
use serde::Deserialize;

const V1BETA1: &str = "abac.authorization.kubernetes.io/v1beta1";
const READS: [&str; 3] = ["get", "list", "watch"];
const ANY: &str = "*";

/// A line of the file is not a policy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {why}")]
pub struct PolicyFileError {
    line: usize,
    why: String,
}

/// One policy. An empty field matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    non_resource_path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Versioned {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(default)]
    spec: Policy,
}

/// Parses the policies of a file. Blank lines and lines that begin with `#` are skipped.
pub fn parse(text: &str) -> Result<Vec<Policy>, PolicyFileError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let policies = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    policies.map(|(line, text)| policy(text).map_err(|why| PolicyFileError { line, why })).collect()
}

fn policy(line: &str) -> Result<Policy, String> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let of_everybody = if value.get("apiVersion").is_some() || value.get("kind").is_some() {
        let Versioned { api_version, kind, spec } = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if (api_version.as_str(), kind.as_str()) != (V1BETA1, "Policy") {
            return Err(format!("want {V1BETA1} Policy, and not {api_version:?} {kind:?}"));
        }
        spec
    } else {
        unversioned(serde_json::from_value(value).map_err(|error| error.to_string())?)
    };
    Ok(if [&of_everybody.user, &of_everybody.group].into_iter().any(|who| who == ANY) {
        // `*` means every authenticated user.
        Policy { user: String::new(), group: ALL_AUTHENTICATED.to_owned(), ..of_everybody }
    } else {
        of_everybody
    })
}

/// Converts a policy of the form without `apiVersion`, in which a missing field matches everything.
fn unversioned(line: Policy) -> Policy {
    let or_any = |text: &str| if text.is_empty() { ANY.to_owned() } else { text.to_owned() };
    let names_none = line.namespace.is_empty() && line.resource.is_empty();
    Policy {
        group: if line.user.is_empty() { or_any(&line.group) } else { line.group },
        namespace: or_any(&line.namespace),
        resource: or_any(&line.resource),
        api_group: ANY.to_owned(),
        non_resource_path: if names_none { ANY.to_owned() } else { String::new() },
        ..line
    }
}

pub fn authorize(policies: &[Policy], attributes: &Attributes<'_>) -> Decision {
    if policies.iter().any(|policy| policy.allows(attributes)) {
        Decision::Allow(String::new())
    } else {
        Decision::NoOpinion("No policy matched.".to_owned())
    }
}

/// Returns what the policies allow the user in a namespace, as rules.
pub fn rules_for(policies: &[Policy], user: &UserInfo, namespace: &str) -> Vec<Rule> {
    let own = policies.iter().filter(|policy| policy.is_of(user));
    own.flat_map(|policy| policy.rules(namespace)).collect()
}

impl Policy {
    fn is_of(&self, user: &UserInfo) -> bool {
        if self.user.is_empty() && self.group.is_empty() {
            return false;
        }
        (self.user.is_empty() || self.user == user.name) && (self.group.is_empty() || user.in_group(&self.group))
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let matches = |wanted: &str, is: &str| wanted == ANY || wanted == is;
        if !self.is_of(attributes.user) || (self.readonly && !READS.contains(&attributes.verb)) {
            return false;
        }
        match attributes.path {
            None => {
                matches(&self.namespace, attributes.namespace)
                    && matches(&self.resource, attributes.resource)
                    && matches(&self.api_group, attributes.group)
            }
            Some(path) => match self.non_resource_path.strip_suffix('*') {
                Some(beginning) => path.starts_with(beginning),
                None => path == self.non_resource_path,
            },
        }
    }

    fn rules(&self, namespace: &str) -> Vec<Rule> {
        let list = |text: &str| if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
        let verbs = if self.readonly { READS.map(str::to_owned).to_vec() } else { vec![ANY.to_owned()] };
        let mut rules = Vec::new();
        if [ANY, namespace].contains(&self.namespace.as_str()) && !self.resource.is_empty() {
            let (groups, resources) = (vec![self.api_group.clone()], list(&self.resource));
            rules.push(Rule { verbs: verbs.clone(), groups, resources, ..Rule::default() });
        }
        if !self.non_resource_path.is_empty() {
            rules.push(Rule { verbs, urls: list(&self.non_resource_path), ..Rule::default() });
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beta(spec: &str) -> String {
        format!(r#"{{"apiVersion": "{V1BETA1}", "kind": "Policy", "spec": {spec}}}"#)
    }

    /// Tells whether the user may list pods in `a`, create them, get deployments in `b`, and get `/metrics`.
    fn verdicts(policies: &[Policy], user: &UserInfo) -> [bool; 4] {
        let of = |verb, group, resource, namespace| Attributes {
            namespace,
            ..Attributes::of_resource(user, verb, group, resource)
        };
        let all = [
            of("list", "", "pods", "a"),
            of("create", "", "pods", "a"),
            of("get", "apps", "deployments", "b"),
            Attributes::of_path(user, "get", "/metrics"),
        ];
        all.map(|attributes| matches!(authorize(policies, &attributes), Decision::Allow(_)))
    }

    #[test]
    fn a_policy_allows_what_all_its_parts_match() {
        let ann = UserInfo::new("ann", &["dev", ALL_AUTHENTICATED]);
        for (line, expected) in [
            (beta(r#"{"user": "ann", "namespace": "a", "resource": "pods"}"#), [true, true, false, false]),
            (
                beta(r#"{"user": "ann", "namespace": "a", "resource": "pods", "readonly": true}"#),
                [true, false, false, false],
            ),
            (
                beta(r#"{"group": "dev", "namespace": "*", "resource": "*", "apiGroup": "*"}"#),
                [true, true, true, false],
            ),
            (beta(r#"{"user": "bob", "namespace": "*", "resource": "*", "apiGroup": "*"}"#), [false; 4]),
            (beta(r#"{"user": "ann", "group": "ops", "namespace": "*", "resource": "*"}"#), [false; 4]),
            (beta(r#"{"namespace": "*", "resource": "*", "nonResourcePath": "*"}"#), [false; 4]),
            (beta(r#"{"user": "*", "nonResourcePath": "/met*"}"#), [false, false, false, true]),
            (beta(r#"{"user": "ann", "nonResourcePath": "/metric"}"#), [false; 4]),
            (r#"{"user": "ann"}"#.to_owned(), [true; 4]),
            (r#"{"readonly": true}"#.to_owned(), [true, false, true, true]),
            (r#"{"user": "ann", "resource": "pods"}"#.to_owned(), [true, true, false, false]),
        ] {
            let policies = parse(&line).unwrap();
            assert_eq!(verdicts(&policies, &ann), expected, "{line}");
        }
        let everybody = parse(&beta(r#"{"user": "*", "nonResourcePath": "*"}"#)).unwrap();
        assert_eq!(verdicts(&everybody, &UserInfo::anonymous()), [false; 4]);
    }

    #[test]
    fn a_file_has_a_policy_a_line() {
        let text = format!("# who may what\n\n{}\n", beta(r#"{"user": "ann", "resource": "pods", "namespace": "a"}"#));
        let policies = parse(&text).unwrap();
        let [rule] = rules_for(&policies, &UserInfo::new("ann", &[]), "a").try_into().unwrap();
        assert_eq!(
            (rule.verbs.as_slice(), rule.resources.as_slice()),
            (&["*".to_owned()][..], &["pods".to_owned()][..])
        );
        assert_eq!(rules_for(&policies, &UserInfo::new("ann", &[]), "b"), []);
        for (text, why) in [
            ("\n{", "line 2: EOF while parsing an object at line 1 column 1"),
            (r#"{"users": "ann"}"#, "line 1: unknown field `users`"),
            (
                r#"{"apiVersion": "v1", "kind": "Policy"}"#,
                r#"line 1: want abac.authorization.kubernetes.io/v1beta1 Policy"#,
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
