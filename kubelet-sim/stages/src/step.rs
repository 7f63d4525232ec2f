//! `Step`: one thing that a stage does, and `Action`: what to send to the API server for it.

use crate::problem::Problem;
use crate::reader::{Fields, Reader};
use crate::template::{Facts, Template};
use serde_json::{Value, json};

/// One step as the stage describes it.
#[derive(Clone, Debug)]
pub enum Step {
    Event { kind: EventKind, reason: String, message: Template },
    Finalizers { add: Vec<String>, remove: Vec<String>, empties: bool },
    Delete,
    Patch { kind: PatchKind, subresource: String, root: String, template: Template, path: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Normal,
    Warning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
}

/// One request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Event {
        kind: EventKind,
        reason: String,
        message: String,
    },
    Delete,
    /// A patch of the object, or of a subresource if it is named.
    Patch {
        kind: PatchKind,
        subresource: String,
        body: Value,
    },
}

const FINALIZERS: [&str; 3] = ["add", "remove", "empty"];
const STEP: [&str; 4] = ["event", "finalizers", "delete", "patch"];
const PATCH: [&str; 5] = ["type", "subresource", "root", "template", "impersonation"];
const NEXT: [&str; 7] =
    ["event", "finalizers", "delete", "statusTemplate", "statusSubresource", "statusPatchAs", "patches"];

/// Reads `spec.next`, the older form of steps, or `spec.steps`.
pub fn read(reader: &mut Reader, spec: &Fields<'_>) -> Vec<Step> {
    if spec.get("next").is_some() == spec.get("steps").is_some() {
        reader.report(spec.path(), "must have exactly one of next and steps");
    }
    let mut steps = reader.child(spec, "next", &NEXT).map(|next| read_next(reader, &next)).unwrap_or_default();
    for (item, path) in reader.items(spec, "steps") {
        let Some(fields) = reader.object(item, &path, &STEP) else { continue };
        steps.extend(read_common(reader, &fields));
        if let Some(patch) = reader.child(&fields, "patch", &PATCH) {
            steps.extend(read_patch(reader, &patch));
        }
    }
    steps
}

fn read_next(reader: &mut Reader, next: &Fields<'_>) -> Vec<Step> {
    let mut steps = read_common(reader, next);
    refuse_impersonation(reader, next, "statusPatchAs");
    if next.get("patches").is_some() && next.get("statusTemplate").is_some() {
        reader.report(next.path_of("patches"), "must not stand beside statusTemplate");
    }
    let subresource = match next.get("statusSubresource") {
        Some(Value::String(name)) => name.clone(),
        Some(_) => {
            reader.report(next.path_of("statusSubresource"), "must be a string");
            String::new()
        }
        None => "status".to_owned(),
    };
    if let Some(template) = template(reader, next, "statusTemplate") {
        let (root, path) = ("status".to_owned(), next.path_of("statusTemplate"));
        steps.push(Step::Patch { kind: PatchKind::Strategic, subresource, root, template, path });
    }
    for (item, path) in reader.items(next, "patches") {
        let Some(fields) = reader.object(item, &path, &PATCH) else { continue };
        steps.extend(read_patch(reader, &fields));
    }
    steps
}

/// Reads what both forms have: an event, finalizers and a deletion, in the order in which they happen.
fn read_common(reader: &mut Reader, fields: &Fields<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(event) = reader.child(fields, "event", &["type", "reason", "message"]) {
        let kind = match reader.text(&event, "type") {
            None | Some("Normal") => EventKind::Normal,
            Some("Warning") => EventKind::Warning,
            Some(_) => {
                reader.report(event.path_of("type"), "must be Normal or Warning");
                EventKind::Normal
            }
        };
        let reason = reader.text(&event, "reason").unwrap_or_default().to_owned();
        if let Some(message) = template(reader, &event, "message").or_else(|| Template::parse("").ok()) {
            steps.push(Step::Event { kind, reason, message });
        }
    }
    if let Some(finalizers) = reader.child(fields, "finalizers", &FINALIZERS) {
        let mut values = |name: &str| {
            let items = reader.items(&finalizers, name).into_iter();
            let value = items.filter_map(|(item, path)| {
                let item = reader.object(item, &path, &["value"])?;
                reader.required_text(&item, "value").map(str::to_owned)
            });
            value.collect::<Vec<String>>()
        };
        let (add, remove) = (values("add"), values("remove"));
        let empties = reader.flag(&finalizers, "empty");
        if let Some(both) = add.iter().find(|name| remove.contains(name)) {
            reader.report(finalizers.path_of("remove"), format!("{both:?} is also added"));
        }
        steps.push(Step::Finalizers { add, remove, empties });
    }
    if reader.flag(fields, "delete") {
        steps.push(Step::Delete);
    }
    steps
}

