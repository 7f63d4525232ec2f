//! Strategies: the rules by which each built-in kind fills in, validates and reserves fields when an object is written.
//!
//! Read `Strategy` below first, then the modules in their order: `gates` has the feature gates, `write_context` describes a
//! write to its strategy,
//! `object_meta` fills in metadata, `validation` finds errors, `allocation` reserves addresses and ports of Services,
//! and `kinds` is the table with the strategy of each kind.
//!
//! Strategies see objects in the row's **storage version**, after conversion; patches, admission and managed fields use
//! the version of the request. A strategy is pure, except for `begin_create`, `begin_update` and `after_delete`: they
//! reserve and release addresses and ports, and a reservation can be undone.
//! Corresponds to k8s.io/apiserver/pkg/registry/rest (RESTCreateStrategy, RESTUpdateStrategy, BeforeCreate, …).

pub mod gates;
pub mod write_context;
pub mod object_meta;
pub mod validation;
pub mod allocation;
pub mod kinds;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use crate::allocation::{Holder, Reserved, ServiceNetwork};
use crate::write_context::WriteContext;
use async_trait::async_trait;
use cacher::lookup::Lookup;
use proto::meta::status::FieldError;
use proto::{Object, Status};
use serde_json::Value;

/// How an object is removed after a DELETE request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// The kind has no grace period: the object is removed at once, unless finalizers keep it.
    None,
    /// The object gets a deletion timestamp that lies this far ahead; 0 removes it at once.
    Period { grace_period_s: i64 },
    /// The first deletion sets the deletion timestamp. A later one removes the object, when a controller has removed
    /// its content.
    UntilEmpty,
}

/// Access to the addresses and node ports that Services reserve, which are entries of their own in the store.
/// `reserve` and `release` go straight to the store's compare-and-swap, so that two servers never reserve the same one.
#[async_trait]
pub trait Reservations: Lookup {
    fn service_network(&self) -> ServiceNetwork;
    /// Reserves an address or port and returns true, or returns false if it is reserved already. A dry run only checks.
    async fn reserve(&self, what: &Reserved, holder: Holder<'_>, dry_run: bool) -> Result<bool, Status>;
    /// Releases an address or port. Succeeds also when it is not reserved.
    async fn release(&self, what: &Reserved) -> Result<(), Status>;
}

/// Outcome of a write that reserved addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Yes,
    No,
    /// The store's answer was lost. Nothing is released then; the repair loop finds what is unused.
    Unknown,
}

/// Addresses and ports to release once the outcome of a write is known.
#[derive(Debug, Default)]
pub struct Reservation {
    /// Reserved for this write.
    pub if_failed: Vec<Reserved>,
    /// No longer used by the new object.
    pub if_stored: Vec<Reserved>,
}

impl Reservation {
    /// Releases what the outcome of the write leaves unused. Call it exactly once. A failed release does not change the
    /// outcome: the repair loop releases the address or port later.
    pub async fn finish(self, stored: Stored, reservations: &dyn Reservations) {
        let done = match stored {
            Stored::Yes => self.if_stored,
            Stored::No => self.if_failed,
            Stored::Unknown => Vec::new(),
        };
        for what in &done {
            if let Err(error) = reservations.release(what).await {
                tracing::warn!(?what, error = error.message, "what nobody uses any more is not let go yet");
            }
        }
    }
}

/// The behaviour that is specific to a kind. Every method has the default that most kinds keep.
#[async_trait]
pub trait Strategy: Send + Sync {
    /// Clears the fields that a client may not set, and fills in those that the server decides.
    fn prepare_for_create(&self, _context: &WriteContext<'_>, _object: &mut Value) {}
    /// Prepares an update of the object or of one of its subresources (`context.subresource`) in the same way.
    fn prepare_for_update(&self, _context: &WriteContext<'_>, _object: &mut Value, _old: &Value) {}

    /// Returns all errors of a new object, including those of its metadata.
    fn validate(&self, _context: &WriteContext<'_>, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }
    fn validate_update(&self, _context: &WriteContext<'_>, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn warnings_on_create(&self, _context: &WriteContext<'_>, _object: &Value) -> Vec<String> {
        Vec::new()
    }
    fn warnings_on_update(&self, _context: &WriteContext<'_>, _object: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Makes the last change before the object is stored, so that objects of equal meaning have equal bytes.
    fn canonicalize(&self, _object: &mut Value) {}

    /// Returns whether a PUT to a name that does not exist creates the object.
    fn allow_create_on_update(&self) -> bool {
        false
    }
    /// Returns whether a PUT without a resourceVersion overwrites the stored object.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Changes the object when its deletion begins, before the grace period is decided.
    fn prepare_for_delete(&self, _context: &WriteContext<'_>, _object: &mut Value) {}

    /// Returns how the object is removed. `requested_s` is the gracePeriodSeconds of the deletion, if it names one.
    fn graceful_delete(&self, _context: &WriteContext<'_>, _object: &Value, _requested_s: Option<i64>) -> Grace {
        Grace::None
    }

    /// Returns whether a field of the object beside `metadata.finalizers` keeps it from being removed.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Returns the fields beside `spec` that the `status` endpoint resets. Its writers therefore do not own them.
    fn status_resets(&self) -> &'static [&'static [&'static str]] {
        &[]
    }

    /// Reserves the addresses and ports that the object needs, before it is validated, and fills them into the object.
    async fn begin_create(
        &self,
        _context: &WriteContext<'_>,
        _object: &mut Value,
        _reservations: &dyn Reservations,
    ) -> Result<Reservation, Status> {
        Ok(Reservation::default())
    }
    /// Reserves the addresses and ports that an update adds, and lists those that it no longer needs.
    async fn begin_update(
        &self,
        _context: &WriteContext<'_>,
        _object: &mut Value,
        _old: &Value,
        _reservations: &dyn Reservations,
    ) -> Result<Reservation, Status> {
        Ok(Reservation::default())
    }
    /// Releases the addresses and ports of the object, after it is removed from the store.
    async fn after_delete(&self, _object: &Object, _reservations: &dyn Reservations) -> Result<(), Status> {
        Ok(())
    }
}
