//! DELETE of one object, and of a collection.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/delete.go.

use super::{Call, list, present};
use crate::answer;
use crate::audit::Record;
use crate::media::{self, Form, Transform};
use crate::registry::deletion::Deleted;
use crate::registry::read::{Listed, Selection};
use crate::request::body::read;
use crate::request::options::{DeleteOptions, ListOptions};
use axum::body::Body;
use http::Response;
use proto::Status;
use proto::resources::Target;
use proto::schema::{builtin_type, decode_document};
use proto::wire::document::{Document, Format};
use serde_json::Value;

pub async fn one(call: &Call<'_>, target: &Target, body: Body, record: &mut Record) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let options = options(call, body).await?;
    let mut mutation = call.mutation(target, "", options.dry_run, &options.given);
    let deleted = call.server.registry.delete(&mut mutation, &options).await?;
    let warnings = std::mem::take(&mut mutation.warnings);
    let row = call.server.registry.row(&target.row)?;
    let mut response = match &deleted {
        Deleted::Pending(object) => {
            record.stored(call.server, object);
            let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
            present::object(call, target, &form, code, object, true)?
        }
        Deleted::Gone(object) => {
            record.stored(call.server, object);
            if row.returns_deleted() {
                present::object(call, target, &form, 200, object, true)?
            } else {
                let served = target.served();
                let status = Status::deleted(&served.group, &served.resource, &call.info.name, &object.index.uid);
                answer::status(&Form { transform: Transform::Whole, ..form }, &status)
            }
        }
    };
    answer::add_warnings(response.headers_mut(), &warnings);
    Ok(response)
}

/// Deletes everything that the selectors choose, one by one; answers with what was there.
pub async fn collection(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let list_options = ListOptions::read(&call.info.query, false)?;
    let options = options(call, body).await?;
    let selection = Selection::of(target, call.namespace(target), None, &list_options)?;
    let registry = &call.server.registry;
    let mut listed = registry.read_list(target, &selection, &list_options).await?;
    let mut left = Vec::with_capacity(listed.objects.len());
    for object in &listed.objects {
        let mut mutation = call.mutation(target, "", options.dry_run, &options.given);
        mutation.namespace = &object.index.namespace;
        mutation.name = &object.index.name;
        match registry.delete(&mut mutation, &options).await {
            Ok(Deleted::Gone(last) | Deleted::Pending(last)) => left.push(last),
            // Somebody else deleted it meanwhile.
            Err(gone) if gone.reason == "NotFound" => left.push(object.clone()),
            Err(status) => return Err(status),
        }
    }
    listed.objects = left;
    let Listed { objects, revision, continue_token, remaining } = listed;
    list::respond(call, target, &form, Listed { objects, revision, continue_token, remaining })
}

/// DeleteOptions of the body, or of the query where there is none.
async fn options(call: &Call<'_>, body: Body) -> Result<DeleteOptions, Status> {
    let bytes = read(body).await?;
    if bytes.is_empty() {
        return DeleteOptions::read(&call.info.query, None);
    }
    let format = media::format_of_body(call.headers(), true)?;
    let document = Document::parse(format, &bytes).map_err(Status::bad_request)?;
    let value = match format {
        Format::Protobuf => {
            let options = builtin_type("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
            decode_document(&options, document).map_err(|error| Status::bad_request(error.to_string()))?.value
        }
        Format::Json | Format::Yaml => document.value,
    };
    let body = Some(value).filter(|value| *value != Value::Null);
    DeleteOptions::read(&call.info.query, body)
}
