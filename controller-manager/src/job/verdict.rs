//! How a job ends: in success or not, and why.
//!
//! Corresponds to the conditions SuccessCriteriaMet and FailureTarget of a Job, which announce an end that Complete and
//! Failed state once no pod is left.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub is_success: bool,
    pub reason: String,
    pub message: String,
}

impl Verdict {
    pub fn success(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self { is_success: true, reason: reason.to_owned(), message: message.into() })
    }

    pub fn failure(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self { is_success: false, reason: reason.to_owned(), message: message.into() })
    }

    /// The condition that announces the end, and the one that states it.
    pub fn conditions(&self) -> (&'static str, &'static str) {
        if self.is_success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") }
    }
}
