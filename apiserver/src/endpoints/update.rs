//! PUT of an object, or of its status or another subresource that shows the whole object.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/update.go.

use super::body::{self, RequestBody};
use super::{Call, present};
use axum::body::Body;
use http::Response;
use proto::Status;
use proto::resources::Target;
use registry::mutation::Replace;
use strategy::object_meta;

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let request = RequestBody::read(call, &target.served().schema, "UpdateOptions", body).await?;
    let mut object = request.object(call, target)?;
    body::check_name(call, target, &object)?;
    body::set_namespace(call, target, &mut object)?;
    let manager = call.manager(&request.options.field_manager);
    let mut mutation = call.mutation(target, &manager, request.options.dry_run, &request.options.given);
    let uid = Some(object_meta::text(&object, "uid").to_owned()).filter(|uid| !uid.is_empty());
    let written = call.update(&mut mutation, &Replace { body: object, uid }).await?;
    present::object(call, target, &form, written.code(), &written.object)
}
