//! The arguments of the plugins, a type a plugin, with their defaults and their validation.
//!
//! Corresponds to k8s.io/kube-scheduler/config/v1/types_pluginargs.go, and to validation_pluginargs.go and defaults.go of
//! pkg/scheduler/apis/config.

pub mod default_preemption;
pub mod dynamic_resources;
pub mod function_shape;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_resources;
pub mod pod_topology_spread;
pub mod script;
pub mod volume_binding;

pub use default_preemption::DefaultPreemptionArgs;
pub use dynamic_resources::DynamicResourcesArgs;
pub use inter_pod_affinity::InterPodAffinityArgs;
pub use node_affinity::NodeAffinityArgs;
pub use node_resources::{NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs};
pub use pod_topology_spread::PodTopologySpreadArgs;
pub use script::ScriptArgs;
pub use volume_binding::VolumeBindingArgs;

use crate::configuration::strict;
use proto::meta::status::FieldError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// API version of the arguments.
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// The arguments of one plugin.
pub trait Args: Default + DeserializeOwned + Serialize {
    /// Sets defaults that depend on other fields.
    fn complete(&mut self) {}

    /// Adds what is wrong to `errors`.
    fn validate(&self, path: &str, errors: &mut Vec<FieldError>);
}

/// Reads the arguments of a plugin at `path`, with defaults. Plugins without a type take any value.
pub fn read(plugin: &str, path: &str, value: &Value, unreadable: &mut Vec<String>) -> Value {
    match plugin {
        "DefaultPreemption" => read_as::<DefaultPreemptionArgs>(plugin, path, value, unreadable),
        "DynamicResources" => read_as::<DynamicResourcesArgs>(plugin, path, value, unreadable),
        "InterPodAffinity" => read_as::<InterPodAffinityArgs>(plugin, path, value, unreadable),
        "NodeAffinity" => read_as::<NodeAffinityArgs>(plugin, path, value, unreadable),
        "NodeResourcesBalancedAllocation" => {
            read_as::<NodeResourcesBalancedAllocationArgs>(plugin, path, value, unreadable)
        }
        "NodeResourcesFit" => read_as::<NodeResourcesFitArgs>(plugin, path, value, unreadable),
        "PodTopologySpread" => read_as::<PodTopologySpreadArgs>(plugin, path, value, unreadable),
        "VolumeBinding" => read_as::<VolumeBindingArgs>(plugin, path, value, unreadable),
        name if script::NAMES.contains(&name) => read_as::<ScriptArgs>("Script", path, value, unreadable),
        _ => value.clone(),
    }
}

fn read_as<T: Args>(plugin: &str, path: &str, value: &Value, unreadable: &mut Vec<String>) -> Value {
    let mut fields = match value {
        Value::Null => Map::new(),
        Value::Object(fields) => fields.clone(),
        other => {
            unreadable.push(format!("{path}: want a mapping, and not {other}"));
            return Value::Null;
        }
    };
    for (name, wanted) in [("apiVersion", API_VERSION.to_owned()), ("kind", format!("{plugin}Args"))] {
        if let Some(given) = fields.remove(name).filter(|given| *given != json!(wanted)) {
            unreadable.push(format!("{path}.{name}: args for plugin {plugin} want {wanted:?}, and not {given}"));
        }
    }
    let Some(mut args) = strict::decode::<T>(path, &Value::Object(fields), unreadable) else { return Value::Null };
    args.complete();
    serde_json::to_value(&args).unwrap_or_default()
}

/// Returns the defaults of a plugin's arguments; `None` for plugins without a type.
pub fn defaults(plugin: &str) -> Option<Value> {
    let args = read(plugin, "", &Value::Null, &mut Vec::new());
    (!args.is_null()).then_some(args)
}

/// Adds what is wrong with the arguments of a plugin to `errors`.
pub fn validate(plugin: &str, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
    match plugin {
        "DefaultPreemption" => validate_as::<DefaultPreemptionArgs>(path, value, errors),
        "DynamicResources" => validate_as::<DynamicResourcesArgs>(path, value, errors),
        "InterPodAffinity" => validate_as::<InterPodAffinityArgs>(path, value, errors),
        "NodeAffinity" => validate_as::<NodeAffinityArgs>(path, value, errors),
        "NodeResourcesBalancedAllocation" => {
            validate_as::<NodeResourcesBalancedAllocationArgs>(path, value, errors);
        }
        "NodeResourcesFit" => validate_as::<NodeResourcesFitArgs>(path, value, errors),
        "PodTopologySpread" => validate_as::<PodTopologySpreadArgs>(path, value, errors),
        "VolumeBinding" => validate_as::<VolumeBindingArgs>(path, value, errors),
        name if script::NAMES.contains(&name) => validate_as::<ScriptArgs>(path, value, errors),
        _ => {}
    }
}

fn validate_as<T: Args>(path: &str, value: &Value, errors: &mut Vec<FieldError>) {
    if let Ok(args) = of::<T>(value) {
        args.validate(path, errors);
    }
}

/// Returns the arguments of a plugin, with defaults where the profile has none.
pub fn of<T: Args>(value: &Value) -> Result<T, String> {
    let args = if value.is_null() { Value::Object(Map::new()) } else { value.clone() };
    let mut args: T = serde_json::from_value(args).map_err(|error| error.to_string())?;
    args.complete();
    Ok(args)
}

#[cfg(test)]
mod tests;
