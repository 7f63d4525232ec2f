//! `Event`: the audit record of one request at one of its stages.
//!
//! Corresponds to audit.k8s.io/v1 Event and k8s.io/apiserver/pkg/audit/request.go.

use super::policy::{Level, Stage};
use component_base::network::ConnectionInfo;
use http::HeaderMap;
use http::request::Parts;
use jiff::Timestamp;
use request::UserInfo;
use request::info::RequestInfo;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Limit of the user agent. A longer one is truncated.
const MAX_USER_AGENT_BYTES: usize = 1024;
const TRUNCATED: &str = "...TRUNCATED";

/// An Event of audit.k8s.io/v1.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    kind: &'static str,
    api_version: &'static str,
    pub level: Level,
    #[serde(rename = "auditID")]
    audit_id: String,
    pub stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    pub user: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonated_user: Option<Value>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_ref: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The object that a request is about.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

impl ObjectRef {
    fn of(info: &RequestInfo) -> Self {
        Self {
            resource: info.resource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            api_group: info.group.clone(),
            api_version: info.version.clone(),
            subresource: info.subresource.clone(),
            ..Self::default()
        }
    }

    /// Fills the fields that the URL does not name from the object.
    pub fn complete(&mut self, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        for (field, key) in [
            (&mut self.namespace, "namespace"),
            (&mut self.name, "name"),
            (&mut self.uid, "uid"),
            (&mut self.resource_version, "resourceVersion"),
        ] {
            if field.is_empty() {
                *field = text(key);
            }
        }
    }

    /// Sets the name of a created object, unless it is known.
    pub fn name_if_unknown(&mut self, name: &str) {
        if self.name.is_empty() {
            name.clone_into(&mut self.name);
        }
    }
}

impl Event {
    /// Makes the event of a request that has just arrived.
    pub fn received(
        level: Level,
        audit_id: &str,
        parts: &Parts,
        info: &RequestInfo,
        user: Option<&UserInfo>,
        at: Timestamp,
    ) -> Self {
        let agent = parts.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let connection = parts.extensions.get::<ConnectionInfo>();
        Self {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level,
            audit_id: audit_id.to_owned(),
            stage: Stage::RequestReceived,
            request_uri: parts.uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned(),
            verb: info.verb.clone(),
            user: user.map_or_else(|| json!({}), UserInfo::to_value),
            impersonated_user: None,
            source_ips: source_ips(&parts.headers, connection.map(|connection| connection.remote_address.ip())),
            user_agent: cut(agent),
            object_ref: info.is_resource.then(|| ObjectRef::of(info)),
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: micros(at),
            stage_timestamp: micros(at),
            annotations: BTreeMap::new(),
        }
    }

    /// Returns the event at another stage.
    pub fn at(&self, stage: Stage, at: Timestamp) -> Self {
        Self { stage, stage_timestamp: micros(at), ..self.clone() }
    }
}

fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn cut(agent: &str) -> String {
    // Header values that are text are ASCII.
    if agent.len() > MAX_USER_AGENT_BYTES {
        format!("{}{TRUNCATED}", &agent[..MAX_USER_AGENT_BYTES])
    } else {
        agent.to_owned()
    }
}

/// Returns the addresses in the headers of proxies, and the address of the connection last.
fn source_ips(headers: &HeaderMap, remote: Option<IpAddr>) -> Vec<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut ips: Vec<IpAddr> = text("x-forwarded-for").split(',').filter_map(|ip| ip.trim().parse().ok()).collect();
    let real = text("x-real-ip").trim().parse().ok();
    for further in [real, remote].into_iter().flatten() {
        if ips.last() != Some(&further) {
            ips.push(further);
        }
    }
    ips.iter().map(IpAddr::to_string).collect()
}

/// Removes `managedFields` from an object, or from the items of a list.
pub fn without_managed_fields(mut object: Value) -> Value {
    let forget = |object: &mut Value| {
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
        }
    };
    forget(&mut object);
    object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten().for_each(forget);
    object
}

/// Returns the `responseStatus`: the code, and the fields of a Status that are of limited size.
pub fn response_status(code: u16, body: Option<&Value>) -> Value {
    let mut status = json!({"metadata": {}, "code": code});
    if let Some(body) = body.filter(|body| body["kind"] == "Status" && body["apiVersion"] == "v1") {
        for key in ["status", "message", "reason", "details"] {
            if let Some(value) = body.get(key) {
                status[key] = value.clone();
            }
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_way_and_the_sender() {
        let remote = "10.0.0.9".parse().ok();
        let of = |pairs: &[(&'static str, &str)]| {
            let headers =
                pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
            source_ips(&headers.collect(), remote).join(" ")
        };
        assert_eq!(of(&[]), "10.0.0.9");
        assert_eq!(of(&[("x-forwarded-for", "1.2.3.4, 10.0.0.9")]), "1.2.3.4 10.0.0.9");
        assert_eq!(of(&[("x-forwarded-for", "1.2.3.4,bad"), ("x-real-ip", "::1")]), "1.2.3.4 ::1 10.0.0.9");
    }

    #[test]
    fn managed_fields_are_left_out_of_objects_and_lists() {
        let object = json!({"metadata": {"name": "a", "managedFields": [{}]}});
        let bare = json!({"metadata": {"name": "a"}});
        assert_eq!(without_managed_fields(object.clone()), bare);
        assert_eq!(without_managed_fields(json!({"items": [object]})), json!({"items": [bare]}));
    }

    #[test]
    fn a_status_keeps_what_is_bounded() {
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {"continue": "x"}, "status": "Failure", "reason": "NotFound", "code": 404});
        let status = json!({"metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404});
        assert_eq!(response_status(404, Some(&body)), status);
        assert_eq!(response_status(200, Some(&json!({"kind": "Pod"}))), json!({"metadata": {}, "code": 200}));
    }
}
