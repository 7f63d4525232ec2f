//! Strict decoding: a tree of a built-in kind becomes what a round trip through Go's types would make of it.
//!
//! Corresponds to sigs.k8s.io/json and `runtime.StrictDecodingError`. Unknown fields go, nulls and empty values go where
//! Go omits them, quantities and times take their canonical form, and what Go always writes is written.

mod custom;
mod fault;
mod place;
mod walk;

use super::{TypeRef, protobuf};
use crate::gvk::Gvk;
use crate::meta::status::Status;
use crate::serializer::depth::TOO_DEEP;
use crate::serializer::document::{Document, Format};
use crate::serializer::outline::{Entry, outline};
use fault::Fault;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use walk::Walk;

/// As many strict errors as Kubernetes collects.
const MAX_STRICT_ERRORS: usize = 100;

/// A decoded object.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// `unknown field "spec.foo"`, `duplicate field "spec.bar"`, in the order of the body.
    pub strict_errors: Vec<String>,
}

/// Why a tree is not of its type, in Go's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

impl DecodeError {
    /// The answer to a body that is not of its kind.
    pub fn to_status(&self, gvk: &Gvk) -> Status {
        cannot_handle(gvk, self)
    }
}

/// `Pod in version "v1" cannot be handled as a Pod: …`
pub fn cannot_handle(gvk: &Gvk, why: impl fmt::Display) -> Status {
    let Gvk { version, kind, .. } = gvk;
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// Strict errors as one error: what `fieldValidation=Strict` answers with.
pub fn strict_error(strict_errors: &[String]) -> String {
    format!("strict decoding error: {}", strict_errors.join(", "))
}

/// Strict errors as warnings: one for each, YAML's taken apart.
pub fn strict_warnings(strict_errors: &[String]) -> Vec<String> {
    let mut warnings = Vec::with_capacity(strict_errors.len());
    for error in strict_errors {
        match error.strip_prefix("yaml: unmarshal errors:\n") {
            Some(lines) => warnings.extend(lines.lines().map(|line| line.trim().to_owned())),
            None => warnings.push(error.clone()),
        }
    }
    warnings
}

/// Decodes a tree that no client wrote as it is: the result of a patch, an object of our own.
pub fn decode(target: &TypeRef, value: Value) -> Result<Decoded, DecodeError> {
    let mut walk = Walk::default();
    let value = walk.top(target, value);
    if let Some(fault) = Fault::first(walk.faults, |_| 0) {
        return Err(DecodeError(fault.message(None)));
    }
    Ok(Decoded { value, strict_errors: limited(walk.unknown.iter().map(|path| unknown_field(path))) })
}

/// Converts a tree, as the result of a strategic merge patch is: never a text, so the first fault ends it, in other
/// words, and unknown fields are sorted.
pub fn convert(target: &TypeRef, value: Value) -> Result<Decoded, DecodeError> {
    let mut walk = Walk::default();
    let value = walk.top(target, value);
    if let Some(fault) = walk.faults.first() {
        return Err(DecodeError(fault.conversion()));
    }
    let mut unknown: Vec<String> = walk.unknown.iter().map(|path| unknown_field(path)).collect();
    unknown.sort_unstable();
    Ok(Decoded { value, strict_errors: limited(unknown.into_iter()) })
}

/// Decodes a body. Its text decides which of several errors is the first, and how numbers are spelt.
pub fn decode_document(target: &TypeRef, document: Document<'_>) -> Result<Decoded, DecodeError> {
    let Document { mut value, duplicates, cut, format, source } = document;
    if format == Format::Protobuf {
        value = protobuf::read(target, &source).map_err(DecodeError)?;
    }
    let mut walk = Walk { notes_opaque: !duplicates.is_empty(), ..Walk::default() };
    let value = walk.top(target, value);
    let is_dropped = |path: &String| walk.unknown.iter().any(|outer| is_within(path, outer));
    if let Some(path) = cut.iter().find(|path| !is_dropped(path)) {
        walk.faults.push(Fault::own(path.clone(), TOO_DEEP.to_owned()).stopping());
    }
    if walk.faults.is_empty() && walk.unknown.is_empty() && duplicates.is_empty() {
        return Ok(Decoded { value, strict_errors: Vec::new() });
    }
    let entries = if format == Format::Json { outline(&source) } else { Vec::new() };
    let order = Order::new(&entries);
    if let Some(fault) = Fault::first(walk.faults, |path| order.first(path)) {
        return Err(DecodeError(fault.message(order.number(fault.path()))));
    }
    let strict_errors = match format {
        Format::Yaml => limited(duplicates.into_iter().chain(walk.unknown.iter().map(|path| unknown_field(path)))),
        Format::Json | Format::Protobuf => in_order(&order, &duplicates, &walk.unknown, &walk.opaque),
    };
    Ok(Decoded { value, strict_errors })
}

/// Unknown and duplicate fields in the order of the body. Nothing inside an unknown field or a part without a
/// schema counts as duplicate.
fn in_order(order: &Order<'_>, duplicates: &[String], unknown: &[String], opaque: &[String]) -> Vec<String> {
    let is_hidden = |path: &str| {
        unknown.iter().any(|outer| is_within(path, outer))
            || opaque.iter().any(|outer| path != outer && is_within(path, outer))
    };
    let mut found: Vec<(usize, String)> = unknown.iter().map(|path| (order.first(path), unknown_field(path))).collect();
    for path in duplicates.iter().filter(|path| !is_hidden(path)) {
        found.push((order.second(path), format!("duplicate field {path:?}")));
    }
    found.sort_by_key(|(at, _)| *at);
    limited(found.into_iter().map(|(_, error)| error))
}

fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn unknown_field(path: &str) -> String {
    format!("unknown field {path:?}")
}

fn limited(errors: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for error in errors {
        if distinct.len() == MAX_STRICT_ERRORS {
            break;
        }
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    distinct
}

/// Where paths stand in a body.
struct Order<'a> {
    places: BTreeMap<&'a str, Vec<usize>>,
    entries: &'a [Entry],
}

impl<'a> Order<'a> {
    fn new(entries: &'a [Entry]) -> Self {
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            places.entry(&entry.path).or_default().push(at);
        }
        Self { places, entries }
    }

    fn nth(&self, path: &str, n: usize) -> usize {
        self.places.get(path).and_then(|places| places.get(n)).copied().unwrap_or(0)
    }

    fn first(&self, path: &str) -> usize {
        self.nth(path, 0)
    }

    fn second(&self, path: &str) -> usize {
        self.nth(path, 1)
    }

    /// The spelling of the number at a path; the last one, if the key is repeated.
    fn number(&self, path: &str) -> Option<&'a str> {
        let at = *self.places.get(path)?.last()?;
        self.entries[at].number.as_deref()
    }
}

impl Walk {
    fn top(&mut self, target: &TypeRef, value: Value) -> Value {
        let mut value = if value.is_null() { Value::Object(Map::new()) } else { value };
        match target.structural() {
            Some(schema) => self.custom(schema, &mut value),
            None => self.reference(target, &mut value, &place::Place::root()),
        }
        value
    }
}

#[cfg(test)]
mod tests;
