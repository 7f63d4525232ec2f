//! The AdmissionRequest: what webhooks are sent of a write, and what expressions call `request`.
//!
//! Corresponds to admission.k8s.io/v1 and k8s.io/apiserver/pkg/admission/plugin/webhook/request.

use crate::{Attributes, Operation};
use proto::Gvr;
use proto::gvk::Gvk;
use proto::resources::Served;
use serde_json::{Value, json};

/// What the object of a request is: with a subresource, perhaps something of its own.
pub fn kind_of(served: &Served, subresource: &str) -> Gvk {
    match served.subresource(subresource).and_then(|known| known.kind.as_ref()) {
        Some((group, version, kind)) => Gvk::new(group.as_ref(), version.as_ref(), kind.as_ref()),
        None => served.gvk(),
    }
}

/// Whether the objects are of the resource itself. The body of a subresource may be a kind of its own, without versions.
pub fn is_of_resource(served: &Served, subresource: &str) -> bool {
    served.subresource(subresource).is_none_or(|known| known.kind.is_none())
}

fn kind(gvk: &Gvk) -> Value {
    json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind})
}

fn resource(gvr: &Gvr) -> Value {
    json!({"group": gvr.group, "version": gvr.version, "resource": gvr.resource})
}

/// Whatever a request did it by, its options are those of the operation. A connection has none.
fn options(attributes: &Attributes<'_>) -> Value {
    let kind = match attributes.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut options = attributes.options.clone();
    if let Some(fields) = options.as_object_mut() {
        fields.insert("kind".to_owned(), json!(kind));
        fields.insert("apiVersion".to_owned(), json!("meta.k8s.io/v1"));
        fields.remove("force");
    }
    options
}

/// Without its objects and its uid; `matched` is the version in which they are shown.
pub fn request(attributes: &Attributes<'_>, matched: &Served) -> Value {
    let subresource = attributes.subresource;
    let mut request = json!({
        "kind": kind(&kind_of(matched, subresource)),
        "resource": resource(&matched.gvr()),
        "requestKind": kind(&kind_of(attributes.served, subresource)),
        "requestResource": resource(&attributes.gvr()),
        "operation": attributes.operation.as_str(),
        "userInfo": attributes.user.to_value(),
        "dryRun": attributes.dry_run,
        "options": options(attributes),
    });
    let texts = [
        ("subResource", subresource),
        ("requestSubResource", subresource),
        ("name", attributes.object_name()),
        ("namespace", attributes.namespace_name()),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        request[key] = json!(text);
    }
    request
}
