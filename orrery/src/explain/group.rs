//! Prints the preemption for a PodGroup as a whole: who was to go, and why.

use super::text::{MAX_LINES, Paint, count, section, shortened};
use scheduler_explanation::document::{GroupPreemption, GroupVictim};
use std::fmt::Write;

/// Adds the section about the preemption for the pod's group.
pub fn preemption(page: &mut String, preemption: &GroupPreemption, paint: Paint) {
    section(page, paint, "Would its group fit without others? (PodGroupPostFilter)");
    let GroupPreemption { pod_group, message, candidates, unlisted } = preemption;
    if !message.is_empty() {
        let _ = writeln!(page, "  {pod_group}: {}", paint.bad(message));
        return;
    }
    let _ = writeln!(
        page,
        "  {pod_group} fits without all pods of lower priority. They were put back one after the other, first"
    );
    let _ = writeln!(page, "  those that a disruption budget protects, then the more important ones:");
    for candidate in candidates.iter().take(MAX_LINES) {
        let mark = if candidate.evicted { paint.bad("✗") } else { paint.good("✓") };
        let _ = writeln!(page, "  {mark} {}", line(candidate));
    }
    let more = candidates.len().saturating_sub(MAX_LINES) + unlisted;
    if more > 0 {
        let _ = writeln!(page, "  {}", paint.faint(&format!("and {more} more")));
    }
    let victims = candidates.iter().filter(|candidate| candidate.evicted);
    let victims: Vec<String> = victims.flat_map(|candidate| candidate.pods.clone()).collect();
    let text = format!("evicts {}: {}", count(victims.len(), "pod"), shortened(&victims));
    let _ = writeln!(page, "  {}", paint.good(&text));
}

fn line(candidate: &GroupVictim) -> String {
    let GroupVictim { pods, pod_group, priority, protected, evicted } = candidate;
    let whole = if pod_group.is_empty() { String::new() } else { format!(", all of {pod_group}") };
    let protected = if *protected { ", protected" } else { "" };
    let verdict = if *evicted { "the group does not fit beside" } else { "the group fits beside" };
    let them = if pods.len() == 1 { "it" } else { "them" };
    format!("{}{whole}, priority {priority}{protected}: {verdict} {them}", shortened(pods))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    fn check(document: Value, expected: &Expect) {
        let mut page = String::new();
        preemption(&mut page, &serde_json::from_value(document).unwrap(), Paint { on: false });
        expected.assert_eq(&page);
    }

    #[test]
    fn victims_have_their_reasons() {
        let candidates = json!([
            {"pods": ["shop/db"], "priority": 3, "protected": true, "evicted": true},
            {"pods": ["shop/a", "shop/b"], "podGroup": "shop/old", "priority": 1, "evicted": true},
            {"pods": ["shop/c"], "priority": 0},
        ]);
        check(
            json!({"podGroup": "shop/train", "candidates": candidates, "unlisted": 2}),
            &expect![[r#"

                Would its group fit without others? (PodGroupPostFilter)
                  shop/train fits without all pods of lower priority. They were put back one after the other, first
                  those that a disruption budget protects, then the more important ones:
                  ✗ shop/db, priority 3, protected: the group does not fit beside it
                  ✗ shop/a, shop/b, all of shop/old, priority 1: the group does not fit beside them
                  ✓ shop/c, priority 0: the group fits beside it
                  and 2 more
                  evicts 3 pods: shop/db, shop/a, shop/b
            "#]],
        );
        check(
            json!({"podGroup": "shop/train", "message": "Preemption is not helpful for scheduling"}),
            &expect![[r#"

                Would its group fit without others? (PodGroupPostFilter)
                  shop/train: Preemption is not helpful for scheduling
            "#]],
        );
    }
}
