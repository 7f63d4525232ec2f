//! `Problem`: why the cloud refuses a request: a reason for programs, and a message for people.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    Invalid,
    Unauthorized,
    NotFound,
    Conflict,
    QuotaExceeded,
    /// The cloud failed, or could not be reached. Nobody knows whether the request was carried out.
    Unavailable,
}

impl Reason {
    /// Returns the code of the HTTP answer.
    pub fn code(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthorized => 401,
            Self::QuotaExceeded => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Unavailable => 503,
        }
    }
}

/// The body of an answer that is no success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub reason: Reason,
    pub message: String,
}

impl Problem {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    pub fn not_found(kind: &str, name: &str) -> Self {
        Self::new(Reason::NotFound, format!("there is no {kind} {name:?}"))
    }

    pub fn quota(kind: &str, quota: usize) -> Self {
        Self::new(Reason::QuotaExceeded, format!("the quota of {quota} {kind} is used up"))
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Reason::Unavailable, message)
    }

    pub fn is_not_found(&self) -> bool {
        self.reason == Reason::NotFound
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Problem {}
