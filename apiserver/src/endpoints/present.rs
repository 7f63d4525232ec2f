//! Responses that show an object, a Scale or a review: in the version, the form and the encoding that the client asks for.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/response.go.

use super::{Call, body};
use crate::answer;
use crate::media::{Form, Transform};
use axum::body::Body;
use bytes::Bytes;
use http::Response;
use proto::resources::{Column, Target};
use proto::wire::shown::{self, MetaVersion};
use proto::wire::table::{ColumnDefinitions, IncludeObject, Table};
use proto::{Object, Status};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Builds the response of a stored object, which may be a table or metadata.
pub fn object(
    call: &Call<'_>,
    target: &Target,
    form: &Form,
    code: u16,
    object: &Arc<Object>,
) -> Result<Response<Body>, Status> {
    let slices = match form.transform {
        Transform::Whole => shown::whole(target, object),
        Transform::Metadata(version) => {
            let mut out = Vec::with_capacity(512);
            shown::write_metadata(&mut out, target, object, version);
            vec![Bytes::from(out)]
        }
        Transform::MetadataList(_) => return Err(not_a_list(&go_type(target, ""))),
        Transform::Table(version) => {
            vec![Bytes::from(table(call, target, version)?.single(object, ColumnDefinitions::Included))]
        }
    };
    let gzip = call.info.verb == "get" && call.accepts_gzip();
    Ok(answer::compressed(code, form.encoding.media_type(), answer::reencode(form, &slices), gzip))
}

/// Builds the response of a stored object's Scale; `columns` are those of its table.
pub fn scale(
    call: &Call<'_>,
    target: &Target,
    form: &Form,
    value: Value,
    revision: u64,
    columns: Option<Vec<Column>>,
) -> Result<Response<Body>, Status> {
    let object = || Arc::new(Object::from_value(value.clone(), revision, BTreeMap::new()));
    let shown = match (form.transform, columns) {
        (Transform::Table(version), Some(columns)) => {
            table(call, target, version)?.with_columns(columns).single(&object(), ColumnDefinitions::Included)
        }
        (Transform::Metadata(version), _) => {
            let mut out = Vec::with_capacity(512);
            shown::write_metadata(&mut out, target, &object(), version);
            out
        }
        (Transform::MetadataList(_), _) => return Err(not_a_list("*autoscaling.Scale")),
        _ => return Ok(unstored(form, 200, &value)),
    };
    Ok(answer::response(200, form.encoding.media_type(), answer::reencode(form, &[shown.into()])))
}

/// Builds the 406 for a client that asks for the metadata list of one object.
fn not_a_list(go_type: &str) -> Status {
    let message = "you requested PartialObjectMetadataList, but the requested object is not a list";
    Status::failure(406, "NotAcceptable", format!("{message} ({go_type})"))
}

/// Builds the 406 for a client that asks for the metadata of a list as if it were one object.
pub fn not_an_object(target: &Target) -> Status {
    let message = "you requested PartialObjectMetadata, but the requested object is a list";
    Status::failure(406, "NotAcceptable", format!("{message} ({})", go_type(target, "List")))
}

/// Returns the Go type of a kind, which these messages name, such as `*core.Pod`.
fn go_type(target: &Target, suffix: &str) -> String {
    let served = target.served();
    if !served.schema.is_builtin() {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let package = body::internal_package(&served.group);
    format!("*{package}.{}{suffix}", served.kind)
}

/// Returns the writer of this request's tables.
pub fn table<'a>(call: &Call<'_>, target: &'a Target, version: MetaVersion) -> Result<Table<'a>, Status> {
    let include = IncludeObject::parse(call.info.query.text("includeObject"))?;
    Ok(Table::new(target, version, include, call.server.env.wall().as_second()))
}

/// Builds the response of an object that is not stored, such as a review.
pub fn unstored(form: &Form, code: u16, value: &Value) -> Response<Body> {
    answer::value(form, code, value)
}
