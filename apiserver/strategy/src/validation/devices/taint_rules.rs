//! Validates DeviceTaintRules: which devices are tainted, and how. Dates the taint of a rule.
//!
//! Corresponds to ValidateDeviceTaintRule in pkg/apis/resource/validation, and pkg/registry/resource/devicetaintrule.

use super::identifiers::{driver, pool};
use super::{Context, taint};
use crate::object_meta::time;
use crate::validation::conditions;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};

const MAX_CONDITIONS: usize = 8;

pub fn check(_context: &Context<'_>, rule: &At<'_>, errors: &mut Errors) {
    let spec = rule.field("spec");
    let selector = spec.field("deviceSelector");
    if selector.field("driver").is_set() {
        driver(&selector.field("driver"), errors);
    }
    if selector.field("pool").is_set() {
        pool(&selector.field("pool"), errors);
    }
    if selector.field("device").is_set() {
        selector.field("device").check(names::dns1123_label, errors);
    }
    taint(&spec.field("taint"), errors);
}

pub fn status(_context: &Context<'_>, rule: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    let list = rule.down("status.conditions");
    conditions::check(&list, errors);
    if list.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(list.path.clone(), list.len(), MAX_CONDITIONS));
    }
}

pub fn date_new(context: &Context<'_>, rule: &mut Value) {
    date(context, rule, &Value::Null);
}

/// Sets `timeAdded` of the taint if it has none, or if a new effect has the time of the old one.
pub fn date(context: &Context<'_>, rule: &mut Value, old: &Value) {
    let Some(taint) = rule.pointer_mut("/spec/taint").filter(|taint| taint.is_object()) else { return };
    let before = &old["spec"]["taint"];
    let is_outdated = taint["timeAdded"] == before["timeAdded"] && taint["effect"] != before["effect"];
    if taint["timeAdded"].is_null() || is_outdated {
        taint["timeAdded"] = json!(time(context.now));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, prepared, prepared_update, update_of};
    use serde_json::{Value, json};

    fn rule(selector: Value, taint: Value) -> Value {
        json!({
            "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "r"},
            "spec": {"deviceSelector": selector, "taint": taint},
        })
    }

    #[test]
    fn a_rule_names_devices_and_a_taint() {
        let good = json!({"key": "broken", "effect": "NoExecute"});
        assert_eq!(
            create(rule(json!({"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}), good)),
            [""; 0]
        );
        let found = create(rule(json!({"driver": "", "device": "A"}), json!({"key": "", "effect": "Odd"})));
        assert_eq!(found[0], "spec.deviceSelector.driver: Required value");
        assert!(found[1].starts_with("spec.deviceSelector.device: Invalid value: \"A\""), "{found:?}");
        assert_eq!(
            found.last().unwrap(),
            "spec.taint.effect: Unsupported value: \"Odd\": supported values: \"NoExecute\", \"NoSchedule\", \"None\""
        );
        let condition = |index: usize| {
            json!({
                "type": format!("C{index}"), "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let old = rule(json!({}), json!({"key": "a", "effect": "None"}));
        let mut many = old.clone();
        many["status"] = json!({"conditions": (0..9).map(condition).collect::<Vec<_>>()});
        assert_eq!(update_of("status", old, many), ["status.conditions: Too many: 9: must have at most 8 items"]);
    }

    #[test]
    fn a_new_effect_begins_now() {
        let with = |effect: &str, time: Option<&str>| {
            let mut taint = json!({"key": "a", "effect": effect});
            if let Some(time) = time {
                taint["timeAdded"] = json!(time);
            }
            rule(json!({}), taint)
        };
        let added = |rule: Value| rule["spec"]["taint"]["timeAdded"].as_str().unwrap_or_default().to_owned();
        let (then, later) = ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z");
        let now = added(prepared(with("None", None)));
        assert!(now.starts_with("20") && now != then, "{now}");
        assert_eq!(added(prepared(with("None", Some(then)))), then);
        let updated = |effect, time| added(prepared_update(with("None", Some(then)), with(effect, time)));
        assert_eq!(updated("None", Some(then)), then);
        assert_eq!(updated("NoExecute", Some(then)), now);
        assert_eq!(updated("NoExecute", Some(later)), later);
        assert_eq!(updated("None", None), now);
    }
}
