//! `WriteContext`: what strategies and validation know of a write beside its objects.
//!
//! Corresponds to the context and the RequestInfo that the strategies of k8s.io/apiserver/pkg/registry/rest are given.

use component_base::rng::Random;
use jiff::Timestamp;
use proto::Status;
use proto::meta::status::FieldError;
use proto::resources::{Resource, Served};
use request::UserInfo;

/// What is known of a write, whatever its verb.
pub struct WriteContext<'a> {
    pub user: &'a UserInfo,
    pub row: &'a Resource,
    /// The version that the request speaks; error messages name the row's storage version's kind.
    pub served: &'a Served,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Empty until a generated name is known.
    pub name: &'a str,
    /// `status`, `scale`, …; empty for the object itself.
    pub subresource: &'a str,
    pub dry_run: bool,
    pub now: Timestamp,
    pub random: &'a Random,
    /// Collected for the answer's `Warning` headers.
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

    /// The 422 that lists every error.
    pub fn invalid(&self, name: &str, errors: &[FieldError]) -> Status {
        Status::invalid(self.group(), self.kind(), name, errors)
    }
}
