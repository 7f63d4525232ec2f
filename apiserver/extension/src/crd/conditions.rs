//! Decides the status of a definition: its accepted names, whether it is established, and whether its group allows it.
//!
//! Pure. Corresponds to the naming, establishing and API approval controllers of
//! k8s.io/apiextensions-apiserver/pkg/controller.

use super::definition::{APPROVED, Definition, is_protected_group};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub const NAMES_ACCEPTED: &str = "NamesAccepted";
pub const ESTABLISHED: &str = "Established";
pub const TERMINATING: &str = "Terminating";
const CONFORMANT: &str = "KubernetesAPIApprovalPolicyConformant";

/// Returns the status that a definition should have, given the other definitions. Conditions that change get the time
/// `now`.
pub fn decided(definition: &Definition<'_>, others: &[Definition<'_>], now: &str) -> Value {
    let mut status = definition.0.get("status").cloned().unwrap_or_else(|| json!({}));
    let taken = Taken::of(definition, others);
    let (names, conflict) = accepted(definition, &taken);
    let is_accepted = conflict.is_none();
    let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    set(&mut status, NAMES_ACCEPTED, is_accepted, reason, &message, now);
    if !definition.is_true(ESTABLISHED) {
        if is_accepted {
            let message = "the initial names have been accepted";
            set(&mut status, ESTABLISHED, true, "InitialNamesAccepted", message, now);
        } else {
            set(&mut status, ESTABLISHED, false, "NotAccepted", "not all names are accepted", now);
        }
    }
    if is_protected_group(definition.group()) {
        let annotation = definition.annotation(APPROVED);
        let approval = Approval::of(annotation);
        let message = approval.message(annotation.unwrap_or_default());
        set(&mut status, CONFORMANT, approval == Approval::Given, approval.reason(), &message, now);
    }
    status["acceptedNames"] = Value::Object(names);
    status
}

/// Sets a condition. `lastTransitionTime` changes only with the status.
pub fn set(status: &mut Value, kind: &str, is_true: bool, reason: &str, message: &str, now: &str) {
    let word = if is_true { "True" } else { "False" };
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let fresh = json!({
        "type": kind, "status": word, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(condition) => {
            let since = condition["lastTransitionTime"].clone();
            let is_same = condition["status"] == word;
            *condition = fresh;
            if is_same {
                condition["lastTransitionTime"] = since;
            }
        }
        None => conditions.push(fresh),
    }
}

/// The names that other definitions of the same group have.
#[derive(Default)]
struct Taken<'a> {
    resources: BTreeSet<&'a str>,
    kinds: BTreeSet<&'a str>,
}

impl<'a> Taken<'a> {
    fn of(definition: &Definition<'_>, others: &[Definition<'a>]) -> Self {
        let mut taken = Self::default();
        let of_group = others.iter().filter(|other| other.group() == definition.group());
        for other in of_group.filter(|other| other.name() != definition.name()) {
            let names = other.accepted_names();
            taken.resources.extend([names.plural(), names.singular()]);
            taken.resources.extend(names.list("shortNames"));
            taken.kinds.extend([names.kind(), names.list_kind()]);
        }
        taken.resources.remove("");
        taken.kinds.remove("");
        taken
    }
}

/// Returns the names that a definition gets, and the last conflict if it does not get all. A name in conflict keeps its
/// earlier value.
fn accepted(definition: &Definition<'_>, taken: &Taken<'_>) -> (Map<String, Value>, Option<(&'static str, String)>) {
    let wanted = definition.names();
    let mut names = definition.accepted_names().0.as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    let in_use = |what: &str| format!("\"{what}\" is already in use");
    let mut give = |key: &str, conflicting: Option<&str>, reason: &'static str, value: Option<Value>| {
        if let Some(what) = conflicting {
            conflict = Some((reason, in_use(what)));
            return;
        }
        match value {
            Some(value) => drop(names.insert(key.to_owned(), value)),
            None => drop(names.remove(key)),
        }
    };
    let filled = |text: &str| (!text.is_empty()).then(|| json!(text));
    let is_taken = |set: &BTreeSet<&str>, text: &'_ str| set.contains(text);
    for (key, text, set, reason) in [
        ("plural", wanted.plural(), &taken.resources, "PluralConflict"),
        ("singular", wanted.singular(), &taken.resources, "SingularConflict"),
    ] {
        give(key, Some(text).filter(|text| is_taken(set, text)), reason, filled(text));
    }
    let short = wanted.list("shortNames");
    let conflicting = short.iter().find(|name| is_taken(&taken.resources, name)).copied();
    give("shortNames", conflicting, "ShortNamesConflict", (!short.is_empty()).then(|| json!(short)));
    for (key, text, reason) in
        [("kind", wanted.kind(), "KindConflict"), ("listKind", wanted.list_kind(), "ListKindConflict")]
    {
        give(key, Some(text).filter(|text| is_taken(&taken.kinds, text)), reason, filled(text));
    }
    let categories = wanted.list("categories");
    give("categories", None, "", (!categories.is_empty()).then(|| json!(categories)));
    (names, conflict)
}

