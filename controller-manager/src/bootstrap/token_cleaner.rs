//! The token cleaner deletes expired bootstrap tokens.
//!
//! Corresponds to tokencleaner.go of pkg/controller/bootstrap.

use super::token::Token;
use client::reconcile::Reconciler;
use client::{Event, Lister, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::{actions, clock};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Secret;
use std::sync::Arc;

struct Controller {
    secrets: Lister<Secret>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Secret>, queue| {
        if !matches!(event, Event::Deleted(_)) && Token::is_token(event.object()) {
            queue.add(event.object().key());
        }
    });
    setup.run(queue, 1, Controller { secrets: setup.lister() })
}

pub fn plan(secret: &Secret, now: Timestamp) -> Plan {
    if !Token::is_token(secret) || secret.is_deleting() {
        return Plan::default();
    }
    match Token(secret).expires_at() {
        None => Plan::default(),
        Some(end) if end > now => Plan { actions: Vec::new(), requeue_after: Some(clock::until(end, now)) },
        Some(_) => Plan::of([actions::delete_exactly(secret)]),
    }
}

impl Reconciler for Controller {
    type Observed = Arc<Secret>;

    fn observe(&self, key: &str) -> Option<Arc<Secret>> {
        self.secrets.by_key(key)
    }

    fn plan(&self, secret: &Arc<Secret>, now: Timestamp) -> Plan {
        plan(secret, now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::fixture::secret;
    use super::*;
    use controller_base::fixture;

    #[test]
    fn a_token_goes_when_its_time_has_passed() {
        let delete = "delete secrets kube-system/bootstrap-token-abcdef ";
        let end = fixture::at(60).to_string();
        for (expiration, second, expected) in [
            ("", 1_000_000, ""),
            (end.as_str(), 0, "look again after 60s\n"),
            (end.as_str(), 60, delete),
            ("soon", 0, delete),
        ] {
            let secret = secret("abcdef", &[("expiration", expiration)]);
            let plan = plan(&secret, fixture::at(second)).to_string();
            assert!(
                plan.starts_with(expected) && plan.is_empty() == expected.is_empty(),
                "{expiration} {second}: {plan}"
            );
        }
        let mut other = secret("abcdef", &[("expiration", "soon")]);
        other.type_ = Some("Opaque".to_owned());
        assert_eq!(plan(&other, fixture::at(0)).to_string(), "");
    }
}
