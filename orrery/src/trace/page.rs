//! Prints a trace: the gates in order, and the decisions and changes at each.

use request::trace::document::{Trace, TracedRequest, TracedResponse};
use request::trace::{Gate, Step, StepOutcome};
use serde_json::Value;
use std::fmt::Write;

/// Most characters of a patch's value; the JSON has all of it.
const MAX_VALUE_CHARS: usize = 100;
/// Most characters of a line with names.
const MAX_LINE_CHARS: usize = 100;

/// Formats a trace as text.
pub fn of(trace: &Trace) -> String {
    let mut page = head(trace);
    let mut rest = trace.steps.as_slice();
    let mut number = 0;
    while let Some(first) = rest.first() {
        let end = rest.iter().position(|step| section_key(step) != section_key(first)).unwrap_or(rest.len());
        let (steps, further) = rest.split_at(end);
        number += 1;
        let _ = writeln!(page, "\n{number}. {}", title(first));
        section(&mut page, steps);
        rest = further;
    }
    if trace.steps_left_out > 0 {
        let _ = writeln!(page, "\n(and {} further steps)", trace.steps_left_out);
    }
    let TracedResponse { code, reason, message } = &trace.answer;
    let _ = writeln!(page, "\nThe answer: {}", joined(&[&code.to_string(), reason]));
    for line in message.lines() {
        let _ = writeln!(page, "  {line}");
    }
    page
}

fn joined(parts: &[&str]) -> String {
    parts.iter().copied().filter(|section_key| !section_key.is_empty()).collect::<Vec<_>>().join(" ")
}

fn head(trace: &Trace) -> String {
    let TracedRequest { method, uri, .. } = &trace.request;
    let mut page = format!("{method} {uri}\n");
    let sender = if trace.user.is_null() { "somebody unknown".to_owned() } else { user(&trace.user) };
    let _ = writeln!(page, "  from {sender}");
    if !trace.impersonated_user.is_null() {
        let _ = writeln!(page, "  who acts as {}", user(&trace.impersonated_user));
    }
    let _ = writeln!(page, "  at {}, {}, audit id {}", trace.received, took(trace.took_us), trace.audit_id);
    page
}

/// Formats a user's name and groups.
fn user(user: &Value) -> String {
    let name = user["username"].as_str().unwrap_or_default();
    let groups: Vec<&str> = user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if groups.is_empty() { name.to_owned() } else { format!("{name} ({})", groups.join(", ")) }
}

fn took(took_us: u64) -> String {
    format!("{}.{:02} ms", took_us / 1000, took_us % 1000 / 10)
}

/// Returns the key of a step's section. Steps of one section have one title.
fn section_key(step: &Step) -> (Gate, &str, u32, u32) {
    (step.gate, &step.question, step.attempt, step.round)
}

fn title(step: &Step) -> String {
    let mut title = match step.gate {
        Gate::Authentication => "Who are you? (authentication)",
        Gate::Impersonation => "On whose behalf? (impersonation)",
        Gate::FlowControl => "Is there room? (flow control)",
        Gate::Authorization => "May you? (authorization)",
        Gate::Aggregation => "Somebody else answers (aggregation)",
        Gate::Read => "What is there (a read: admission is for writes alone)",
        Gate::MutatingAdmission => "Should it be so? Who changes it (mutating admission)",
        Gate::Preparation => "What the server fills in (strategy)",
        Gate::Preconditions => "Is it still what the writer thinks? (preconditions)",
        Gate::Validation => "Is it well-formed? (validation)",
        Gate::ValidatingAdmission => "Should it be so? Who only judges (validating admission)",
        Gate::Storage => "What is kept (the store)",
    }
    .to_owned();
    if !step.question.is_empty() {
        let _ = write!(title, ": {}", step.question);
    }
    if step.attempt > 1 {
        let _ = write!(title, ", attempt {}", step.attempt);
    }
    if step.round > 1 {
        title.push_str(", once more because of what changed");
    }
    title
}

fn section(page: &mut String, steps: &[Step]) {
    let mut unchanged: Vec<&str> = Vec::new();
    for step in steps {
        if is_unchanged(step) {
            unchanged.push(&step.by);
            continue;
        }
        write_unchanged(page, &mut unchanged);
        write_step(page, step);
    }
    write_unchanged(page, &mut unchanged);
}

/// Returns true for a plugin that admitted the request without changes.
fn is_unchanged(step: &Step) -> bool {
    let is_admission = matches!(step.gate, Gate::MutatingAdmission | Gate::ValidatingAdmission);
    is_admission && step.outcome == StepOutcome::Passed && step.of.is_empty() && step.reason.is_empty()
}

fn write_unchanged(page: &mut String, unchanged: &mut Vec<&str>) {
    let mut line = String::from("   nothing to say:");
    for (number, name) in unchanged.iter().enumerate() {
        let comma = if number + 1 < unchanged.len() { "," } else { "" };
        if line.len() + name.len() + 2 > MAX_LINE_CHARS {
            let _ = writeln!(page, "{line}");
            line = String::from("     ");
        }
        let _ = write!(line, " {name}{comma}");
    }
    if !unchanged.is_empty() {
        let _ = writeln!(page, "{line}");
    }
    unchanged.clear();
}

