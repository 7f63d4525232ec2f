//! `JobEnd`, the decision that a job has succeeded or failed, with its reason.
//!
//! Corresponds to the conditions of a Job: SuccessCriteriaMet and FailureTarget record the decision, and Complete and
//! Failed follow when all pods have ended.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    pub is_success: bool,
    pub reason: String,
    pub message: String,
}

impl JobEnd {
    pub fn success(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self { is_success: true, reason: reason.to_owned(), message: message.into() })
    }

    pub fn failure(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self { is_success: false, reason: reason.to_owned(), message: message.into() })
    }

    /// Returns the condition that records the decision, and the condition of the finished job.
    pub fn conditions(&self) -> (&'static str, &'static str) {
        if self.is_success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") }
    }
}
