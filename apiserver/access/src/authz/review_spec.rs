//! Builds the spec of a SubjectAccessReview from the attributes of a request.
//!
//! Corresponds to resourceAttributesFrom and its neighbours in k8s.io/apiserver/plugin/pkg/authorizer/webhook.

use super::attributes::Attributes;
use proto::meta::field_selector::FieldSelector;
use proto::meta::selector::{Operator, Selector};
use request::UserInfo;
use serde_json::{Map, Value, json};

/// Returns the spec with all text fields, also empty ones, as CEL expressions see it.
pub fn of(attributes: &Attributes<'_>) -> Value {
    let UserInfo { name, uid, groups, extra } = attributes.user;
    let mut spec = json!({"user": name, "groups": groups, "uid": uid, "extra": extra});
    match attributes.path {
        Some(path) => spec["nonResourceAttributes"] = json!({"path": path, "verb": attributes.verb}),
        None => spec["resourceAttributes"] = resource(attributes),
    }
    spec
}

fn resource(attributes: &Attributes<'_>) -> Value {
    let mut resource = json!({
        "namespace": attributes.namespace,
        "verb": attributes.verb,
        "group": attributes.group,
        "version": attributes.version,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    });
    let fields = fields(attributes.field_selector);
    if !fields.is_empty() {
        resource["fieldSelector"] = json!({"requirements": fields});
    }
    let labels = labels(attributes.label_selector);
    if !labels.is_empty() {
        resource["labelSelector"] = json!({"requirements": labels});
    }
    resource
}

/// Returns the requirements of a field selector. An invalid selector gives none: the review is then about more objects,
/// never about fewer.
fn fields(selector: &str) -> Vec<Value> {
    let selector = FieldSelector::parse(selector).unwrap_or_default();
    let requirement = |term: &proto::meta::field_selector::Term| {
        let operator = if term.equal { "In" } else { "NotIn" };
        json!({"key": term.path, "operator": operator, "values": [term.value]})
    };
    selector.terms().iter().map(requirement).collect()
}

fn labels(selector: &str) -> Vec<Value> {
    let selector = Selector::parse(selector).unwrap_or_default();
    let requirement = |requirement: &proto::meta::selector::Requirement| {
        let operator = match requirement.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => return Some(json!({"key": requirement.key, "operator": "Exists"})),
            Operator::DoesNotExist => return Some(json!({"key": requirement.key, "operator": "DoesNotExist"})),
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        Some(json!({"key": requirement.key, "operator": operator, "values": requirement.values}))
    };
    selector.requirements().iter().filter_map(requirement).collect()
}

/// Returns the spec without empty fields, as it is sent.
pub fn trimmed(spec: &Value) -> Value {
    let is_said = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    };
    let Value::Object(members) = spec else { return spec.clone() };
    let said = members.iter().map(|(key, value)| (key.clone(), trimmed(value))).filter(|(_, value)| is_said(value));
    Value::Object(said.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_it_selects() {
        let ann = UserInfo::new("ann", &["devs"]);
        let list = Attributes {
            namespace: "shop",
            field_selector: "spec.nodeName=n1,status.phase!=Failed",
            label_selector: "app in (a,b),!old,tier=web",
            ..Attributes::of_resource(&ann, "list", "", "pods")
        };
        let expected = json!({
            "user": "ann", "groups": ["devs"],
            "resourceAttributes": {
                "namespace": "shop", "verb": "list", "version": "*", "resource": "pods",
                "fieldSelector": {"requirements": [
                    {"key": "spec.nodeName", "operator": "In", "values": ["n1"]},
                    {"key": "status.phase", "operator": "NotIn", "values": ["Failed"]},
                ]},
                "labelSelector": {"requirements": [
                    {"key": "app", "operator": "In", "values": ["a", "b"]},
                    {"key": "old", "operator": "DoesNotExist"},
                    {"key": "tier", "operator": "In", "values": ["web"]},
                ]},
            },
        });
        assert_eq!(trimmed(&of(&list)), expected);
        let broken = Attributes { field_selector: "nonsense", label_selector: "a in b", ..list };
        assert_eq!(trimmed(&of(&broken))["resourceAttributes"].get("fieldSelector"), None);
        let path = trimmed(&of(&Attributes::of_path(&ann, "get", "/metrics")));
        assert_eq!(path["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
    }
}
