//! `Scope`: the variables of one field's expressions, and `Expression`: one that was compiled in a scope.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/cel Compiler.

use super::{authorization, mutation};
use crate::{Environment, ObjectType, Program, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// The name of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Object,
    OldObject,
    Namespace,
    Request,
    Params,
    Authorizer,
    RequestResource,
    Variables,
}

/// The types of the variables besides the request, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Type of `object` and `oldObject`.
    pub object: Type,
    /// Type of `params`, if there are any.
    pub params: Option<Type>,
    pub has_authorizer: bool,
    /// True if expressions may make values of the mutation types.
    pub has_patches: bool,
    /// A policy's variables with their types; `None` if it declares none.
    pub variables: Option<BTreeMap<String, Type>>,
}

/// Scope of webhooks' match conditions.
pub const MATCH_CONDITION: Scope =
    Scope { object: Type::Dyn, params: None, has_authorizer: true, has_patches: false, variables: None };

/// A compiled expression, and its variables in the order of slots.
#[derive(Debug)]
pub struct Expression {
    pub text: String,
    program: Program,
    names: Vec<Name>,
}

impl Scope {
    /// Compiles an expression. The error is worded as in Kubernetes. Without `wanted` types, any type is allowed.
    pub fn compile(&self, text: &str, wanted: &[Type]) -> Result<Expression, String> {
        let (environment, names) = self.environment();
        let program = environment.compile(text).map_err(|why| format!("compilation failed: {why}"))?;
        let found = program.result();
        if !wanted.is_empty() && !wanted.contains(found) {
            let shown: Vec<String> = wanted.iter().map(shown).collect();
            let found = self::shown(found);
            return Err(match shown.as_slice() {
                [only] => format!("must evaluate to {only} but got {found}"),
                several => format!("must evaluate to one of [{}] but got {found}", several.join(" ")),
            });
        }
        Ok(Expression { text: text.to_owned(), program, names })
    }

    /// Returns the type of an expression; the error lists all mistakes with their places.
    pub fn result(&self, text: &str) -> Result<Type, String> {
        Ok(self.environment().0.compile(text)?.result().clone())
    }

    fn environment(&self) -> (Environment<'static>, Vec<Name>) {
        let mut named = vec![
            (Name::Object, "object", self.object.clone()),
            (Name::OldObject, "oldObject", self.object.clone()),
            (Name::Namespace, "namespaceObject", NAMESPACE.clone()),
            (Name::Request, "request", REQUEST.clone()),
        ];
        if let Some(params) = &self.params {
            named.push((Name::Params, "params", params.clone()));
        }
        if self.has_authorizer {
            named.push((Name::Authorizer, "authorizer", Type::Opaque(authorization::AUTHORIZER)));
            let of_request = Type::Opaque(authorization::RESOURCE_CHECK);
            named.push((Name::RequestResource, "authorizer.requestResource", of_request));
        }
        if let Some(fields) = &self.variables {
            let kind = ObjectType { name: "kubernetes.variables".to_owned(), fields: fields.clone(), is_open: false };
            named.push((Name::Variables, "variables", Type::Object(Arc::new(kind))));
        }
        let names = named.iter().map(|(name, ..)| *name).collect();
        let environment = Environment::default().with_library(&authorization::LIBRARY);
        let mut environment =
            named.into_iter().fold(environment, |environment, (_, text, kind)| environment.with(text, kind, None));
        if self.has_patches {
            environment = environment.with_messages(mutation::patch_type).with_library(&mutation::PATCH_LIBRARY);
        }
        (environment, names)
    }
}

/// Formats a type as the original does.
fn shown(kind: &Type) -> String {
    match kind {
        Type::Null => "null_type".to_owned(),
        other => other.to_string(),
    }
}

impl Expression {
    pub fn program(&self) -> &Program {
        &self.program
    }

    pub fn names(&self) -> &[Name] {
        &self.names
    }

    pub fn result(&self) -> &Type {
        self.program.result()
    }

    /// Returns the policy's variables that the expression reads; `None` if it uses `variables` as a whole.
    pub fn variables(&self) -> Option<BTreeSet<Arc<str>>> {
        match self.names.iter().position(|name| *name == Name::Variables) {
            Some(slot) => self.program.fields_of(slot),
            None => Some(BTreeSet::new()),
        }
    }

    pub fn speaks_of_variables(&self) -> bool {
        self.variables().is_none_or(|names| !names.is_empty())
    }
}

static REQUEST: LazyLock<Type> = LazyLock::new(|| {
    let texts = |name: &str, fields: [&str; 3]| Type::object(name, &fields.map(|field| (field, Type::String)));
    let gvk = texts("kubernetes.GroupVersionKind", ["group", "version", "kind"]);
    let gvr = texts("kubernetes.GroupVersionResource", ["group", "version", "resource"]);
    let list = || Type::list(Type::String);
    let user = Type::object(
        "kubernetes.UserInfo",
        &[
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", list()),
            ("extra", Type::map(Type::String, list())),
        ],
    );
    Type::object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", gvk.clone()),
            ("resource", gvr.clone()),
            ("subResource", Type::String),
            ("requestKind", gvk),
            ("requestResource", gvr),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
});

static NAMESPACE: LazyLock<Type> = LazyLock::new(|| {
    let list = || Type::list(Type::String);
    let map = || Type::map(Type::String, Type::String);
    let metadata = Type::object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", Type::String),
            ("generateName", Type::String),
            ("namespace", Type::String),
            ("labels", map()),
            ("annotations", map()),
            ("UID", Type::String),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", Type::String),
            ("finalizers", list()),
        ],
    );
    let condition = Type::object(
        "kubernetes.NamespaceCondition",
        &[
            ("status", Type::String),
            ("type", Type::String),
            ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String),
            ("reason", Type::String),
        ],
    );
    let spec = Type::object("kubernetes.NamespaceSpec", &[("finalizers", list())]);
    let status =
        Type::object("kubernetes.NamespaceStatus", &[("conditions", Type::list(condition)), ("phase", Type::String)]);
    Type::object("kubernetes.Namespace", &[("metadata", metadata), ("spec", spec), ("status", status)])
});
