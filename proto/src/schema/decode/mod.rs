//! Strict decoding: turns a tree of a built-in kind into the result of a round trip through Go's types.
//!
//! Corresponds to sigs.k8s.io/json and `runtime.StrictDecodingError`. Decoding removes unknown fields and the nulls and
//! empty values that Go omits, adds the fields that Go always writes, and makes quantities and times canonical.

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

/// Limit on the number of strict errors, as in Kubernetes.
const MAX_STRICT_ERRORS: usize = 100;

/// A decoded object.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// `unknown field "spec.foo"`, `duplicate field "spec.bar"`, in the order of the body.
    pub strict_errors: Vec<String>,
}

/// The reason why a tree is not of its type, in Go's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

impl DecodeError {
    /// Returns the answer to a body that cannot be decoded as its kind.
    pub fn to_status(&self, gvk: &Gvk) -> Status {
        cannot_handle(gvk, self)
    }
}

/// Builds the error `Pod in version "v1" cannot be handled as a Pod: …`.
pub fn cannot_handle(gvk: &Gvk, why: impl fmt::Display) -> Status {
    let Gvk { version, kind, .. } = gvk;
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// Joins strict errors into the one error of `fieldValidation=Strict`.
pub fn strict_error(strict_errors: &[String]) -> String {
    format!("strict decoding error: {}", strict_errors.join(", "))
}

/// Turns strict errors into warnings, one for each. The error of the YAML parser becomes one warning per line.
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

/// Decodes a tree that no client wrote as text: the result of a patch, or an object that the server builds itself.
pub fn decode(target: &TypeRef, value: Value) -> Result<Decoded, DecodeError> {
    let mut walk = Walk::default();
    let value = walk.top(target, value);
    if let Some(fault) = Fault::first(walk.faults, |_| 0) {
        return Err(DecodeError(fault.message(None)));
    }
    Ok(Decoded { value, strict_errors: limited(walk.unknown.iter().map(|path| unknown_field(path))) })
}

/// Converts a tree as Kubernetes converts the result of a strategic merge patch: the first fault is the error, with
/// other words than in decoding, and unknown fields are sorted.
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

/// Decodes a body. The text of the body gives the order of errors and the spelling of numbers.
pub fn decode_document(target: &TypeRef, document: Document<'_>) -> Result<Decoded, DecodeError> {
    let Document { mut value, duplicates, cut, format, source } = document;
    if format == Format::Protobuf {
        value = protobuf::read(target, &source).map_err(DecodeError)?;
    }
    let mut walk = Walk { notes_opaque: !duplicates.is_empty(), ..Walk::default() };
    let value = walk.top(target, value);
    let is_dropped = |path: &String| walk.unknown.iter().any(|outer| is_within(path, outer));
    if let Some(path) = cut.iter().find(|path| !is_dropped(path)) {
        walk.faults.push(Fault::with_message(path.clone(), TOO_DEEP.to_owned()).stopping());
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

/// Returns unknown and duplicate fields in the order of the body. Ignores duplicates inside unknown fields and inside
/// parts without a schema.
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

/// The positions of paths in a body.
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

    /// Returns the spelling of the number at a path. If the key is repeated, the last one counts.
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
