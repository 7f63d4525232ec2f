//! GET of one object, or of its status or another subresource that shows the whole object.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/get.go.

use super::{Call, present};
use axum::body::Body;
use http::Response;
use proto::Status;
use proto::resources::Target;

pub async fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let version = call.info.query.text("resourceVersion");
    let object = call.server.registry.read_object(target, call.namespace(target), &call.info.name, version).await?;
    call.record.trace_read(1, object.revision);
    present::object(call, target, &form, 200, &object)
}
