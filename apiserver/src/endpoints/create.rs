//! POST of an object.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/create.go.

use super::{Call, body, present};
use crate::answer;
use crate::audit::Record;
use crate::request::body::read;
use crate::request::options::WriteOptions;
use axum::body::Body;
use http::Response;
use proto::Status;
use proto::resources::Target;

pub async fn answer(
    call: &Call<'_>,
    target: &Target,
    body: Body,
    record: &mut Record,
) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let bytes = read(body).await?;
    let options = WriteOptions::read(&call.info.query, "CreateOptions", false)?;
    let body::Read { mut object, warnings } = body::object(call, target, &bytes, options.field_validation)?;
    body::place(call, target, &mut object)?;
    let manager = call.manager(&options.field_manager);
    let mut mutation = call.mutation(target, &manager, options.dry_run, &options.given);
    let name = crate::registry::object_meta::text(&object, "name").to_owned();
    mutation.name = &name;
    let written = call.server.registry.create(&mut mutation, object).await?;
    record.stored(call.server, &written.object);
    let mut response = present::object(call, target, &form, 201, &written.object, written.has_revision)?;
    let warnings: Vec<String> = warnings.into_iter().chain(mutation.warnings).collect();
    answer::add_warnings(response.headers_mut(), &warnings);
    Ok(response)
}
