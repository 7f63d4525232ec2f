//! `Selectors`: the namespaces and the objects that a webhook or a policy wants to see, by their labels.
//!
//! Corresponds to the predicates namespace and object of k8s.io/apiserver/pkg/admission/plugin/webhook.

use crate::{Attributes, Operation};
use cacher::lookup::ObjectKey;
use proto::Status;
use proto::meta::label_selector;
use proto::meta::selector::Selector;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Selectors {
    /// What cannot be read is an error of every request that it could concern.
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
}

/// One that is not there selects everything.
fn selector(value: &Value) -> Result<Selector, String> {
    if value.is_null() { Ok(Selector::everything()) } else { label_selector::from_value(Some(value)) }
}

/// None of what has no metadata, as the options of a connection.
fn labels(object: Option<&Value>) -> Option<BTreeMap<String, String>> {
    let labels = object?.get("metadata")?.get("labels").and_then(Value::as_object).into_iter().flatten();
    Some(labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect())
}

impl Selectors {
    /// `namespaceSelector` and `objectSelector` of what has both.
    pub fn read(value: &Value) -> Self {
        Self { namespaces: selector(&value["namespaceSelector"]), objects: selector(&value["objectSelector"]) }
    }

    /// Whether both select the write. One that says no outweighs that the other one cannot be asked.
    pub async fn select(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let objects = self.selects_object(attributes);
        if objects == Ok(false) {
            return Ok(false);
        }
        match self.selects_namespace(attributes).await {
            Ok(true) => objects,
            outcome => outcome,
        }
    }

    /// The new object or the old one.
    fn selects_object(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal)?;
        let is_selected = |object| labels(object).is_some_and(|labels| selector.matches(&labels));
        Ok(selector.is_empty() || is_selected(attributes.object.as_deref()) || is_selected(attributes.old_object))
    }

    /// What is in no namespace is always selected; a Namespace by its own labels.
    async fn selects_namespace(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let is_namespace = attributes.served.resource == "namespaces";
        if attributes.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let is_saved = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespace && attributes.subresource.is_empty() && is_saved {
            return Ok(selector.matches(&labels(attributes.object.as_deref()).unwrap_or_default()));
        }
        let name = attributes.namespace_name();
        let found = attributes.lookup.find(ObjectKey::cluster("", "namespaces", name)).await?;
        let namespace = found.ok_or_else(|| Status::not_found("", "namespaces", name))?;
        Ok(selector.matches(&namespace.index.labels))
    }
}
