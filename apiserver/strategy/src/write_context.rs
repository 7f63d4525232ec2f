//! `WriteContext`: the facts about a write that strategies and validation need beside its objects.
//!
//! Corresponds to the context and the RequestInfo that k8s.io/apiserver/pkg/registry/rest passes to its strategies.

use crate::gates::Gates;
use component_base::rng::Random;
use jiff::Timestamp;
use proto::Status;
use proto::meta::status::FieldError;
use proto::resources::{Resource, Served};
use request::UserInfo;

/// The facts about a write, of any verb.
pub struct WriteContext<'a> {
    pub user: &'a UserInfo,
    pub row: &'a Resource,
    /// The API version of the request. Error messages name the kind of the storage version.
    pub served: &'a Served,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Empty until the name of `generateName` is drawn.
    pub name: &'a str,
    /// `status`, `scale`, …; empty for the object itself.
    pub subresource: &'a str,
    pub dry_run: bool,
    pub now: Timestamp,
    pub random: &'a Random,
    pub gates: &'a Gates,
    /// Collected for the `Warning` headers of the answer.
    pub warnings: Vec<String>,
}

impl WriteContext<'_> {
    pub fn group(&self) -> &str {
        &self.row.storage_version().group
    }

    pub fn resource(&self) -> &str {
        &self.row.storage_version().resource
    }

    pub fn kind(&self) -> &str {
        &self.row.storage_version().kind
    }

    /// Returns the status 422 that lists every error.
    pub fn invalid(&self, name: &str, errors: &[FieldError]) -> Status {
        Status::invalid(self.group(), self.kind(), name, errors)
    }
}
