//! `MatchConditions`: CEL expressions over the review that select the requests a webhook authorizer decides.
//!
//! Corresponds to k8s.io/apiserver/pkg/authorization/cel.

use cel::{Declaration, Environment, Failure, Meter, Program, Type, Value};
use proto::meta::status::FieldError;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// CEL cost limit of all conditions of one request together.
const MAX_COST: u64 = 10_000_000;

/// The conditions, all of which must be true.
#[derive(Debug, Default)]
pub struct MatchConditions(Vec<Program>);

impl MatchConditions {
    /// Compiles the conditions; `field` is the path of the authorizer in errors.
    pub fn compile(expressions: &[String], field: &str) -> (Self, Vec<FieldError>) {
        let request = request();
        let environment = Environment::default().with("request", request.kind.clone(), Some(&request));
        let (mut programs, mut errors) = (Vec::new(), Vec::new());
        for (index, text) in expressions.iter().enumerate() {
            let field = format!("{field}.matchConditions[{index}].expression");
            if text.trim().is_empty() {
                errors.push(FieldError::required(field, ""));
                continue;
            }
            match environment.compile(text) {
                Ok(program) if *program.result() == Type::Bool => programs.push(program),
                Ok(_) => errors.push(FieldError::invalid(field, &json!(text), "must evaluate to bool")),
                Err(why) => {
                    errors.push(FieldError::invalid(field, &json!(text), format!("compilation failed: {why}")));
                }
            }
        }
        (Self(programs), errors)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates the conditions. One that is false decides, even if another one fails.
    pub fn hold(&self, spec: &Json) -> Result<bool, String> {
        let request = Value::of_json(spec);
        let mut meter = Meter::new(MAX_COST);
        let mut errors = Vec::new();
        for program in &self.0 {
            match program.run(vec![request.clone()], &mut meter) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(Failure::TooCostly) => errors.push("operation cancelled: actual cost limit exceeded".to_owned()),
                Err(Failure::Error(why)) => errors.push(format!("cel evaluation error: {why}")),
            }
        }
        if errors.is_empty() { Ok(true) } else { Err(errors.join(", ")) }
    }
}

/// Declares `request`, of type `SubjectAccessReviewSpec`.
fn request() -> Declaration {
    let text = || Declaration::scalar(Type::String, 2).with_max(cel::MAX_REQUEST_BYTES);
    let texts = || Declaration::list(text(), None);
    let object = |name: &str, fields: Vec<(&str, Declaration)>| {
        let fields: BTreeMap<String, Declaration> =
            fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
        Declaration::object(&format!("kubernetes.{name}"), fields, 0)
    };
    let requirement = |name: &str| object(name, vec![("key", text()), ("operator", text()), ("values", texts())]);
    let selector = |name: &str, requirement: Declaration| {
        object(name, vec![("rawSelector", text()), ("requirements", Declaration::list(requirement, None))])
    };
    let mut resource: Vec<(&str, Declaration)> =
        ["namespace", "verb", "group", "version", "resource", "subresource", "name"].map(|name| (name, text())).into();
    resource.push(("fieldSelector", selector("FieldSelectorAttributes", requirement("FieldSelectorRequirement"))));
    resource.push(("labelSelector", selector("LabelSelectorAttributes", requirement("LabelSelectorRequirement"))));
    object(
        "SubjectAccessReviewSpec",
        vec![
            ("resourceAttributes", object("ResourceAttributes", resource)),
            ("nonResourceAttributes", object("NonResourceAttributes", vec![("path", text()), ("verb", text())])),
            ("user", text()),
            ("groups", texts()),
            ("uid", text()),
            ("extra", Declaration::map(texts(), None)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::Attributes;
    use crate::authz::review_spec;
    use request::UserInfo;

    #[test]
    fn conditions_are_about_the_review() {
        let ann = UserInfo::new("ann", &["devs"]);
        let pods = Attributes { namespace: "shop", ..Attributes::of_resource(&ann, "list", "", "pods") };
        let metrics = Attributes::of_path(&ann, "get", "/metrics");
        for (expressions, of_pods, of_metrics) in [
            (vec!["has(request.resourceAttributes)"], Ok(true), Ok(false)),
            (vec!["request.user == 'ann'", "'devs' in request.groups"], Ok(true), Ok(true)),
            (vec!["request.resourceAttributes.namespace == 'shop'"], Ok(true), Err(())),
            // A false condition decides.
            (vec!["request.resourceAttributes.namespace == 'shop'", "false"], Ok(false), Ok(false)),
            (
                vec!["has(request.resourceAttributes) && request.resourceAttributes.namespace != 'kube-system'"],
                Ok(true),
                Ok(false),
            ),
        ] {
            let expressions: Vec<String> = expressions.into_iter().map(str::to_owned).collect();
            let (conditions, errors) = MatchConditions::compile(&expressions, "authorizers[0]");
            assert_eq!(errors, []);
            let hold = |attributes| conditions.hold(&review_spec::of(attributes)).map_err(drop);
            assert_eq!((hold(&pods), hold(&metrics)), (of_pods, of_metrics), "{expressions:?}");
        }
    }

    #[test]
    fn what_cannot_be_compiled_is_refused_with_its_place() {
        let expressions = ["", "request.nobody == 1", "request.user"].map(str::to_owned);
        let (_, errors) = MatchConditions::compile(&expressions, "authorizers[2]");
        let texts: Vec<String> = errors.iter().map(|e| e.to_string().lines().next().unwrap().to_owned()).collect();
        assert_eq!(texts[0], "authorizers[2].matchConditions[0].expression: Required value");
        assert!(texts[1].starts_with("authorizers[2].matchConditions[1].expression: Invalid value: \"request.nobody == 1\": compilation failed: "), "{}", texts[1]);
        assert_eq!(
            texts[2],
            "authorizers[2].matchConditions[2].expression: Invalid value: \"request.user\": must evaluate to bool"
        );
    }
}
