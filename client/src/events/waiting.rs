//! `Waiting`: an event that waits to be written, as text.
//!
//! When a fleet starts many pods at once, its events wait by the hundred thousand. As text, each is one allocation of its own size
//! class. As a structure it is a dozen small ones, and the allocator could not return their pages later, because small
//! allocations that stay, such as the keys of caches, lie between them.

use super::{Agent, Occurrence};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Waiting {
    /// The agent that writes the event, if not the recorder's own client.
    pub agent: Option<Arc<Agent>>,
    text: Box<str>,
}

impl Waiting {
    pub(super) fn of(event: &Occurrence) -> Self {
        let text = serde_json::to_string(event).expect("texts and numbers can be written");
        Self { agent: event.agent.clone(), text: text.into() }
    }

    pub(super) fn of_agent(self, agent: Option<Arc<Agent>>) -> Self {
        Self { agent, ..self }
    }

    pub(super) fn event(self) -> Occurrence {
        let event: Occurrence = serde_json::from_str(&self.text).expect("it is text that `of` has made");
        Occurrence { agent: self.agent, ..event }
    }
}
