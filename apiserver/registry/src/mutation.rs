//! `Mutation`: the request of one write, how it changes the object, and its result.
//!
//! Corresponds to the request scope and options that handlers hand to k8s.io/apiserver/pkg/registry/rest.

use super::{Error, Result};
use patch::apply::conversions::Conversions;
use proto::resources::{Served, Target};
use proto::{Object, Status};
use request::UserInfo;
use request::trace::Steps;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// One write: its object, its user and its options.
pub struct Mutation<'a> {
    pub target: &'a Target,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Empty for a creation, whose body names the object.
    pub name: &'a str,
    /// Empty for a write to the object itself.
    pub subresource: &'a str,
    pub user: &'a UserInfo,
    pub dry_run: bool,
    /// How admission treats this write.
    pub admission: Admission,
    /// When the client's request times out.
    pub deadline: Option<Instant>,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, for admission.
    pub options: &'a Value,
    /// The field manager, which owns the fields that this write sets.
    pub manager: &'a str,
    /// Collected for the answer's `Warning` headers.
    pub warnings: Vec<String>,
    /// Collected for the audit log.
    pub annotations: BTreeMap<String, String>,
    /// Recorder of the write's steps, when the request is traced.
    pub steps: Option<&'a Steps>,
}

/// How admission treats a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Admission sees the write and the object's name.
    Named,
    /// Admission sees no name: the request deletes a collection and names no object.
    Unnamed,
    /// Admission is skipped: the write is part of an action that has already been admitted.
    Skipped,
}

impl Mutation<'_> {
    pub fn served(&self) -> &Served {
        self.target.served()
    }

    /// Returns 404, with the group and resource of the request as in Kubernetes.
    pub fn not_found(&self) -> Error {
        Error::NotFound(Status::not_found(&self.served().group, &self.served().resource, self.name))
    }

    pub fn already_exists(&self, name: &str) -> Status {
        Status::already_exists(&self.served().group, &self.served().resource, name)
    }

    /// Returns 409 for an object with a `generateName`: every generated name, or the name given beside it, is taken.
    pub fn generated_name_taken(&self, name: &str) -> Status {
        let mut status = self.already_exists(name);
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status.details.get_or_insert_default().retry_after_seconds = Some(1);
        status
    }

    pub fn conflict(&self, why: impl std::fmt::Display) -> Error {
        Error::Conflict(Status::conflict(&self.served().group, &self.served().resource, self.name, why))
    }

    pub fn modified(&self) -> Error {
        Error::Conflict(Status::modified(&self.served().group, &self.served().resource, self.name))
    }
}

/// Result of a write, in the storage version.
#[derive(Clone, Debug)]
pub struct Written {
    /// The stored object; at revision 0 after the dry run of a creation.
    pub object: Arc<Object>,
    pub created: bool,
}

impl Written {
    /// Returns the HTTP status: 201 when the write created its object, else 200.
    pub fn code(&self) -> u16 {
        if self.created { 201 } else { 200 }
    }
}

/// The new object that a [`Change`] makes from the current one.
pub struct Changed {
    pub object: Value,
    /// True when the managed fields are already recorded, as server-side apply does.
    pub managed: bool,
}

/// Makes the new object of an update: from a body, by a patch, or by server-side apply.
pub trait Change: Send + Sync {
    /// Makes the new object. `current` is in the request's version, with its `resourceVersion`; `None` when there is no
    /// object yet. Called for every attempt, and again when a conversion that it needs has been made.
    fn change(&self, current: Option<&Value>, conversions: &Conversions) -> Result<Changed>;

    /// Tells whether the change creates a missing object even if the strategy does not allow it.
    fn creates(&self) -> bool {
        false
    }

    /// Returns the uid that the current object must have.
    fn required_uid(&self) -> Option<&str> {
        None
    }
}

/// PUT: replaces the object with the body.
pub struct Replace {
    pub body: Value,
    pub uid: Option<String>,
}

impl Change for Replace {
    fn change(&self, _current: Option<&Value>, _conversions: &Conversions) -> Result<Changed> {
        Ok(Changed { object: self.body.clone(), managed: false })
    }

    fn required_uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }
}

/// Applies a pure function to the current object: a patch, or a subresource that changes one part.
pub struct Edit<F>(pub F);

impl<F: Fn(&Value) -> std::result::Result<Value, Status> + Send + Sync> Change for Edit<F> {
    fn change(&self, current: Option<&Value>, _conversions: &Conversions) -> Result<Changed> {
        match current {
            Some(current) => Ok(Changed { object: (self.0)(current)?, managed: false }),
            None => Err(Status::internal("an edit needs an object").into()),
        }
    }
}