fn read_patch(reader: &mut Reader, fields: &Fields<'_>) -> Option<Step> {
    refuse_impersonation(reader, fields, "impersonation");
    let kind = match reader.text(fields, "type") {
        None | Some("strategic") => PatchKind::Strategic,
        Some("json") => PatchKind::Json,
        Some("merge") => PatchKind::Merge,
        Some(_) => {
            reader.report(fields.path_of("type"), "must be json, merge or strategic");
            PatchKind::Strategic
        }
    };
    let subresource = reader.text(fields, "subresource").unwrap_or_default().to_owned();
    let root = reader.text(fields, "root").unwrap_or_default().to_owned();
    reader.required_text(fields, "template")?;
    let template = template(reader, fields, "template")?;
    Some(Step::Patch { kind, subresource, root, template, path: fields.path_of("template") })
}

/// Refuses to act as another user, which KWOK does not do for pods and nodes either.
fn refuse_impersonation(reader: &mut Reader, fields: &Fields<'_>, name: &str) {
    if fields.get(name).is_some() {
        reader.report(fields.path_of(name), "a simulated node acts as itself: impersonation is not supported");
    }
}

fn template(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<Template> {
    let text = reader.text(fields, name)?;
    Template::parse(text).map_err(|why| reader.report(fields.path_of(name), why)).ok()
}

impl Step {
    /// Returns the request for this step; none if it would change nothing.
    pub fn action(&self, object: &Value, facts: &Facts) -> Result<Option<Action>, Problem> {
        Ok(match self {
            Self::Event { kind, reason, message } => {
                let message = message.render(object, facts).map_err(|why| Problem::new("event.message", why))?;
                Some(Action::Event { kind: *kind, reason: reason.clone(), message })
            }
            Self::Finalizers { add, remove, empties } => finalizers(object, add, remove, *empties),
            Self::Delete => Some(Action::Delete),
            Self::Patch { kind, subresource, root, template, path } => {
                let body = template.render_yaml(object, facts).map_err(|why| Problem::new(path.as_str(), why))?;
                let body = rooted(*kind, root, body).map_err(|why| Problem::new(path.as_str(), why))?;
                Some(Action::Patch { kind: *kind, subresource: subresource.clone(), body })
            }
        })
    }
}

/// Returns the patch that brings the finalizers into the wanted form. It fails when they have changed meanwhile.
fn finalizers(object: &Value, add: &[String], remove: &[String], empties: bool) -> Option<Action> {
    let stored = &object["metadata"]["finalizers"];
    let present: Vec<&str> = stored.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let stays = |name: &&str| !empties && !remove.iter().any(|removed| removed == name);
    let mut wanted: Vec<&str> = present.iter().copied().filter(stays).collect();
    for name in add {
        if !wanted.contains(&name.as_str()) {
            wanted.push(name);
        }
    }
    if wanted == present {
        return None;
    }
    let path = "/metadata/finalizers";
    let test = json!({"op": "test", "path": path, "value": stored});
    let body = match (present.as_slice(), wanted.as_slice()) {
        ([], _) => json!([{"op": "add", "path": path, "value": wanted}]),
        (_, []) => json!([test, {"op": "remove", "path": path}]),
        _ => json!([test, {"op": "replace", "path": path, "value": wanted}]),
    };
    Some(Action::Patch { kind: PatchKind::Json, subresource: String::new(), body })
}

/// Puts a patch below the field that it is for.
fn rooted(kind: PatchKind, root: &str, body: Value) -> Result<Value, String> {
    match (kind, body) {
        (PatchKind::Json, Value::Array(mut operations)) => {
            for operation in operations.iter_mut().filter(|_| !root.is_empty()) {
                for name in ["path", "from"] {
                    if let Some(path) = operation[name].as_str() {
                        operation[name] = json!(format!("/{root}{path}"));
                    }
                }
            }
            Ok(Value::Array(operations))
        }
        (PatchKind::Json, _) => Err("must render a list of operations".to_owned()),
        (_, body) if !root.is_empty() => Ok(json!({ root: body })),
        (_, Value::Object(members)) => Ok(Value::Object(members)),
        _ => Err("must render an object".to_owned()),
    }
}
