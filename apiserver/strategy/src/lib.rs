//! Strategies: what a built-in kind fills in, checks and reserves when one of its objects is written.
//!
//! Read `Strategy` below first, then the modules in their order: `write_context` is what a strategy knows of a write,
//! `object_meta` fills in metadata, `validation` finds errors, `allocation` reserves addresses and ports of Services,
//! and `kinds` is the table with the strategy of each kind.
//!
//! Strategies see objects in the row's **storage version**, after conversion; patches, admission and managed fields use
//! the version of the request. A strategy is pure: what it needs of other objects it reserves in `begin_create` and
//! `begin_update`, which can be undone.
//! Corresponds to k8s.io/apiserver/pkg/registry/rest (RESTCreateStrategy, RESTUpdateStrategy, BeforeCreate, …).

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

/// Grace period of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// The kind has no grace period: the object is removed at once, unless finalizers keep it.
    None,
    /// Marked with a deletion timestamp that far ahead; 0 removes at once.
    Period { grace_period_s: i64 },
    /// Marked by the first deletion, and removed by a later one, when a controller has removed its content.
    UntilEmpty,
}

/// What one write takes or gives back beside its own object: the addresses and ports of a Service.
/// Both calls go straight to the store's compare-and-swap, so that two servers never reserve the same thing.
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

/// What to take back when a write fails, or to let go when it succeeds.
#[derive(Debug, Default)]
pub struct Reservation {
    pub if_failed: Vec<Reserved>,
    pub if_stored: Vec<Reserved>,
}

impl Reservation {
    /// To be called exactly once, when the outcome of the write is known. That stands, whatever becomes of this: what
    /// cannot be let go now is found by the repair loop.
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

/// A kind's own behaviour. Every method has the default that most kinds keep.
#[async_trait]
pub trait Strategy: Send + Sync {
    /// Clears what a client may not set, fills in what the server decides.
    fn prepare_for_create(&self, _context: &WriteContext<'_>, _object: &mut Value) {}
    /// The same for an update of the object or of one of its subresources (`context.subresource`).
    fn prepare_for_update(&self, _context: &WriteContext<'_>, _object: &mut Value, _old: &Value) {}

    /// Returns all errors of a new object, with those of its metadata.
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

    /// The last change before the object is stored: equal meaning, equal bytes.
    fn canonicalize(&self, _object: &mut Value) {}

    /// PUT to a name that does not exist creates it.
    fn allow_create_on_update(&self) -> bool {
        false
    }
    /// PUT without a resourceVersion overwrites whatever is there.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Changes the object when its deletion begins, before the grace period is decided.
    fn prepare_for_delete(&self, _context: &WriteContext<'_>, _object: &mut Value) {}

    /// `requested` is the deletion's own gracePeriodSeconds, if it named one.
    fn graceful_delete(&self, _context: &WriteContext<'_>, _object: &Value, _requested_s: Option<i64>) -> Grace {
        Grace::None
    }

    /// Whether the object keeps itself from being removed, beside the finalizers in its metadata.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Fields beside `spec` that the `status` endpoint resets, which its writers therefore do not own.
    fn status_resets(&self) -> &'static [&'static [&'static str]] {
        &[]
    }

    /// Reserves what the object needs of the cluster before it is validated; fills it into the object.
    async fn begin_create(
        &self,
        _context: &WriteContext<'_>,
        _object: &mut Value,
        _reservations: &dyn Reservations,
    ) -> Result<Reservation, Status> {
        Ok(Reservation::default())
    }
    async fn begin_update(
        &self,
        _context: &WriteContext<'_>,
        _object: &mut Value,
        _old: &Value,
        _reservations: &dyn Reservations,
    ) -> Result<Reservation, Status> {
        Ok(Reservation::default())
    }
    /// Releases what the object had reserved, after it is removed from the store.
    async fn after_delete(&self, _object: &Object, _reservations: &dyn Reservations) -> Result<(), Status> {
        Ok(())
    }
}