/// The approval annotation of a definition in one of Kubernetes' own groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    Missing,
    /// The annotation says why there is no approval.
    Bypassed,
    /// The annotation is the URL of the approval.
    Given,
    Unreadable,
}

impl Approval {
    pub fn of(annotation: Option<&str>) -> Self {
        let is_url = |text: &str| {
            let url = text.parse::<http::Uri>().ok();
            url.is_some_and(|url| url.scheme().is_some() && url.host().is_some_and(|host| !host.is_empty()))
        };
        match annotation {
            None | Some("") => Self::Missing,
            Some(text) if text.starts_with("unapproved") => Self::Bypassed,
            Some(text) if is_url(text) => Self::Given,
            Some(_) => Self::Unreadable,
        }
    }

    pub fn message(self, annotation: &str) -> String {
        let must = format!("protected groups must have approval annotation \"{APPROVED}\"");
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        match self {
            Self::Missing => format!("{must}, {see}"),
            Self::Bypassed => format!("not approved: {annotation:?}"),
            Self::Given => format!("approved in {annotation}"),
            Self::Unreadable => {
                format!("{must} with either a URL or a reason starting with \"unapproved\", {see}")
            }
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Missing => "MissingAnnotation",
            Self::Bypassed => "UnapprovedAnnotation",
            Self::Given => "ApprovedAnnotation",
            Self::Unreadable => "InvalidAnnotation",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({
            "metadata": {"name": format!("{plural}.a.example")},
            "spec": {
                "group": "a.example", "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": short},
                "versions": [],
            },
        })
    }

    fn with_status(mut definition: Value) -> Value {
        definition["status"] = decided(&Definition(&definition), &[], "t0");
        definition
    }

    fn shown(status: &Value) -> Vec<String> {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().map(|c| format!("{}={} {} {}", c["type"], c["status"], c["reason"], c["message"])).collect()
    }

    #[test]
    fn the_first_definition_gets_the_names() {
        let first = with_status(definition("gadgets", "Gadget", &["gd"]));
        assert_eq!(
            shown(&first["status"]),
            [
                r#""NamesAccepted"="True" "NoConflicts" "no conflicts found""#,
                r#""Established"="True" "InitialNamesAccepted" "the initial names have been accepted""#,
            ]
        );
        assert_eq!(first["status"]["acceptedNames"]["shortNames"], json!(["gd"]));
        let second = definition("others", "Other", &["gd"]);
        let status = decided(&Definition(&second), &[Definition(&first), Definition(&second)], "t1");
        assert_eq!(
            shown(&status),
            [
                r#""NamesAccepted"="False" "ShortNamesConflict" "\"gd\" is already in use""#,
                r#""Established"="False" "NotAccepted" "not all names are accepted""#,
            ]
        );
        assert_eq!(
            status["acceptedNames"],
            json!({"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"})
        );
    }

    #[test]
    fn nothing_changes_the_second_time_and_what_is_established_stays_so() {
        let first = with_status(definition("gadgets", "Gadget", &[]));
        assert_eq!(decided(&Definition(&first), &[Definition(&first)], "t9"), first["status"]);
        let rival = with_status(definition("rivals", "Rival", &["gd"]));
        let mut changed = first.clone();
        changed["spec"]["names"]["shortNames"] = json!(["gd"]);
        let status = decided(&Definition(&changed), &[Definition(&rival), Definition(&changed)], "t9");
        assert_eq!(status["conditions"][0]["status"], "False");
        assert_eq!(status["conditions"][1], first["status"]["conditions"][1]);
        assert_eq!(status["acceptedNames"], first["status"]["acceptedNames"]);
    }
}