fn write_step(page: &mut String, step: &Step) {
    let by = if step.of.is_empty() { step.by.clone() } else { format!("{}, {}", step.of, step.by) };
    let revision = step.revision.map(|revision| format!(" at revision {revision}")).unwrap_or_default();
    let _ = writeln!(page, "   {by}: {}{revision}  [{}]", word(step), took(step.took_us));
    for line in step.reason.lines() {
        let _ = writeln!(page, "     {line}");
    }
    for detail in &step.details {
        let _ = writeln!(page, "     - {detail}");
    }
    for operation in step.patch.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| operation[key].as_str().unwrap_or_default();
        let value = operation.get("value").map(|value| shortened(&value.to_string())).unwrap_or_default();
        let _ = writeln!(page, "     {}", joined(&[text("op"), text("path"), &value]));
    }
    if step.cut {
        let _ = writeln!(page, "     (and more than a trace has room for)");
    }
}

fn word(step: &Step) -> &'static str {
    match (step.gate, step.outcome) {
        (Gate::Authentication, StepOutcome::Passed) => "knows the caller",
        (Gate::Authentication, StepOutcome::NoOpinion) => "does not know the caller",
        (_, StepOutcome::NoOpinion) => "no opinion",
        (Gate::Impersonation | Gate::Authorization, StepOutcome::Passed) => "ALLOWED",
        (Gate::FlowControl, StepOutcome::Passed) => "a seat",
        (Gate::FlowControl, StepOutcome::Refused) => "NO SEAT",
        (Gate::Aggregation, StepOutcome::Passed) => "asked",
        (Gate::Aggregation, StepOutcome::Refused) => "NOT ASKED",
        (Gate::Read, StepOutcome::Passed) => "found",
        (Gate::Validation, StepOutcome::Passed) => "valid",
        (Gate::Validation, StepOutcome::Refused) => "INVALID",
        (_, StepOutcome::Passed) => "admitted",
        (_, StepOutcome::Changed) => "changed",
        (_, StepOutcome::Refused) => "REFUSED",
        (_, StepOutcome::Stored) => "STORED",
        (_, StepOutcome::Removed) => "REMOVED",
        (_, StepOutcome::NotWritten) => "nothing is written",
        (_, StepOutcome::Outrun) => "another writer was faster",
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn trace(steps: Vec<Step>) -> Trace {
        Trace {
            audit_id: "id".to_owned(),
            received: "2026-01-01T00:00:00Z".to_owned(),
            took_us: 12_345,
            request: TracedRequest { method: "POST".into(), uri: "/api/v1/pods".into(), ..TracedRequest::default() },
            user: json!({"username": "admin", "groups": ["a", "b"]}),
            impersonated_user: json!({"username": "ann"}),
            steps,
            steps_left_out: 2,
            answer: TracedResponse { code: 422, reason: "Invalid".into(), message: "one\ntwo".into() },
        }
    }

    #[test]
    fn a_page_has_a_part_for_each_gate() {
        let admission = |by: &str, outcome| Step::new(Gate::MutatingAdmission, by, outcome);
        let patch = Some(json!([
            {"op": "add", "path": "/spec/a", "value": "x".repeat(200)},
            {"op": "remove", "path": "/spec/b"},
        ]));
        let many: Vec<Step> =
            (0..12).map(|number| admission(&format!("Plugin{number}"), StepOutcome::Passed)).collect();
        let mut steps = vec![
            Step::new(Gate::Authentication, "token file", StepOutcome::NoOpinion),
            Step { took_us: 70, ..Step::new(Gate::Authentication, "client certificate", StepOutcome::Passed) }
                .because("this is admin"),
            Step { question: "create pods".into(), ..Step::new(Gate::Authorization, "Node", StepOutcome::NoOpinion) }
                .because("no node"),
            Step { question: "create pods".into(), ..Step::new(Gate::Authorization, "RBAC", StepOutcome::Passed) }
                .because("RBAC: allowed")
                .details(vec!["{}".into()]),
        ];
        steps.extend(many);
        steps.push(Step { patch, ..admission("LimitRanger", StepOutcome::Changed) });
        steps.push(Step { of: "Hooks".into(), ..admission("webhook a", StepOutcome::Passed) });
        steps.push(Step { round: 2, cut: true, ..admission("Plugin1", StepOutcome::Changed) });
        steps.push(Step {
            attempt: 2,
            ..Step::new(Gate::Storage, "/registry/pods/a/b", StepOutcome::Stored).at_revision(7)
        });
        let x = "x".repeat(MAX_VALUE_CHARS - 1);
        let expected = format!(
            "POST /api/v1/pods
  from admin (a, b)
  who acts as ann
  at 2026-01-01T00:00:00Z, 12.34 ms, audit id id

1. Who are you? (authentication)
   token file: does not know the caller  [0.00 ms]
   client certificate: knows the caller  [0.07 ms]
     this is admin

2. May you? (authorization): create pods
   Node: no opinion  [0.00 ms]
     no node
   RBAC: ALLOWED  [0.00 ms]
     RBAC: allowed
     - {{}}

3. Should it be so? Who changes it (mutating admission)
   nothing to say: Plugin0, Plugin1, Plugin2, Plugin3, Plugin4, Plugin5, Plugin6, Plugin7, Plugin8,
      Plugin9, Plugin10, Plugin11
   LimitRanger: changed  [0.00 ms]
     add /spec/a \"{x}…
     remove /spec/b
   Hooks, webhook a: admitted  [0.00 ms]

4. Should it be so? Who changes it (mutating admission), once more because of what changed
   Plugin1: changed  [0.00 ms]
     (and more than a trace has room for)

5. What is kept (the store), attempt 2
   /registry/pods/a/b: STORED at revision 7  [0.00 ms]

(and 2 further steps)

The answer: 422 Invalid
  one
  two
"
        );
        assert_eq!(of(&trace(steps)), expected);
    }
}
