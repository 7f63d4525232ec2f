//! `ConversionReview`: builds the request to a conversion webhook, and checks its response.
//!
//! Pure. Corresponds to webhook_converter.go of k8s.io/apiextensions-apiserver/pkg/apiserver/conversion.

use super::definition::GROUP;
use proto::gvk::split_api_version;
use serde_json::{Map, Value, json};
use strategy::validation::at::{At, Errors};
use strategy::validation::object_meta::validate_annotations;

/// The versions of ConversionReview that this server supports.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// A request to convert objects to one version.
#[derive(Clone, Copy, Debug)]
pub struct Review<'a> {
    /// The version of ConversionReview.
    pub version: &'a str,
    pub uid: &'a str,
    /// The `apiVersion` to convert to.
    pub to: &'a str,
    /// The apiVersion and kind of the objects, for messages.
    pub gvk: &'a str,
    /// The objects are the items of a list.
    pub is_list: bool,
}

/// Returns the first of a webhook's ConversionReview versions that this server supports.
pub fn version_of<'a>(versions: &[&'a str]) -> Option<&'a str> {
    versions.iter().copied().find(|version| VERSIONS.contains(version))
}

/// Returns an apiVersion and kind as messages show them: `stable.example.com/v1, Kind=CronTab`.
pub fn gvk_text(api_version: &str, kind: &str) -> String {
    format!("{api_version}, Kind={kind}")
}

impl Review<'_> {
    pub fn request(&self, objects: &[Value]) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/{}", self.version),
            "kind": "ConversionReview",
            "request": {"uid": self.uid, "desiredAPIVersion": self.to, "objects": objects},
        })
    }

    /// Returns the message for a conversion that failed.
    pub fn failed(&self, why: impl std::fmt::Display) -> String {
        format!("conversion webhook for {} failed: {why}", self.gvk)
    }

    /// Checks a response, and returns the converted objects. Only their labels and annotations are taken from the webhook;
    /// all other metadata stays as it was.
    pub fn converted(&self, response: &Value, originals: &[Value]) -> Result<Vec<Value>, String> {
        let objects = self.objects(response).map_err(|why| self.failed(why))?;
        if objects.len() != originals.len() {
            let (got, expected) = (objects.len(), originals.len());
            return Err(format!("conversion webhook for {} returned {got} objects, expected {expected}", self.gvk));
        }
        let pairs = originals.iter().zip(objects).enumerate();
        pairs.map(|(index, (original, object))| self.checked(index, original, object)).collect()
    }

    fn objects<'v>(&self, response: &'v Value) -> Result<&'v [Value], String> {
        let text = |value: &'v Value| value.as_str().unwrap_or_default();
        let answer = &response["response"];
        if self.version == "v1" {
            let expected = format!("{GROUP}/v1");
            if (text(&response["apiVersion"]), text(&response["kind"])) != (&expected, "ConversionReview") {
                let got = gvk_text(text(&response["apiVersion"]), text(&response["kind"]));
                let wanted = gvk_text(&expected, "ConversionReview");
                return Err(format!("expected webhook response of {wanted}, got {got}"));
            }
            if !answer.is_object() {
                return Err("no response provided".to_owned());
            }
            if text(&answer["uid"]) != self.uid {
                return Err(format!("expected response.uid={:?}, got {:?}", self.uid, text(&answer["uid"])));
            }
        } else if !answer.is_object() {
            return Err("no response provided".to_owned());
        }
        let status = text(&answer["result"]["status"]);
        if status != "Success" {
            return Err(match text(&answer["result"]["message"]) {
                "" => format!("response.result.status was '{status}', not 'Success'"),
                message => message.to_owned(),
            });
        }
        Ok(answer["convertedObjects"].as_array().map_or(&[], Vec::as_slice))
    }

    fn checked(&self, index: usize, original: &Value, converted: &Value) -> Result<Value, String> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let gvk = self.gvk;
        let prefix = match self.is_list {
            true => format!("conversion webhook for {gvk} returned invalid converted object at index {index}"),
            false => format!("conversion webhook for {gvk} returned invalid object at index 0"),
        };
        if !converted.is_object() {
            return Err(format!("{prefix}: it is no object"));
        }
        let (expected, got) = (self.to, text(converted, "apiVersion"));
        if got != expected {
            return Err(format!("{prefix}: invalid groupVersion (expected {expected}, received {got})"));
        }
        let (expected, got) = (text(original, "kind"), text(converted, "kind"));
        if got != expected {
            return Err(format!("{prefix}: invalid kind (expected {expected}, received {got})"));
        }
        for (key, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let (expected, got) = (text(&original["metadata"], key), text(&converted["metadata"], key));
            if expected != got {
                let why = format!("must have the same {word}: {expected} != {got}");
                return Err(match self.is_list {
                    true => format!("{prefix}: {why}"),
                    false => format!("conversion webhook for {gvk} returned invalid object: {why}"),
                });
            }
        }
        with_metadata(original, converted).map_err(|why| match self.is_list {
            true => {
                format!("conversion webhook for {gvk} returned invalid metadata in object at index {index}: {why}")
            }
            false => format!("conversion webhook for {gvk} returned invalid metadata: {why}"),
        })
    }
}

