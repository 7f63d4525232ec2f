//! Prints an explanation: the questions that the scheduler asks, in order, and the answers.

use super::group;
use super::text::{MAX_LINES, Paint, count, duration, section, shortened};
use scheduler_explanation::document::{
    Choice, Explanation, FilterVerdict, NodeVerdict, PreemptionCandidate, Verification,
};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most nodes with a column of scores: those with the highest totals.
const MAX_SCORED: usize = 5;
/// Most characters of a line with names.
const MAX_LINE_CHARS: usize = 110;

/// How an explanation is shown.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub paint: Paint,
    /// True if all filters of the only node are shown.
    pub one_node: bool,
}

/// Formats an explanation as text.
pub fn of(explanation: &Explanation, view: &View) -> String {
    let mut page = String::new();
    head(&mut page, explanation, view.paint);
    queue(&mut page, explanation, view.paint);
    pre_filters(&mut page, explanation, view.paint);
    filters(&mut page, explanation, view);
    scores(&mut page, explanation, view.paint);
    preemption(&mut page, explanation, view.paint);
    if let Some(of_group) = &explanation.group_preemption {
        group::preemption(&mut page, of_group, view.paint);
    }
    result(&mut page, explanation, view.paint);
    page
}

fn head(page: &mut String, explanation: &Explanation, paint: Paint) {
    let (attempt, snapshot) = (&explanation.attempt, &explanation.snapshot);
    let title = format!("Pod {}, attempt {}", attempt.pod, attempt.attempt);
    let _ = writeln!(page, "{}", paint.title(&title));
    let _ = writeln!(page, "  at {}, profile {}", attempt.at, attempt.profile);
    let (nodes, pods) = (count(snapshot.nodes, "node"), count(snapshot.pods, "pod"));
    let _ = writeln!(page, "  on a snapshot of {nodes} with {pods}, revision {}", snapshot.revision);
    if !explanation.what_if.is_empty() {
        let _ = writeln!(page, "  {}", paint.title(&format!("what if: {}", explanation.what_if.join(", "))));
    }
}

fn queue(page: &mut String, explanation: &Explanation, paint: Paint) {
    if explanation.queue.is_empty() {
        return;
    }
    section(page, paint, "Why now? (queue)");
    if !explanation.rejected_by.is_empty() {
        let _ = writeln!(page, "  rejected last time by {}", explanation.rejected_by.join(", "));
    }
    for moved in &explanation.queue {
        let before = duration(moved.before_ms.saturating_mul(1000));
        let _ = writeln!(page, "  {before:>10} before: {} because of {}", moved.queue, moved.event);
    }
}

fn pre_filters(page: &mut String, explanation: &Explanation, paint: Paint) {
    section(page, paint, "Which nodes come into question? (PreFilter)");
    let mut all = true;
    for step in &explanation.pre_filters {
        if !step.reasons.is_empty() {
            all = false;
            let _ = writeln!(page, "  none, {}: {}", step.plugin, paint.bad(&step.reasons.join("; ")));
        } else if step.result == "Nodes" {
            all = false;
            let _ = writeln!(page, "  only {}, {}", shortened(&step.nodes), step.plugin);
        }
    }
    if all {
        let _ = writeln!(page, "  all");
    }
    let skipped = explanation.pre_filters.iter().filter(|step| step.result == "Skip");
    let skipped: Vec<String> = skipped.map(|step| step.plugin.clone()).collect();
    if !skipped.is_empty() {
        let _ = writeln!(page, "  {}", paint.faint(&format!("nothing to filter: {}", wrapped(&skipped, 4))));
    }
}

/// Joins names, with line breaks and an indentation.
fn wrapped(names: &[String], indent: usize) -> String {
    let (mut text, mut column) = (String::new(), 20);
    for (number, name) in names.iter().enumerate() {
        let comma = if number + 1 < names.len() { "," } else { "" };
        if column + name.len() > MAX_LINE_CHARS {
            let _ = write!(text, "\n{:indent$}", "");
            column = indent;
        } else if number > 0 {
            text.push(' ');
        }
        let _ = write!(text, "{name}{comma}");
        column += name.len() + 2;
    }
    text
}

