//! Prints why a pod waits outside the queue, where no attempt is made.

use super::text::{Paint, duration};
use scheduler_explanation::document::Held;
use std::fmt::Write;

/// Formats what holds a pod as text.
pub fn of(held: &Held, paint: Paint) -> String {
    let mut page = String::new();
    let _ = writeln!(page, "{}", paint.title(&format!("Pod {}, held before the queue", held.pod)));
    let _ = writeln!(page, "  profile {}", held.profile);
    let _ = writeln!(page, "\n{}", paint.title("Why is it not tried? (PreEnqueue)"));
    let why = match held.plugin.is_empty() {
        true => "nothing holds it any more; it is about to enter the queue".to_owned(),
        false => paint.bad(&format!("{}: {}", held.plugin, held.reasons.join("; "))),
    };
    let _ = writeln!(page, "  {why}");
    let _ = writeln!(page, "  since {}, for {}", held.since, duration(held.for_ms.saturating_mul(1000)));
    if !held.waits_for.is_empty() {
        let _ = writeln!(page, "\n{}", paint.title("What could let it in?"));
        for what in &held.waits_for {
            let _ = writeln!(page, "  {what}");
        }
    }
    if held.attempts > 0 {
        let _ = writeln!(page, "\n{}", paint.title("What was before?"));
        let times = if held.attempts == 1 { "once".to_owned() } else { format!("{} times", held.attempts) };
        let _ = writeln!(page, "  it was tried {times}: see --attempt {}", held.attempts);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    fn check(document: Value, expected: &Expect) {
        let held: Held = serde_json::from_value(document).unwrap();
        expected.assert_eq(&of(&held, Paint { on: false }));
    }

    #[test]
    fn a_pod_with_gates() {
        check(
            json!({
                "pod": "shop/web", "profile": "default-scheduler", "since": "2026-01-02T03:04:05Z", "forMs": 61500,
                "plugin": "SchedulingGates", "reasons": ["waiting for scheduling gates: [quota]"],
                "waitsFor": ["an update of the pod that removes the scheduling gate quota"],
            }),
            &expect![[r#"
                Pod shop/web, held before the queue
                  profile default-scheduler

                Why is it not tried? (PreEnqueue)
                  SchedulingGates: waiting for scheduling gates: [quota]
                  since 2026-01-02T03:04:05Z, for 61.5 s

                What could let it in?
                  an update of the pod that removes the scheduling gate quota
            "#]],
        );
    }

    #[test]
    fn a_pod_that_was_tried_before_and_is_free_again() {
        let waiting = json!({"pod": "shop/web", "profile": "p", "since": "2026-01-02T03:04:05Z", "attempts": 2});
        check(
            waiting,
            &expect![[r#"
                Pod shop/web, held before the queue
                  profile p

                Why is it not tried? (PreEnqueue)
                  nothing holds it any more; it is about to enter the queue
                  since 2026-01-02T03:04:05Z, for 0 µs

                What was before?
                  it was tried 2 times: see --attempt 2
            "#]],
        );
    }
}