/// Returns the converted object with its own labels and annotations, and with the original's other metadata.
fn with_metadata(original: &Value, converted: &Value) -> Result<Value, String> {
    let given = converted.get("metadata").ok_or("missing metadata in converted object")?;
    let given =
        given.as_object().ok_or_else(|| format!("invalid metadata of type {} in converted object", go_type(given)))?;
    let mut meta = original["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let Some(map) = given.get(field).filter(|map| !map.is_null()) else {
            meta.remove(field);
            continue;
        };
        let shown = || format!("invalid metadata.{field} of type {} in converted object", go_type(map));
        check_texts(field, map.as_object().ok_or_else(shown)?)?;
        if original["metadata"].get(field) != Some(map) {
            check_map(field, map)?;
        }
        meta.insert(field.to_owned(), map.clone());
    }
    let mut object = converted.clone();
    object["metadata"] = Value::Object(meta);
    Ok(object)
}

fn check_texts(field: &str, map: &Map<String, Value>) -> Result<(), String> {
    match map.iter().find(|(_, value)| !value.is_string()) {
        Some((key, value)) => {
            Err(format!("metadata.{field}[{key}] must be a string, but is {} in converted object", go_type(value)))
        }
        None => Ok(()),
    }
}

fn check_map(field: &str, map: &Value) -> Result<(), String> {
    let mut errors = Errors::new();
    match field {
        "labels" => At::new("metadata.labels", map).check_labels(&mut errors),
        _ => validate_annotations(&At::new("metadata.annotation", map), &mut errors),
    }
    let all: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
    match all.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// Returns Go's name for the type of a JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns an object's apiVersion and kind as messages show them; `is_list` asks for the kind of its list.
pub fn gvk_text_of(object: &Value, is_list: bool) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let kind = if is_list { format!("{}List", text("kind")) } else { text("kind").to_owned() };
    debug_assert!(!split_api_version(text("apiVersion")).0.is_empty(), "custom resources have groups");
    gvk_text(text("apiVersion"), &kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(is_list: bool) -> Review<'static> {
        Review { version: "v1", uid: "u1", to: "a.example/v2", gvk: "a.example/v1, Kind=Gadget", is_list }
    }

    fn object(version: &str, meta: Value) -> Value {
        json!({"apiVersion": format!("a.example/{version}"), "kind": "Gadget", "metadata": meta})
    }

    fn original() -> Value {
        let meta = json!({"name": "g", "namespace": "n", "uid": "7", "generation": 3, "labels": {"a": "b"}});
        object("v1", meta)
    }

    fn answer(objects: Vec<Value>) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "u1", "result": {"status": "Success"}, "convertedObjects": objects},
        })
    }

    #[test]
    fn labels_and_annotations_are_the_webhooks_and_all_else_stays() {
        let meta = json!({"name": "g", "namespace": "n", "uid": "7", "annotations": {"x": "y"}, "generation": 9});
        let converted = review(false).converted(&answer(vec![object("v2", meta)]), &[original()]).unwrap();
        let expected = json!({"name": "g", "namespace": "n", "uid": "7", "generation": 3, "annotations": {"x": "y"}});
        assert_eq!(converted, [object("v2", expected)]);
    }

    #[test]
    fn answers_are_refused_in_kubernetes_words() {
        let meta = |key: &str, value: Value| {
            let mut meta = json!({"name": "g", "namespace": "n", "uid": "7"});
            meta[key] = value;
            object("v2", meta)
        };
        let good = meta("name", json!("g"));
        let mut failed = answer(vec![]);
        failed["response"]["result"] = json!({"status": "Failed", "message": "no way"});
        let mut silent = answer(vec![]);
        silent["response"]["result"] = json!({});
        let mut other_uid = answer(vec![]);
        other_uid["response"]["uid"] = json!("u2");
        let mut other_kind = good.clone();
        other_kind["kind"] = json!("Other");
        let mut without = good.clone();
        without.as_object_mut().unwrap().remove("metadata");
        for (response, why) in [
            (
                json!({"kind": "X"}),
                " failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got , Kind=X",
            ),
            (failed, " failed: no way"),
            (silent, " failed: response.result.status was '', not 'Success'"),
            (other_uid, " failed: expected response.uid=\"u1\", got \"u2\""),
            (answer(vec![]), " returned 0 objects, expected 1"),
            (
                answer(vec![object("v1", json!({"name": "g"}))]),
                " returned invalid object at index 0: invalid groupVersion (expected a.example/v2, received a.example/v1)",
            ),
            (
                answer(vec![other_kind]),
                " returned invalid object at index 0: invalid kind (expected Gadget, received Other)",
            ),
            (answer(vec![meta("name", json!("h"))]), " returned invalid object: must have the same name: g != h"),
            (answer(vec![meta("uid", json!(""))]), " returned invalid object: must have the same UID: 7 != "),
            (answer(vec![without]), " returned invalid object: must have the same name: g != "),
            (
                answer(vec![meta("labels", json!({"a": 1}))]),
                " returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
            ),
        ] {
            let refused = review(false).converted(&response, &[original()]).unwrap_err();
            assert_eq!(refused, format!("conversion webhook for a.example/v1, Kind=Gadget{why}"));
        }
        let bad_label = answer(vec![meta("labels", json!({"a b": "c"}))]);
        let refused = review(true).converted(&bad_label, &[original()]).unwrap_err();
        let begins = "conversion webhook for a.example/v1, Kind=Gadget returned invalid metadata in object at index 0: \
                      metadata.labels: Invalid value: \"a b\"";
        assert!(refused.starts_with(begins), "{refused}");
    }
}
