//! `Selectors`: selects writes by the labels of the namespace and of the object.
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
    /// An invalid selector is an error for every request that the rules match.
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
}

/// Parses a selector; a missing one selects everything.
fn selector(value: &Value) -> Result<Selector, String> {
    if value.is_null() { Ok(Selector::everything()) } else { label_selector::from_value(Some(value)) }
}

/// Returns the labels of an object; `None` without metadata, as for the options of `CONNECT`.
fn labels(object: Option<&Value>) -> Option<BTreeMap<String, String>> {
    let labels = object?.get("metadata")?.get("labels").and_then(Value::as_object).into_iter().flatten();
    Some(labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect())
}

impl Selectors {
    /// Reads `namespaceSelector` and `objectSelector`.
    pub fn read(value: &Value) -> Self {
        Self { namespaces: selector(&value["namespaceSelector"]), objects: selector(&value["objectSelector"]) }
    }

    /// Tells whether both selectors match. If one does not match, an error of the other one does not count.
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

    /// Tells whether the new or the old object matches.
    fn selects_object(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal)?;
        let is_selected = |object| labels(object).is_some_and(|labels| selector.matches(&labels));
        Ok(selector.is_empty() || is_selected(attributes.object.as_deref()) || is_selected(attributes.old_object))
    }

    /// Tells whether the namespace matches. Cluster-scoped objects always match, a Namespace by its own labels.
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
