//! Two processes that run a node of the same name.

use super::*;
use parking_lot::Mutex;
use std::fmt::{Debug, Write as _};
use tracing::field::{Field, Visit};
use tracing::span;

/// Collects the messages of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().push(message.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Warnings {
    fn of_rivals(&self) -> Vec<String> {
        let rivals = |text: &&String| text.starts_with("Another agent runs this node");
        self.0.lock().iter().filter(rivals).cloned().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn two_agents_of_one_node_warn_of_each_other() {
    let warnings = Warnings::default();
    let _subscribed = tracing::subscriber::set_default(warnings.clone());
    let world = World::of(1);
    let first = world.start();
    world.pass(60_000).await;
    first.drain().await;
    let second = world.start();
    world.pass(60_000).await;
    assert_eq!(warnings.of_rivals(), [""; 0], "an agent that starts again is alone");

    let third = world.start();
    world.pass(60_000).await;
    let seen = warnings.of_rivals();
    assert!(!seen.is_empty() && seen.len() <= 2, "each warns once: {seen:?}");
    assert!(seen[0].contains("\"node-0\" renewed its lease at 2026-01-01T00:0"), "{}", seen[0]);
    third.drain().await;
    second.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_warns_of_another_machine_that_reports_its_node() {
    let warnings = Warnings::default();
    let _subscribed = tracing::subscriber::set_default(warnings.clone());
    let world = World::of(1);
    world.start();
    world.pass(20_000).await;
    let mut node = world.server.get("nodes", "node-0").unwrap();
    let own = node["status"]["nodeInfo"]["machineID"].clone();
    node["status"]["nodeInfo"]["machineID"] = json!("feedbeef");
    world.server.put("nodes", node);
    world.pass(20_000).await;
    let seen = warnings.of_rivals();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].contains("machine feedbeef, boot "), "{}", seen[0]);
    assert_eq!(world.server.get("nodes", "node-0").unwrap()["status"]["nodeInfo"]["machineID"], own);
}
