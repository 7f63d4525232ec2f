//! POST of an object.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/create.go.

use super::body::{self, Given};
use super::{Call, present};
use axum::body::Body;
use http::Response;
use proto::Status;
use proto::resources::Target;
use strategy::object_meta;

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let given = Given::read(call, &target.served().schema, "CreateOptions", body).await?;
    let mut object = given.object(call, target)?;
    object_meta::wipe_system_fields(&mut object);
    body::place(call, target, &mut object)?;
    let manager = call.manager(&given.options.field_manager);
    let mut mutation = call.mutation(target, &manager, given.options.dry_run, &given.options.given);
    let name = object_meta::text(&object, "name").to_owned();
    mutation.name = &name;
    let written = call.create(&mut mutation, object).await?;
    present::object(call, target, &form, 201, &written.object)
}
