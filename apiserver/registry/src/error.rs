//! `Error`: why a read or a write failed, by kinds that code can tell apart.
//!
//! Code decides by the variant, never by the text of a [`Status`], which a plugin, a webhook or a policy may have chosen.
//! `Status::from` turns an error into the client's answer.
//! Corresponds to storage.StorageError and the IsNotFound, IsConflict, … of k8s.io/apimachinery/pkg/api/errors.

use cacher::DecodeError;
use proto::Status;
use proto::meta::status::Cause;
use std::fmt;

/// Failure of a read or a write. A variant that holds a Status holds the client's answer.
#[derive(Debug)]
pub enum Error {
    /// The registry has no object of that name.
    NotFound(Status),
    /// The name is taken.
    AlreadyExists(Status),
    /// A precondition does not hold, or every attempt lost to another writer.
    Conflict(Status),
    /// The strategy found field errors.
    Invalid(Status),
    /// An admission plugin, a webhook or a policy refused the write.
    Refused(Status),
    /// The store failed. If it did not answer, the write may have happened all the same.
    Store(storage::Error),
    /// The watch cache cannot answer.
    Cache(cacher::Error),
    /// Any other failure, such as a malformed request, a missing permission or a failed conversion.
    Other(Status),
}

/// Result of a read or a write of the registry.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists(_))
    }

    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Tells whether the store did not answer, so that it is unknown whether a write happened.
    pub fn is_outcome_unknown(&self) -> bool {
        let (Self::Store(error) | Self::Cache(cacher::Error::Storage(error))) = self else { return false };
        matches!(error, storage::Error::Unavailable(_) | storage::Error::Stopped(_) | storage::Error::TimedOut(_))
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Other(status)
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        Self::Store(error)
    }
}

impl From<cacher::Error> for Error {
    fn from(error: cacher::Error) -> Self {
        Self::Cache(error)
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound(status)
            | Error::AlreadyExists(status)
            | Error::Conflict(status)
            | Error::Invalid(status)
            | Error::Refused(status)
            | Error::Other(status) => status,
            Error::Store(error) => storage_failure(error),
            Error::Cache(error) => cache_failure(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Cache(error) => error.fmt(f),
            Self::NotFound(status)
            | Self::AlreadyExists(status)
            | Self::Conflict(status)
            | Self::Invalid(status)
            | Self::Refused(status)
            | Self::Other(status) => status.fmt(f),
        }
    }
}

/// Returns the client's answer for a failure of the watch cache.
fn cache_failure(error: cacher::Error) -> Status {
    match error {
        cacher::Error::NotReady => Status::too_many_requests("storage is (re)initializing", 1),
        cacher::Error::TooLarge { requested, current } => too_large_version(requested, current, Some(1)),
        cacher::Error::Expired { requested, oldest } => {
            Status::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        // The client knows the key: it asked for the object under it.
        cacher::Error::Undecodable { reason: DecodeError::Encrypted { why, .. }, .. } => Status::internal(why),
        cacher::Error::Undecodable { .. } => Status::internal(error),
        cacher::Error::Storage(error) => storage_failure(error),
    }
}

/// Returns the client's answer for a failure of the store.
fn storage_failure(error: storage::Error) -> Status {
    match error {
        storage::Error::Compacted { .. } => Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
        ),
        storage::Error::FutureRevision { requested, current } => too_large_version(requested, current, None),
        storage::Error::Unavailable(why) | storage::Error::Stopped(why) => Status::unavailable(why),
        storage::Error::TimedOut(_) => Status::timed_out(),
        storage::Error::Rejected(why) => Status::failure(500, "", why),
    }
}

/// Returns 504 for a resourceVersion that this server has not reached yet.
fn too_large_version(requested: u64, current: u64, retry_after_s: Option<u32>) -> Status {
    let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
    let mut status = Status::failure(504, "Timeout", message);
    let details = status.details.get_or_insert_default();
    details.causes = vec![Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    }];
    details.retry_after_seconds = retry_after_s;
    status
}
