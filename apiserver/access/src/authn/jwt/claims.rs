//! `ClaimRules`: validates the claims of a token and maps them to a user.
//!
//! Corresponds to the claim mappings and validation rules of k8s.io/apiserver/plugin/pkg/authenticator/token/oidc and
//! k8s.io/apiserver/pkg/authentication/cel.

use cel::{Declaration, Environment, Failure, Meter, Program, Type, Value};
use request::UserInfo;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// CEL cost limit of one expression.
const MAX_COST: u64 = 1_000_000;
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

#[derive(Debug)]
pub struct ClaimRules {
    pub validations: Vec<Validation>,
    pub username: Mapping,
    pub groups: Option<Mapping>,
    pub uid: Option<Mapping>,
    pub extra: Vec<(String, Expression)>,
    pub user_validations: Vec<Expression>,
}

#[derive(Debug)]
pub enum Validation {
    Required { claim: String, value: String },
    Holds(Expression),
}

#[derive(Debug)]
pub enum Mapping {
    Claim { name: String, prefix: String },
    Expression(Expression),
}

#[derive(Debug)]
pub struct Expression {
    pub text: String,
    /// The error message when the expression is false.
    pub message: String,
    program: Program,
}

/// The variable that an expression reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Claims,
    User,
}

impl Expression {
    /// Compiles an expression; the error has Kubernetes' wording.
    pub fn compile(text: &str, message: &str, subject: Subject, wanted: &[Type]) -> Result<Self, String> {
        let (name, declared) = match subject {
            Subject::Claims => ("claims", Declaration::map(Declaration::scalar(Type::Dyn, 1), None)),
            Subject::User => ("user", user()),
        };
        let environment = Environment::default().with(name, declared.kind.clone(), Some(&declared));
        let program = environment.compile(text).map_err(|why| format!("compilation failed: {why}"))?;
        if *program.result() != Type::Dyn && !wanted.contains(program.result()) {
            let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
            return Err(format!("must evaluate to {}", wanted.join(" or ")));
        }
        Ok(Self { text: text.to_owned(), message: message.to_owned(), program })
    }

    fn value(&self, subject: Value) -> Result<Value, String> {
        self.program.run(vec![subject], &mut Meter::new(MAX_COST)).map_err(|failure| match failure {
            Failure::TooCostly => "operation cancelled: actual cost limit exceeded".to_owned(),
            Failure::Error(why) => format!("expression '{}' resulted in error: {why}", self.text),
        })
    }

    fn holds(&self, subject: Value) -> Result<(), String> {
        match self.value(subject)? {
            Value::Bool(true) => Ok(()),
            Value::Bool(false) => Err(format!("validation expression '{}' failed: {}", self.text, self.message)),
            _ => Err("validation expression must return a boolean".to_owned()),
        }
    }
}

fn user() -> Declaration {
    let text = || Declaration::scalar(Type::String, 2).with_max(cel::MAX_REQUEST_BYTES);
    let texts = || Declaration::list(text(), None);
    let fields =
        [("username", text()), ("uid", text()), ("groups", texts()), ("extra", Declaration::map(texts(), None))];
    let fields: BTreeMap<String, Declaration> = fields.map(|(name, field)| (name.to_owned(), field)).into();
    Declaration::object("kubernetes.UserInfo", fields, 0)
}

