//! PUT of an object, or of its status.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/update.go.

use super::{Call, body, present};
use crate::answer;
use crate::audit::Record;
use crate::registry::mutation::Replace;
use crate::registry::object_meta;
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
    let options = WriteOptions::read(&call.info.query, "UpdateOptions", false)?;
    let body::Read { mut object, warnings } = body::object(call, target, &bytes, options.field_validation)?;
    body::check_name(call, target, &object)?;
    body::place(call, target, &mut object)?;
    let manager = call.manager(&options.field_manager);
    let mut mutation = call.mutation(target, &manager, options.dry_run, &options.given);
    let uid = Some(object_meta::text(&object, "uid").to_owned()).filter(|uid| !uid.is_empty());
    let written = call.server.registry.update(&mut mutation, &Replace { body: object, uid }).await?;
    record.stored(call.server, &written.object);
    let code = if written.created { 201 } else { 200 };
    let mut response = present::object(call, target, &form, code, &written.object, written.has_revision)?;
    let warnings: Vec<String> = warnings.into_iter().chain(mutation.warnings).collect();
    answer::add_warnings(response.headers_mut(), &warnings);
    Ok(response)
}
