//! `Operation`: what a request does to an object.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    /// `exec`, `attach`, `portforward`, `proxy`.
    Connect,
}

impl Operation {
    /// Returns the name in AdmissionReviews and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}
