//! `Constraint`: attributes that the devices of a claim must have in common, or must not.
//!
//! Corresponds to matchAttributeConstraint and distinctAttributeConstraint of the structured allocator.

use crate::device::Device;
use crate::request::Request;
use proto::kinds::api::resource::v1::{DeviceAttribute, DeviceConstraint};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// All devices have the same value.
    Match,
    /// Every device has another value.
    Distinct,
}

/// A constraint, and the values of the devices that the search has chosen so far. Once a device violates it, more devices
/// cannot mend that, so the search may stop early.
#[derive(Debug)]
pub struct Constraint<'a> {
    rule: Rule,
    /// Domain and identifier.
    attribute: &'a str,
    requests: &'a [String],
    values: Vec<Scalar>,
}

#[derive(Clone, Debug, PartialEq)]
enum Scalar {
    Bool(bool),
    Int(i64),
    String(String),
    /// Versions are equal if their texts are: a valid one has no leading zeros.
    Version(String),
}

impl<'a> Constraint<'a> {
    /// Returns the constraint; `None` if it is of a kind that is unknown here.
    pub fn new(constraint: &'a DeviceConstraint) -> Option<Self> {
        let (rule, attribute) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => (Rule::Match, attribute),
            (None, Some(attribute)) => (Rule::Distinct, attribute),
            (None, None) => return None,
        };
        let requests = constraint.requests.as_deref().unwrap_or_default();
        Some(Self { rule, attribute, requests, values: Vec::new() })
    }

    pub fn admits(&self, request: &Request<'_>, device: &Device) -> bool {
        if !request.is_among(self.requests) {
            return true;
        }
        let Some(value) = attribute(device, self.attribute) else { return false };
        match self.rule {
            Rule::Match => self.values.first().is_none_or(|first| *first == value),
            Rule::Distinct => !self.values.contains(&value),
        }
    }

    /// Adds a device that the constraint admits.
    pub fn add(&mut self, request: &Request<'_>, device: &Device) {
        if request.is_among(self.requests) {
            self.values.extend(attribute(device, self.attribute));
        }
    }

    /// Removes the device that was added last.
    pub fn remove(&mut self, request: &Request<'_>) {
        if request.is_among(self.requests) {
            self.values.pop();
        }
    }
}

/// Returns an attribute by its full name. A device may leave out the domain of its own driver.
fn attribute(device: &Device, full_name: &str) -> Option<Scalar> {
    let attributes = device.spec().attributes.as_ref()?;
    let found = attributes.get(full_name).or_else(|| {
        let (domain, identifier) = full_name.split_once('/')?;
        attributes.get(identifier).filter(|_| domain == &*device.id.driver)
    })?;
    scalar(found)
}

fn scalar(attribute: &DeviceAttribute) -> Option<Scalar> {
    let string = attribute.string.clone().map(Scalar::String);
    let number = || attribute.int.map(Scalar::Int).or(attribute.bool.map(Scalar::Bool));
    string.or_else(number).or_else(|| attribute.version.clone().map(Scalar::Version))
}
