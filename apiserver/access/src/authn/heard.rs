//! `Heard`: what is noted while authenticators are tried: for the client as warnings, and for a trace of the request.

use request::UserInfo;
use request::trace::{Gate, Step, StepOutcome, Steps};

pub struct Heard<'a> {
    pub warn: &'a (dyn Fn(String) + Sync),
    /// Where a trace is wanted.
    pub steps: Option<&'a Steps>,
}

impl Heard<'_> {
    /// Nobody listens.
    pub const NOBODY: Heard<'static> = Heard { warn: &|_| {}, steps: None };

    /// An authenticator knows the caller.
    pub fn knows(&self, who: &str, user: UserInfo) -> UserInfo {
        self.add(who, StepOutcome::Passed, || format!("this is {}", user.name));
        user
    }

    /// It does not; the next one is asked.
    pub fn passes(&self, who: &str, why: &str) {
        self.add(who, StepOutcome::NoOpinion, || why.to_owned());
    }

    /// What is shown is meant for it, and wrong.
    pub fn fails(&self, who: &str, why: String) -> String {
        self.add(who, StepOutcome::Refused, || why.clone());
        why
    }

    fn add(&self, who: &str, outcome: StepOutcome, reason: impl FnOnce() -> String) {
        if let Some(steps) = self.steps {
            steps.add(Step::new(Gate::Authentication, who, outcome).because(reason()));
        }
    }
}
