//! The CEL library `authorizer`: checks the permissions of the user or of a service account.
//!
//! Corresponds to k8s.io/apiserver/pkg/cel/library/authz.go.

use access::authz;
use access::authz::{Authorization, Decision, Verdict};
use cel::admission::authorization::{AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK};
use cel::{Foreign, Meter, Outcome, Value, error, no_overload};
use proto::meta::names;
use request::UserInfo;
use std::fmt;
use std::sync::Arc;

/// Additional cost of one check; every call costs 1.
const CHECK_COST: u64 = 350_000 - 1;

/// Decides the checks.
pub trait Authorizer: Send + Sync {
    fn decide(&self, attributes: &authz::Attributes<'_>) -> Verdict;
}

impl Authorizer for Authorization {
    fn decide(&self, attributes: &authz::Attributes<'_>) -> Verdict {
        self.decide_without_waiting(attributes)
    }
}

/// The user whose permissions are checked, and the authorizer.
#[derive(Clone)]
struct Asker {
    authorizer: Arc<dyn Authorizer>,
    user: Arc<UserInfo>,
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "authorizer of {}", self.user.name)
    }
}

/// A resource check, as far as the expression has built it.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

#[derive(Clone, Debug)]
enum Question {
    Any(Asker),
    Path(Asker, String),
    Group(Asker, String),
    Resource(Asker, Resource),
    Answered { is_allowed: bool, reason: String, error: String },
}

/// Returns the value of `authorizer` in a request.
pub fn authorizer(authorizer: &Arc<dyn Authorizer>, user: &Arc<UserInfo>) -> Value {
    Question::Any(Asker { authorizer: authorizer.clone(), user: user.clone() }).value()
}

/// Returns the value of `authorizer.requestResource`.
pub fn request_resource(authorizer: &Arc<dyn Authorizer>, user: &Arc<UserInfo>, resource: Resource) -> Value {
    Question::Resource(Asker { authorizer: authorizer.clone(), user: user.clone() }, resource).value()
}

impl Question {
    fn value(self) -> Value {
        Value::Foreign(Arc::new(self))
    }
}

impl Asker {
    fn ask(&self, attributes: &authz::Attributes<'_>, meter: &mut Meter) -> Outcome {
        meter.charge(CHECK_COST)?;
        let Verdict { decision, error } = self.authorizer.decide(attributes);
        let (is_allowed, reason) = match decision {
            Decision::Allow(reason) => (true, reason),
            Decision::NoOpinion(reason) | Decision::Deny(reason) => (false, reason),
        };
        Ok(Question::Answered { is_allowed, reason, error }.value())
    }

    fn service_account(&self, namespace: &str, name: &str) -> Outcome {
        if !names::dns1123_subdomain(name).is_empty() {
            return error("Invalid service account name");
        }
        if !names::dns1123_label(namespace).is_empty() {
            return error("Invalid service account namespace");
        }
        let user = Arc::new(UserInfo::service_account(namespace, name, ""));
        Ok(Question::Any(Self { user, authorizer: self.authorizer.clone() }).value())
    }
}

impl Resource {
    /// Returns the check with one more part, such as `namespace` or `name`.
    fn with(&self, part: &str, text: &str) -> Option<Self> {
        let mut whole = self.clone();
        let place = match part {
            "subresource" => &mut whole.subresource,
            "namespace" => &mut whole.namespace,
            "name" => &mut whole.name,
            "fieldSelector" => &mut whole.field_selector,
            "labelSelector" => &mut whole.label_selector,
            _ => return None,
        };
        text.clone_into(place);
        Some(whole)
    }

    fn attributes<'a>(&'a self, user: &'a UserInfo, verb: &'a str) -> authz::Attributes<'a> {
        authz::Attributes {
            namespace: &self.namespace,
            subresource: &self.subresource,
            name: &self.name,
            field_selector: &self.field_selector,
            label_selector: &self.label_selector,
            ..authz::Attributes::of_resource(user, verb, &self.group, &self.resource)
        }
    }
}

impl Foreign for Question {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Any(_) => AUTHORIZER,
            Self::Path(..) => PATH_CHECK,
            Self::Group(..) => GROUP_CHECK,
            Self::Resource(..) => RESOURCE_CHECK,
            Self::Answered { .. } => DECISION,
        }
    }

    fn call(&self, name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
        let texts: Vec<&str> = arguments.iter().filter_map(text).collect();
        match (self, name, texts.as_slice()) {
            (Self::Any(_), "path", [path]) if path.trim().is_empty() => error("path must not be empty"),
            (Self::Any(asker), "path", [path]) => Ok(Self::Path(asker.clone(), (*path).to_owned()).value()),
            (Self::Any(asker), "group", [group]) => Ok(Self::Group(asker.clone(), (*group).to_owned()).value()),
            (Self::Any(asker), "serviceAccount", [namespace, name]) => asker.service_account(namespace, name),
            (Self::Path(asker, path), "check", [verb]) => {
                asker.ask(&authz::Attributes::of_path(&asker.user, verb, path), meter)
            }
            (Self::Group(..), "resource", [resource]) if resource.trim().is_empty() => {
                error("resource must not be empty")
            }
            (Self::Group(asker, group), "resource", [resource]) => {
                let resource =
                    Resource { group: group.clone(), resource: (*resource).to_owned(), ..Resource::default() };
                Ok(Self::Resource(asker.clone(), resource).value())
            }
            (Self::Resource(asker, resource), "check", [verb]) => {
                asker.ask(&resource.attributes(&asker.user, verb), meter)
            }
            (Self::Resource(asker, resource), part, [text]) => match resource.with(part, text) {
                Some(whole) => Ok(Self::Resource(asker.clone(), whole).value()),
                None => no_overload(name, arguments),
            },
            (Self::Answered { error, .. }, "errored", []) => Ok(Value::Bool(!error.is_empty())),
            (Self::Answered { error, .. }, "error", []) => Ok(Value::string(error)),
            (Self::Answered { is_allowed, .. }, "allowed", []) => Ok(Value::Bool(*is_allowed)),
            (Self::Answered { reason, .. }, "reason", []) => Ok(Value::string(reason)),
            _ => no_overload(name, arguments),
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}
