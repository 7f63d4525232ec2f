//! Finds the parameters of a policy: objects of one kind, by name or by label selector.
//!
//! Corresponds to CollectParams of k8s.io/apiserver/pkg/admission/plugin/policy/generic.

use crate::Attributes;
use cacher::lookup::ObjectKey;
use proto::Gvk;
use proto::gvk::split_api_version;
use proto::meta::label_selector;
use serde_json::Value;

/// `paramRef` of a binding.
#[derive(Clone, Debug)]
pub struct ParamRef {
    name: String,
    namespace: String,
    /// Used without a name.
    selector: Value,
    /// `parameterNotFoundAction: Deny`: a write without parameters is rejected.
    denies_without: bool,
}

impl ParamRef {
    pub fn read(value: &Value) -> Option<Self> {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        value.is_object().then(|| Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: value["selector"].clone(),
            denies_without: value["parameterNotFoundAction"] == "Deny",
        })
    }
}

/// Reads `paramKind` of a policy.
pub fn kind(value: &Value) -> Option<Gvk> {
    let (group, version) = split_api_version(value["apiVersion"].as_str()?);
    Some(Gvk::new(group, version, value["kind"].as_str()?))
}

/// Returns each parameter for which the policy is evaluated, in the version of `paramKind`. The result is a single null if
/// the policy takes no parameters, and empty if none was found and the binding allows that.
pub async fn collect(
    attributes: &Attributes<'_>,
    kind: Option<&Gvk>,
    reference: Option<&ParamRef>,
) -> Result<Vec<Value>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![Value::Null]) };
    let lookup = attributes.lookup;
    let target =
        lookup.kind(kind).ok_or_else(|| format!("failed to find resource referenced by paramKind: '{kind}'"))?;
    let namespace = match (target.row.is_namespaced(), reference.namespace.as_str()) {
        (true, "") if attributes.namespace_name().is_empty() => {
            let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "") => attributes.namespace_name(),
        (true, namespace) => namespace,
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
    };
    let (group, resource) = (&target.served().group, &target.served().resource);
    let found = match reference.name.as_str() {
        "" => {
            let selector = label_selector::from_value(Some(&reference.selector))?;
            let all = lookup.list(group, resource, namespace).map_err(|status| status.message)?;
            all.into_iter().filter(|object| selector.matches(&object.index.labels)).collect()
        }
        name => {
            let key = ObjectKey::new(group, resource, namespace, name);
            let found = lookup.find(key).await.map_err(|status| status.message)?;
            found.into_iter().collect::<Vec<_>>()
        }
    };
    if found.is_empty() && reference.denies_without {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let mut params = Vec::with_capacity(found.len());
    for object in found {
        params.push(lookup.as_kind(&target, &object).await.map_err(|status| status.message)?);
    }
    Ok(params)
}
