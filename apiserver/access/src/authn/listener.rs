//! `AuthenticationListener`: receives what each authenticator decides, for a trace of the request, and its warnings for
//! the client.

use request::UserInfo;
use request::trace::{Gate, Step, StepOutcome, Steps};

pub struct AuthenticationListener<'a> {
    /// Sends a warning to the client.
    pub warn: &'a (dyn Fn(String) + Sync),
    /// Steps of the request's trace, if it is traced.
    pub steps: Option<&'a Steps>,
}

impl AuthenticationListener<'_> {
    /// Ignores everything.
    pub const NONE: AuthenticationListener<'static> = AuthenticationListener { warn: &|_| {}, steps: None };

    /// Records that an authenticator recognised the user.
    pub fn authenticated(&self, by: &str, user: UserInfo) -> UserInfo {
        self.add(by, StepOutcome::Passed, || format!("this is {}", user.name));
        user
    }

    /// Records that an authenticator has no opinion; the next one runs.
    pub fn no_opinion(&self, by: &str, why: &str) {
        self.add(by, StepOutcome::NoOpinion, || why.to_owned());
    }

    /// Records that the credentials are meant for this authenticator and are invalid.
    pub fn refused(&self, by: &str, why: String) -> String {
        self.add(by, StepOutcome::Refused, || why.clone());
        why
    }

    fn add(&self, by: &str, outcome: StepOutcome, reason: impl FnOnce() -> String) {
        if let Some(steps) = self.steps {
            steps.add(Step::new(Gate::Authentication, by, outcome).because(reason()));
        }
    }
}
