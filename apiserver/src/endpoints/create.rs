//! POST of an object.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/create.go.

use super::body::{self, RequestBody};
use super::{Call, present};
use axum::body::Body;
use http::Response;
use proto::Status;
use proto::resources::Target;
use strategy::object_meta;

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let request = RequestBody::read(call, &target.served().schema, "CreateOptions", body).await?;
    let mut object = request.object(call, target)?;
    object_meta::wipe_system_fields(&mut object);
    body::set_namespace(call, target, &mut object)?;
    let manager = call.manager(&request.options.field_manager);
    let mut mutation = call.mutation(target, &manager, request.options.dry_run, &request.options.given);
    let name = object_meta::text(&object, "name").to_owned();
    mutation.name = &name;
    let written = call.create(&mut mutation, object).await?;
    present::object(call, target, &form, 201, &written.object)
}
