//! `Step`: one step of a story, which a user takes and whose end it waits for.

use cel::{Environment, Meter, Program, Type, Value as CelValue};
use experiments::study::Span;
use proto::gvk::{Gvk, Gvr, split_api_version};
use proto::resources::Catalogue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Highest cost of one evaluation of a condition.
const MAX_COST: u64 = 1_000_000;
/// The namespace of objects that name none.
const NAMESPACE: &str = "default";

/// A step. Exactly one of its fields is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// An object to create, as for `kubectl create`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<Delete>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Time in which the user does nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
}

/// A strategic merge patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    /// Resource, group and name, as `deployments.apps/web`.
    pub object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub with: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delete {
    pub object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What happens to dependents; the server's default if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Propagation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// A condition that must become true within ten minutes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Until {
    pub object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A CEL expression about `object`, which is null while there is no such object. An expression that fails, because a
    /// field is missing for example, is not true.
    pub is: String,
}

/// The value of an external metric from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metric {
    pub name: String,
    pub value: String,
}

/// The place of an object in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub gvr: Gvr,
    pub namespace: String,
    pub name: String,
}

impl Place {
    /// Reads `deployments.apps/web`, with a namespace if the resource has some.
    pub fn read(object: &str, namespace: Option<&str>) -> Result<Self, String> {
        let want = || format!("Invalid value: {object:?}: must be RESOURCE.GROUP/NAME, such as deployments.apps/web");
        let (resource, name) = object.split_once('/').ok_or_else(want)?;
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let target = Catalogue::complete().by_group_resource(group, resource);
        let target = target.ok_or_else(|| format!("Not found: {object:?}: there is no such resource"))?;
        if name.is_empty() {
            return Err(want());
        }
        let namespace = if target.row.is_namespaced() { namespace.unwrap_or(NAMESPACE) } else { "" };
        Ok(Self { gvr: target.gvr(), namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl Until {
    /// Compiles the condition.
    pub fn program(&self) -> Result<Program, String> {
        let program = Environment::default().with("object", Type::Dyn, None).compile(&self.is)?;
        match program.result() {
            Type::Bool | Type::Dyn => Ok(program),
            _ => Err("must evaluate to bool".to_owned()),
        }
    }
}

/// Returns true if a condition holds for an object.
pub fn holds(program: &Program, object: &Value) -> bool {
    let value = program.run(vec![CelValue::of_json(object)], &mut Meter::new(MAX_COST));
    matches!(value, Ok(CelValue::Bool(true)))
}

impl Step {
    /// Returns every mistake, each with its path below the step.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let Self { create, patch, delete, until, metric, wait } = self;
        let set =
            [create.is_some(), patch.is_some(), delete.is_some(), until.is_some(), metric.is_some(), wait.is_some()];
        if set.into_iter().filter(|is_set| *is_set).count() != 1 {
            let message = "must have exactly one of create, patch, delete, until, metric, wait";
            found.push((String::new(), message.to_owned()));
        }
        found.extend(create.iter().flat_map(object_problems).map(|(path, why)| (format!(".create{path}"), why)));
        let places = [
            (".patch", patch.as_ref().map(|it| (&it.object, &it.namespace))),
            (".delete", delete.as_ref().map(|it| (&it.object, &it.namespace))),
            (".until", until.as_ref().map(|it| (&it.object, &it.namespace))),
        ];
        for (path, place) in places {
            let problem = place.and_then(|(object, namespace)| Place::read(object, namespace.as_deref()).err());
            found.extend(problem.map(|why| (format!("{path}.object"), why)));
        }
        let problem = until.as_ref().and_then(|until| until.program().err());
        found.extend(problem.map(|why| (".until.is".to_owned(), format!("compilation failed: {why}"))));
        found
    }
}

fn object_problems(object: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (group, version) = split_api_version(object["apiVersion"].as_str().unwrap_or_default());
    let kind = object["kind"].as_str().unwrap_or_default();
    if Catalogue::complete().by_gvk(&Gvk::new(group, version, kind)).is_none() {
        found.push((".kind".to_owned(), format!("no matches for kind {kind:?} in version {}", object["apiVersion"])));
    }
    if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
        found.push((".metadata.name".to_owned(), "Required value".to_owned()));
    }
    found
}
