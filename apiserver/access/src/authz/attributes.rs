//! `Attributes`: the question to authorizers, whether a user may perform an action; and [`Verdict`], their answer.
//!
//! Corresponds to k8s.io/apiserver/pkg/authorization/authorizer and the `responsewriters.Forbidden` wording.

use proto::Status;
use request::UserInfo;
use request::info::RequestInfo;
use request::trace::{Gate, Steps};

/// One action of a user, on a resource or on a path.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    pub user: &'a UserInfo,
    pub verb: &'a str,
    /// Empty for cluster-scoped resources and for lists over all namespaces.
    pub namespace: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// Empty for collections.
    pub name: &'a str,
    /// The raw field selector of a list, watch or deletecollection.
    pub field_selector: &'a str,
    /// The raw label selector of a list, watch or deletecollection.
    pub label_selector: &'a str,
    /// The path of a non-resource request.
    pub path: Option<&'a str>,
    /// Records what each authorizer decides, if the request is traced.
    pub listener: Option<Listener<'a>>,
}

/// Records the decisions of authorizers as steps of a trace, on behalf of `gate`.
#[derive(Clone, Copy, Debug)]
pub struct Listener<'a> {
    pub(super) steps: &'a Steps,
    pub(super) gate: Gate,
}

impl<'a> Listener<'a> {
    pub fn new(steps: &'a Steps, gate: Gate) -> Self {
        steps.begin();
        Self { steps, gate }
    }
}

impl<'a> Attributes<'a> {
    pub fn of_resource(user: &'a UserInfo, verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self {
            user,
            verb,
            namespace: "",
            group,
            version: "*",
            resource,
            subresource: "",
            name: "",
            field_selector: "",
            label_selector: "",
            path: None,
            listener: None,
        }
    }

    pub fn of_path(user: &'a UserInfo, verb: &'a str, path: &'a str) -> Self {
        Self { path: Some(path), ..Self::of_resource(user, verb, "", "") }
    }

    /// `selected_name` is the name that a field selector `metadata.name=…` asks for, or empty.
    pub fn of_request(user: &'a UserInfo, info: &'a RequestInfo, selected_name: &'a str) -> Self {
        if !info.is_resource {
            return Self::of_path(user, &info.verb, &info.path);
        }
        let selects = matches!(info.verb.as_str(), "list" | "watch" | "deletecollection");
        let selector = |key: &str| if selects { info.query.text(key) } else { "" };
        Self {
            user,
            verb: &info.verb,
            namespace: &info.namespace,
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            name: if info.name.is_empty() { selected_name } else { &info.name },
            field_selector: selector("fieldSelector"),
            label_selector: selector("labelSelector"),
            path: None,
            listener: None,
        }
    }

    /// `pods/log`, or `pods`.
    pub fn resource_and_subresource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// Returns 403 that names user, verb and resource; `reason` is the authorizer's, or empty.
    pub fn forbidden(&self, reason: &str) -> Status {
        let what = match self.path {
            Some(path) => format!("User \"{}\" cannot {} path \"{path}\"", self.user.name, self.verb),
            None => {
                let place = match self.namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace \"{namespace}\""),
                };
                format!(
                    "User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {place}",
                    self.user.name,
                    self.verb,
                    self.resource_and_subresource(),
                    self.group
                )
            }
        };
        let why = if reason.is_empty() { what } else { format!("{what}: {reason}") };
        Status::forbidden(self.group, self.resource, self.name, why)
    }
}

/// Decision of one authorizer, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(String),
    /// The next authorizer decides. The reason is part of the answer if all have no opinion.
    NoOpinion(String),
    Deny(String),
}

/// Decision of all authorizers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    /// Errors of authorizers that failed; empty if none did.
    pub error: String,
}

impl Verdict {
    pub fn of(decision: Decision) -> Self {
        Self { decision, error: String::new() }
    }

    pub fn allows(&self) -> bool {
        matches!(self.decision, Decision::Allow(_))
    }

    /// Returns the error for the client unless the action is allowed.
    ///
    /// Deviation: if an authorizer fails and no other one allows, the answer is a Status; Kubernetes answers with a line of text.
    pub fn into_result(self, attributes: &Attributes<'_>) -> Result<(), Status> {
        match self.decision {
            Decision::Allow(_) => Ok(()),
            _ if !self.error.is_empty() => Err(Status::internal(self.error)),
            Decision::NoOpinion(reason) | Decision::Deny(reason) => Err(attributes.forbidden(&reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_are_worded_as_kubernetes_words_them() {
        let ann = UserInfo::new("ann", &[]);
        let pods = Attributes { namespace: "shop", ..Attributes::of_resource(&ann, "list", "", "pods") };
        assert_eq!(
            pods.forbidden("").message,
            r#"pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "shop""#
        );
        let log = Attributes { name: "web", subresource: "log", verb: "get", ..pods.clone() };
        assert_eq!(
            log.forbidden("why").message,
            r#"pods "web" is forbidden: User "ann" cannot get resource "pods/log" in API group "" in the namespace "shop": why"#
        );
        assert_eq!(
            Attributes::of_path(&ann, "get", "/metrics").forbidden("").message,
            r#"forbidden: User "ann" cannot get path "/metrics""#
        );
    }
}