impl ClaimRules {
    pub fn user_of(&self, claims: &Json) -> Result<UserInfo, String> {
        let subject = Value::of_json(claims);
        let mut user = UserInfo { name: self.name_of(claims, &subject)?, ..UserInfo::default() };
        user.groups = match &self.groups {
            None => Vec::new(),
            Some(Mapping::Claim { name, prefix }) => {
                let groups = claims.get(name).filter(|claim| !claim.is_null());
                let groups = groups.map_or(Ok(Vec::new()), string_or_strings);
                let groups = groups.map_err(|why| format!("oidc: parse groups claim {name:?}: {why}"))?;
                groups.into_iter().map(|group| format!("{prefix}{group}")).collect()
            }
            Some(Mapping::Expression(expression)) => {
                let groups = expression.value(subject.clone()).and_then(texts);
                groups.map_err(|why| format!("oidc: error evaluating group claim expression: {why}"))?
            }
        };
        for validation in &self.validations {
            validation.check(claims, &subject)?;
        }
        user.uid = match &self.uid {
            None => String::new(),
            Some(Mapping::Claim { name, .. }) => {
                text_claim(claims, name).map_err(|why| format!("oidc: parse uid claim {name:?}: {why}"))?
            }
            Some(Mapping::Expression(expression)) => {
                let uid = expression.value(subject.clone()).and_then(text);
                uid.map_err(|why| format!("oidc: error evaluating uid claim expression: {why}"))?
            }
        };
        for (key, expression) in &self.extra {
            let values = expression.value(subject.clone()).and_then(texts);
            let values = values.map_err(|why| format!("oidc: error evaluating extra claim expression: {why}"))?;
            let values: Vec<String> = values.into_iter().filter(|value| !value.is_empty()).collect();
            if !values.is_empty() {
                user.extra.insert(key.clone(), values);
            }
        }
        if let Some(id) = claims["jti"].as_str().filter(|id| !id.is_empty()) {
            user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        if !self.user_validations.is_empty() {
            let extra = json!(user.extra);
            let subject = json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": extra});
            for expression in &self.user_validations {
                let holds = expression.holds(Value::of_json(&subject));
                holds.map_err(|why| format!("oidc: error evaluating user info validation rule: {why}"))?;
            }
        }
        Ok(user)
    }

    fn name_of(&self, claims: &Json, subject: &Value) -> Result<String, String> {
        let (name, prefix) = match &self.username {
            Mapping::Claim { name, prefix } => (name, prefix),
            Mapping::Expression(expression) => {
                let name = expression.value(subject.clone()).and_then(text);
                let name = name.map_err(|why| format!("oidc: error evaluating username claim expression: {why}"))?;
                return if name.is_empty() {
                    Err("oidc: empty username via CEL expression is not allowed".to_owned())
                } else {
                    Ok(name)
                };
            }
        };
        let text = text_claim(claims, name).map_err(|why| format!("oidc: parse username claims {name:?}: {why}"))?;
        if name == "email" {
            match claims.get("email_verified") {
                None | Some(Json::Bool(true)) => {}
                Some(Json::Bool(false)) => return Err("oidc: email not verified".to_owned()),
                Some(_) => return Err("oidc: parse 'email_verified' claim: it is no boolean".to_owned()),
            }
        }
        if text.is_empty() {
            return Err(format!("oidc: parse username claims {name:?}: claim is empty"));
        }
        Ok(format!("{prefix}{text}"))
    }
}

impl Validation {
    fn check(&self, claims: &Json, subject: &Value) -> Result<(), String> {
        match self {
            Self::Required { claim, value } => {
                if claims.get(claim).is_none() {
                    return Err(format!("oidc: required claim {claim} not present in ID token"));
                }
                let got = text_claim(claims, claim).map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
                if got != *value {
                    return Err(format!(
                        "oidc: required claim {claim} value does not match. Got = {got}, want = {value}"
                    ));
                }
                Ok(())
            }
            Self::Holds(expression) => {
                let holds = expression.holds(subject.clone());
                holds.map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))
            }
        }
    }
}

fn text_claim(claims: &Json, name: &str) -> Result<String, &'static str> {
    match claims.get(name) {
        None => Err("claim not present"),
        Some(Json::String(text)) => Ok(text.clone()),
        Some(_) => Err("claim is no string"),
    }
}

fn string_or_strings(claim: &Json) -> Result<Vec<String>, &'static str> {
    match claim {
        Json::String(one) => Ok(vec![one.clone()]),
        Json::Array(items) => {
            let strings = items.iter().map(|item| item.as_str().map(str::to_owned));
            strings.collect::<Option<_>>().ok_or("an item is no string")
        }
        _ => Err("claim is neither a string nor a list of strings"),
    }
}

fn text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.as_ref().to_owned()),
        _ => Err("expression must return a string".to_owned()),
    }
}

fn texts(value: Value) -> Result<Vec<String>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(one) => Ok(if one.is_empty() { Vec::new() } else { vec![one.as_ref().to_owned()] }),
        Value::List(list) => list.items.iter().map(|item| text(item.clone())).collect(),
        _ => Err("expression must return a string or a list of strings".to_owned()),
    }
}
