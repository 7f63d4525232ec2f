//! `Mutation`: what is known of one write before it begins, and what came of it.
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

/// One write: of which object, by whom, with which options.
pub struct Mutation<'a> {
    pub target: &'a Target,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Empty for a creation, whose object names itself.
    pub name: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub user: &'a UserInfo,
    pub dry_run: bool,
    /// How much of it admission sees.
    pub admission: Admission,
    /// When whoever asked waits no longer.
    pub deadline: Option<Instant>,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, for admission.
    pub options: &'a Value,
    /// Who owns the fields that this write sets.
    pub manager: &'a str,
    /// Collected for the answer's `Warning` headers.
    pub warnings: Vec<String>,
    /// Collected for the audit log.
    pub annotations: BTreeMap<String, String>,
    /// Where a trace of the request is wanted.
    pub steps: Option<&'a Steps>,
}

/// What of a write admission is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// All of it.
    Whole,
    /// All but the name: the request has none, it is about a whole collection.
    Unnamed,
    /// Nothing: it is a part of an action that has been admitted.
    Done,
}

impl Mutation<'_> {
    pub fn served(&self) -> &Served {
        self.target.served()
    }

    /// Errors name the group and resource of the storage version's registry, as Kubernetes does.
    pub fn not_found(&self) -> Error {
        Error::NotFound(Status::not_found(&self.served().group, &self.served().resource, self.name))
    }

    pub fn already_exists(&self, name: &str) -> Status {
        Status::already_exists(&self.served().group, &self.served().resource, name)
    }

    /// Every name that was generated is taken; or the one that was given beside a `generateName`.
    pub fn no_name_left(&self, name: &str) -> Status {
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

/// What a write left behind, in the storage version.
#[derive(Clone, Debug)]
pub struct Written {
    /// Of a creation that was only tried, at revision 0.
    pub object: Arc<Object>,
    pub created: bool,
}

impl Written {
    /// The HTTP status of a write that may create.
    pub fn code(&self) -> u16 {
        if self.created { 201 } else { 200 }
    }
}

/// The new object that a change makes of the current one.
pub struct Changed {
    pub object: Value,
    /// Its managed fields are as they shall be: server-side apply keeps them itself.
    pub managed: bool,
}

/// How an update makes the new object: from a body, by a patch, by server-side apply.
pub trait Change: Send + Sync {
    /// `current` is in the request's version, with `resourceVersion`; `None` where nothing is there yet.
    /// Called for every attempt, and again when a conversion that it needs has been made.
    fn change(&self, current: Option<&Value>, conversions: &Conversions) -> Result<Changed>;

    /// Makes the object where there is none, whatever the strategy says.
    fn creates(&self) -> bool {
        false
    }

    /// The object must have this uid.
    fn required_uid(&self) -> Option<&str> {
        None
    }
}

/// PUT: the body, whatever was there.
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

/// A pure function of the current object: patches, and subresources that change a part.
pub struct Edit<F>(pub F);

impl<F: Fn(&Value) -> std::result::Result<Value, Status> + Send + Sync> Change for Edit<F> {
    fn change(&self, current: Option<&Value>, _conversions: &Conversions) -> Result<Changed> {
        match current {
            Some(current) => Ok(Changed { object: (self.0)(current)?, managed: false }),
            None => Err(Status::internal("an edit needs an object").into()),
        }
    }
}