fn filters(page: &mut String, explanation: &Explanation, view: &View) {
    if explanation.nodes.iter().all(|node| node.filters.is_empty() && !node.fits) {
        return;
    }
    let (paint, has_failed) = (view.paint, explanation.attempt.result == "error");
    section(page, paint, "Where does it fit? (Filter)");
    let width = explanation.nodes.iter().take(MAX_LINES).map(|node| node.name.len()).max().unwrap_or(0);
    for node in explanation.nodes.iter().take(MAX_LINES) {
        let (mark, reasons) = verdict(node, has_failed, paint);
        let line = format!("  {mark} {:width$}  {reasons}", node.name);
        let _ = writeln!(page, "{}", line.trim_end());
        if !node.nominated_pods.is_empty() {
            let _ = writeln!(
                page,
                "    {:width$}  beside {}, which wait for room there",
                "",
                node.nominated_pods.join(", ")
            );
        }
        if view.one_node {
            node.filters.iter().for_each(|filter| one_filter(page, filter, paint));
        }
    }
    if let Some(rest) = explanation.nodes.get(MAX_LINES..).filter(|rest| !rest.is_empty()) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for node in rest {
            let what = match (node.fits, node.searched) {
                (true, true) => "fit".to_owned(),
                (true, false) if has_failed => "would fit, but the cycle has failed".to_owned(),
                (true, false) => "would fit, and were not searched".to_owned(),
                (false, _) => format!("do not fit: {}", reasons(node)),
            };
            *counts.entry(what).or_insert(0) += 1;
        }
        for (what, count) in counts {
            let _ = writeln!(page, "    {count} more {what}");
        }
    }
}

/// Returns the mark of a node and what is said of it. A cycle that has failed does not tell which nodes it has searched.
fn verdict(node: &NodeVerdict, has_failed: bool, paint: Paint) -> (String, String) {
    match (node.fits, node.searched) {
        (true, true) => (paint.good("✓"), String::new()),
        (true, false) if has_failed => (paint.faint("·"), paint.faint("would fit, but the cycle has failed")),
        (false, _) if has_failed => (paint.bad("✗"), reasons(node)),
        (true, false) => (paint.faint("·"), paint.faint("would fit; not searched, because enough nodes were found")),
        (false, true) => (paint.bad("✗"), reasons(node)),
        (false, false) => {
            (paint.faint("✗"), format!("{} {}", reasons(node), paint.faint("(not searched)")).trim().to_owned())
        }
    }
}

fn reasons(node: &NodeVerdict) -> String {
    let rejecting = node.filters.iter().filter(|filter| !filter.reasons.is_empty());
    let each: Vec<String> =
        rejecting.map(|filter| format!("{}: {}", filter.plugin, filter.reasons.join(", "))).collect();
    match each.is_empty() && !node.fits {
        true => "not among the nodes that PreFilter leaves".to_owned(),
        false => each.join("; "),
    }
}

fn one_filter(page: &mut String, filter: &FilterVerdict, paint: Paint) {
    let _ = match filter.reasons.is_empty() {
        true => writeln!(page, "      {} {}", paint.good("✓"), filter.plugin),
        false => {
            let hint = if filter.result == "Unschedulable" { "; without other pods it may fit" } else { "" };
            writeln!(page, "      {} {}: {}{hint}", paint.bad("✗"), filter.plugin, filter.reasons.join(", "))
        }
    };
}

