//! Builds the AdmissionRequest of a write, which webhooks receive and which is `request` in expressions.
//!
//! Corresponds to admission.k8s.io/v1 and k8s.io/apiserver/pkg/admission/plugin/webhook/request.

use crate::{Attributes, Operation};
use proto::Gvr;
use proto::gvk::Gvk;
use proto::resources::Served;
use serde_json::{Value, json};

/// Returns the kind of the request's object. A subresource may have a kind of its own.
pub fn kind_of(served: &Served, subresource: &str) -> Gvk {
    match served.subresource(subresource).and_then(|known| known.kind.as_ref()) {
        Some((group, version, kind)) => Gvk::new(group.as_ref(), version.as_ref(), kind.as_ref()),
        None => served.gvk(),
    }
}

/// Tells whether the objects are of the resource itself, and not the body of a subresource with a kind of its own, which
/// has no other versions.
pub fn is_of_resource(served: &Served, subresource: &str) -> bool {
    served.subresource(subresource).is_none_or(|known| known.kind.is_none())
}

fn kind(gvk: &Gvk) -> Value {
    json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind})
}

fn resource(gvr: &Gvr) -> Value {
    json!({"group": gvr.group, "version": gvr.version, "resource": gvr.resource})
}

/// Returns the options with the kind of the operation, whatever verb the request used. `CONNECT` has none.
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

/// Returns the AdmissionRequest without objects and uid. `matched` is the version of the objects.
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
