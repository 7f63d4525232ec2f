//! Tables: what `kubectl get` prints, made by the server.
//!
//! Corresponds to meta.k8s.io Table and k8s.io/apiserver/pkg/endpoints/handlers/response.go asTable.

use super::encode;
use crate::media::MetaVersion;
use crate::request::info::RequestInfo;
use bytes::Bytes;
use proto::resources::{Cell, Column, Target, columns};
use proto::{Object, Status};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::Write;

/// What each row carries beside its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    Nothing,
    #[default]
    Metadata,
    Object,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub version: MetaVersion,
    pub include: Include,
}

impl Options {
    pub fn of(info: &RequestInfo, version: MetaVersion) -> Result<Self, Status> {
        let include = match info.query.text("includeObject") {
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            "None" => Include::Nothing,
            other => {
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                     'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        Ok(Self { version, include })
    }
}

/// The table's own metadata.
#[derive(Debug, Default)]
pub struct Head {
    pub revision: Option<u64>,
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
}

/// `metadata` of a list or table.
pub fn list_meta(head: &Head) -> Value {
    let mut meta = json!({});
    if let Some(revision) = head.revision {
        meta["resourceVersion"] = json!(revision.to_string());
    }
    if let Some(token) = &head.continue_token {
        meta["continue"] = json!(token);
    }
    if let Some(remaining) = head.remaining {
        meta["remainingItemCount"] = json!(remaining);
    }
    meta
}

/// Writes a whole table. Later events of a watch leave out the columns.
pub fn write(
    out: &mut Vec<u8>,
    target: &Target,
    options: &Options,
    head: &Head,
    with_columns: bool,
    objects: &[&Object],
    now_s: i64,
) {
    let columns = columns_of(target);
    let definitions = if with_columns { columns.iter().map(definition).collect() } else { Value::Null };
    let api_version = options.version.api_version();
    let meta = list_meta(head);
    let head = format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"{api_version}\",\"metadata\":{meta},\"columnDefinitions\":{definitions},\"rows\":["
    );
    out.extend_from_slice(head.as_bytes());
    for (i, object) in objects.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_row(out, target, options, &columns, object, now_s);
    }
    out.extend_from_slice(b"]}");
}

fn columns_of(target: &Target) -> Cow<'_, [Column]> {
    match target.served().columns.as_slice() {
        [] => Cow::Owned(columns::default_columns()),
        columns => Cow::Borrowed(columns),
    }
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

fn write_row(out: &mut Vec<u8>, target: &Target, options: &Options, columns: &[Column], object: &Object, now_s: i64) {
    let value = object.value();
    let cells: Vec<Value> = columns
        .iter()
        .map(|column| match &column.cell {
            Cell::Of(cell) => cell(&value, now_s),
            Cell::JsonPath(_) => Value::Null,
        })
        .collect();
    write!(out, "{{\"cells\":{}", json!(cells)).expect("writing to memory cannot fail");
    let conditions = target.served().row_conditions.map(|conditions| conditions(&value)).unwrap_or_default();
    if !conditions.is_empty() {
        write!(out, ",\"conditions\":{}", json!(conditions)).expect("writing to memory cannot fail");
    }
    out.extend_from_slice(b",\"object\":");
    match options.include {
        Include::Nothing => out.extend_from_slice(b"null"),
        Include::Metadata => {
            let meta = encode::metadata(object, options.version.api_version(), "PartialObjectMetadata");
            out.extend_from_slice(&meta);
        }
        Include::Object => encode::wire(target, object, true).iter().for_each(|s: &Bytes| out.extend_from_slice(s)),
    }
    out.push(b'}');
}