/// Prints the scores: a line for each plugin, and a column for each of the best nodes.
fn scores(page: &mut String, explanation: &Explanation, paint: Paint) {
    let mut nodes: Vec<&NodeVerdict> = explanation.nodes.iter().filter(|node| node.total.is_some()).collect();
    if nodes.is_empty() {
        return;
    }
    section(page, paint, "Which one is best? (Score, from 0 to 100; the plugin's own number in brackets)");
    let scored = nodes.len();
    nodes.sort_by_key(|node| (std::cmp::Reverse(node.total), !node.chosen));
    nodes.truncate(MAX_SCORED);
    let plugins: Vec<&str> = nodes[0].scores.iter().map(|score| score.plugin.as_str()).collect();
    let width = plugins.iter().map(|plugin| plugin.len()).max().unwrap_or(0);
    let cell = |node: &NodeVerdict, at: usize| match node.scores.get(at) {
        Some(score) if score.raw == score.score => score.score.to_string(),
        Some(score) => format!("{} ({})", score.score, score.raw),
        None => "-".to_owned(),
    };
    let total = |node: &NodeVerdict| node.total.unwrap_or_default().to_string();
    let column = |node: &NodeVerdict| {
        let cells = (0..plugins.len()).map(|at| cell(node, at).chars().count());
        cells.chain([node.name.len(), total(node).len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = nodes.iter().map(|node| column(node)).collect();
    let line = |cells: Vec<String>| -> String {
        cells.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}")).collect()
    };
    let names = line(nodes.iter().map(|node| node.name.clone()).collect());
    let _ = writeln!(page, "  {:width$}  weight{}", "", names);
    for (at, plugin) in plugins.iter().enumerate() {
        let weight = format!("×{}", nodes[0].scores[at].weight);
        let cells = line(nodes.iter().map(|node| cell(node, at)).collect());
        let _ = writeln!(page, "  {plugin:width$}  {weight:>6}{cells}");
    }
    let totals = line(nodes.iter().map(|node| total(node)).collect());
    let width = width + 8; // and the weight
    let _ = writeln!(page, "  {}", paint.title(&format!("{:width$}{totals}", "sum of score × weight")));
    if scored > MAX_SCORED {
        let _ =
            writeln!(page, "  {}", paint.faint(&format!("and {} with lower sums", count(scored - MAX_SCORED, "node"))));
    }
}

fn preemption(page: &mut String, explanation: &Explanation, paint: Paint) {
    let preemption = &explanation.preemption;
    if preemption.candidates.is_empty() && preemption.nominated_to.is_empty() {
        return;
    }
    section(page, paint, "Would it fit without others? (PostFilter)");
    for (number, candidate) in preemption.candidates.iter().take(MAX_LINES).enumerate() {
        let PreemptionCandidate { node, victims, violations, worse_because, .. } = candidate;
        let protected = match violations {
            0 => String::new(),
            some => format!(", {some} of them protected by a disruption budget"),
        };
        let why = if worse_because.is_empty() { String::new() } else { format!(": {worse_because}") };
        let _ = writeln!(page, "  {}. {node} without {}{protected}{why}", number + 1, shortened(victims));
    }
    if !preemption.nominated_to.is_empty() {
        let victims = shortened(&preemption.victims);
        let text = format!("nominated to {}, evicts {victims}", preemption.nominated_to);
        let _ = writeln!(page, "  {}", paint.good(&text));
    }
}

fn result(page: &mut String, explanation: &Explanation, paint: Paint) {
    section(page, paint, "The result");
    let (attempt, choice) = (&explanation.attempt, &explanation.choice);
    if choice.node.is_empty() {
        let _ = writeln!(page, "  {}", paint.bad(&attempt.message));
    } else {
        let _ = writeln!(page, "  {}", paint.good(&format!("{}{}", choice.node, why(choice))));
    }
    if !explanation.what_if.is_empty() {
        let before = &explanation.node_before;
        let changed = if *before == choice.node { "the same" } else { "another one" };
        let before = if before.is_empty() { "none" } else { before };
        let _ = writeln!(page, "  the node of the real attempt was {changed}: {before}");
    } else if !choice.node.is_empty() && !attempt.end.is_empty() {
        let _ = writeln!(page, "  then: {}", attempt.end);
    }
    if !explanation.timings.is_empty() {
        let times: Vec<String> =
            explanation.timings.iter().map(|time| format!("{} {}", time.point, duration(time.took_us))).collect();
        let _ = writeln!(page, "  {}", paint.faint(&format!("it took: {}", times.join(", "))));
    }
    for difference in &explanation.differences {
        let _ = writeln!(page, "  objects outside the snapshot have changed since: {difference}");
    }
    if let Some(verification) = &explanation.verification {
        let _ = writeln!(page, "  {}", verified(verification, paint));
    }
}

fn why(choice: &Choice) -> String {
    let evaluated = count(choice.evaluated, "node");
    match (choice.feasible, choice.ties.len()) {
        (1, _) if !choice.nominated_node.is_empty() && choice.evaluated == 1 => {
            ", to which it was nominated before".to_owned()
        }
        (1, _) => format!(", the only one of {evaluated} on which it fits"),
        (feasible, 0 | 1) => format!(", the best of {feasible} that fit, of {evaluated} searched"),
        (feasible, ties) => {
            let draw = if choice.draw == "Random" { "drawn at random" } else { "taken in turn" };
            format!(", {draw} from the {ties} best of {feasible} that fit: {}", shortened(&choice.ties))
        }
    }
}

fn verified(verification: &Verification, paint: Paint) -> String {
    let Verification { unknown, compared, skipped, differences } = verification;
    if !unknown.is_empty() {
        return format!("the reference evaluator does not know {}", unknown.join(", "));
    }
    let changed = match skipped.is_empty() {
        true => String::new(),
        false => format!(" that can be compared; objects have changed since for {}", skipped.join(", ")),
    };
    match differences.is_empty() {
        true => paint.good(&format!("the reference evaluator agrees in all {compared} verdicts and scores{changed}")),
        false => paint.bad(&format!("the reference evaluator does not agree: {}", differences.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    fn check(document: Value, one_node: bool, expected: &Expect) {
        let explanation: Explanation = serde_json::from_value(document).unwrap();
        expected.assert_eq(&of(&explanation, &View { paint: Paint { on: false }, one_node }));
    }

    fn passed(plugin: &str) -> Value {
        json!({"plugin": plugin, "result": "Success"})
    }

    fn rejected(plugin: &str, reason: &str) -> Value {
        json!({"plugin": plugin, "result": "Unschedulable", "reasons": [reason]})
    }

    fn scores(fit: i64, affinity: (i64, i64)) -> Value {
        json!([
            {"plugin": "NodeResourcesFit", "raw": fit, "score": fit, "weight": 1},
            {"plugin": "NodeAffinity", "raw": affinity.0, "score": affinity.1, "weight": 2},
        ])
    }

    fn scheduled() -> Value {
        json!({
            "attempt": {"id": 7, "at": "2026-01-02T03:04:05Z", "pod": "shop/web", "attempt": 2,
                "profile": "default-scheduler", "result": "scheduled", "node": "node-0", "end": "bound"},
            "snapshot": {"nodes": 4, "pods": 1, "revision": 812},
            "queue": [
                {"beforeMs": 61500, "queue": "unschedulable", "event": "ScheduleAttemptFailure"},
                {"beforeMs": 2, "queue": "active", "event": "NodeAdd"},
            ],
            "rejectedBy": ["NodeResourcesFit"],
            "preFilters": [
                {"plugin": "NodeAffinity", "result": "AllNodes"},
                {"plugin": "NodePorts", "result": "Skip"},
                {"plugin": "VolumeZone", "result": "Skip"},
            ],
            "nodes": [
                {"name": "node-0", "searched": true, "fits": true, "chosen": true, "total": 290,
                    "filters": [passed("TaintToleration"), passed("NodeResourcesFit")], "scores": scores(90, (10, 100))},
                {"name": "node-1", "searched": true, "fits": true, "total": 90,
                    "filters": [passed("TaintToleration"), passed("NodeResourcesFit")], "scores": scores(90, (0, 0))},
                {"name": "node-2", "searched": true, "filters": [
                    rejected("TaintToleration", "node(s) had untolerated taint(s)"),
                    rejected("NodeResourcesFit", "Insufficient cpu")]},
                {"name": "node-10", "fits": true, "filters": [passed("TaintToleration"), passed("NodeResourcesFit")]},
            ],
            "choice": {"node": "node-0", "evaluated": 3, "feasible": 2, "bestTotal": 290, "ties": ["node-0"]},
            "timings": [{"point": "PreFilter", "status": "Success", "took_us": 12},
                {"point": "Filter", "status": "Success", "took_us": 1234}],
            "verification": {"compared": 8},
        })
    }

    #[test]
    fn a_pod_with_a_node() {
        check(
            scheduled(),
            false,
            &expect![[r#"
            Pod shop/web, attempt 2
              at 2026-01-02T03:04:05Z, profile default-scheduler
              on a snapshot of 4 nodes with 1 pod, revision 812

            Why now? (queue)
              rejected last time by NodeResourcesFit
                  61.5 s before: unschedulable because of ScheduleAttemptFailure
                  2.0 ms before: active because of NodeAdd

            Which nodes come into question? (PreFilter)
              all
              nothing to filter: NodePorts, VolumeZone

            Where does it fit? (Filter)
              ✓ node-0
              ✓ node-1
              ✗ node-2   TaintToleration: node(s) had untolerated taint(s); NodeResourcesFit: Insufficient cpu
              · node-10  would fit; not searched, because enough nodes were found

            Which one is best? (Score, from 0 to 100; the plugin's own number in brackets)
                                weight    node-0  node-1
              NodeResourcesFit      ×1        90      90
              NodeAffinity          ×2  100 (10)       0
              sum of score × weight          290      90

            The result
              node-0, the best of 2 that fit, of 3 nodes searched
              then: bound
              it took: PreFilter 12 µs, Filter 1.2 ms
              the reference evaluator agrees in all 8 verdicts and scores
        "#]],
        );
    }

    #[test]
    fn one_node_in_full() {
        let mut document = scheduled();
        document["nodes"].as_array_mut().unwrap().retain(|node| node["name"] == "node-2");
        check(
            document,
            true,
            &expect![[r#"
            Pod shop/web, attempt 2
              at 2026-01-02T03:04:05Z, profile default-scheduler
              on a snapshot of 4 nodes with 1 pod, revision 812

            Why now? (queue)
              rejected last time by NodeResourcesFit
                  61.5 s before: unschedulable because of ScheduleAttemptFailure
                  2.0 ms before: active because of NodeAdd

            Which nodes come into question? (PreFilter)
              all
              nothing to filter: NodePorts, VolumeZone

            Where does it fit? (Filter)
              ✗ node-2  TaintToleration: node(s) had untolerated taint(s); NodeResourcesFit: Insufficient cpu
                  ✗ TaintToleration: node(s) had untolerated taint(s); without other pods it may fit
                  ✗ NodeResourcesFit: Insufficient cpu; without other pods it may fit

            The result
              node-0, the best of 2 that fit, of 3 nodes searched
              then: bound
              it took: PreFilter 12 µs, Filter 1.2 ms
              the reference evaluator agrees in all 8 verdicts and scores
        "#]],
        );
    }

    #[test]
    fn a_tie_and_a_what_if() {
        let mut document = scheduled();
        document["whatIf"] = json!(["weight=NodeAffinity:0"]);
        document["nodeBefore"] = json!("node-1");
        document["choice"]["ties"] = json!(["node-0", "node-1"]);
        document["choice"]["draw"] = json!("Random");
        document["verification"] = json!({"unknown": ["volumes with storage"]});
        let explanation: Explanation = serde_json::from_value(document).unwrap();
        let mut text = String::new();
        result(&mut text, &explanation, Paint { on: true });
        expect![[r#"

            ESC[1mThe resultESC[0m
              ESC[32mnode-0, drawn at random from the 2 best of 2 that fit: node-0, node-1ESC[0m
              the node of the real attempt was another one: node-1
              ESC[2mit took: PreFilter 12 µs, Filter 1.2 msESC[0m
              the reference evaluator does not know volumes with storage
        "#]]
        .assert_eq(&text.replace('\u{1b}', "ESC"));
    }

    /// An extender has failed. The attempt does not tell which nodes the cycle had searched.
    #[test]
    fn a_cycle_that_has_failed() {
        let document = json!({
            "attempt": {"pod": "shop/web", "result": "error", "message": "Post \"http://a/f\": EOF"},
            "nodes": [{"name": "a", "fits": true}, {"name": "b", "filters": [rejected("NodeName", "elsewhere")]}],
        });
        let (mut text, explanation) = (String::new(), serde_json::from_value(document).unwrap());
        filters(&mut text, &explanation, &View { paint: Paint { on: false }, one_node: false });
        let expected =
            "\nWhere does it fit? (Filter)\n  · a  would fit, but the cycle has failed\n  ✗ b  NodeName: elsewhere\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_pod_without_a_node() {
        let message = "0/2 nodes are available: 2 Insufficient cpu.";
        check(
            json!({
                "attempt": {"at": "2026-01-02T03:04:05Z", "pod": "shop/vip", "attempt": 1,
                    "profile": "default-scheduler", "result": "unschedulable", "message": message, "end": message},
                "snapshot": {"nodes": 2, "pods": 3, "revision": 9},
                "preFilters": [{"plugin": "NodeAffinity", "result": "Nodes", "nodes": ["a", "b"]}],
                "nodes": [
                    {"name": "a", "searched": true, "filters": [rejected("NodeResourcesFit", "Insufficient cpu")]},
                    {"name": "b", "searched": true, "filters": [rejected("NodeResourcesFit", "Insufficient cpu")],
                        "nominatedPods": ["shop/king"]},
                ],
                "preemption": {
                    "nominatedTo": "b", "victims": ["shop/old"],
                    "candidates": [
                        {"plugin": "DefaultPreemption", "node": "b", "victims": ["shop/old"]},
                        {"plugin": "DefaultPreemption", "node": "a", "victims": ["shop/x", "shop/y"], "violations": 1,
                            "worseBecause": "more disruption budgets would be violated"},
                    ],
                },
            }),
            false,
            &expect![[r#"
                Pod shop/vip, attempt 1
                  at 2026-01-02T03:04:05Z, profile default-scheduler
                  on a snapshot of 2 nodes with 3 pods, revision 9

                Which nodes come into question? (PreFilter)
                  only a, b, NodeAffinity

                Where does it fit? (Filter)
                  ✗ a  NodeResourcesFit: Insufficient cpu
                  ✗ b  NodeResourcesFit: Insufficient cpu
                       beside shop/king, which wait for room there

                Would it fit without others? (PostFilter)
                  1. b without shop/old
                  2. a without shop/x, shop/y, 1 of them protected by a disruption budget: more disruption budgets would be violated
                  nominated to b, evicts shop/old

                The result
                  0/2 nodes are available: 2 Insufficient cpu.
            "#]],
        );
    }
}
