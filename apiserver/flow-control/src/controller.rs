//! Watches the stored objects, reallocates seats periodically, and writes into each FlowSchema whether its level exists.
//!
//! Corresponds to the configuration consumer in k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go.

use super::Fairness;
use cacher::Snapshot;
use registry::Registry;
use registry::mutation::Edit;
use registry::own_write::own_mutation;
use registry::post_start::Hook;
use registry::upkeep::Upkeep;
use request::UserInfo;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Period between two allocations of seats.
const ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);
const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
const DANGLING: &str = "Dangling";

/// Runs until the server begins to shut down.
pub async fn run(upkeep: Upkeep, fairness: Arc<Fairness>) {
    let registry = &upkeep.registry;
    let row = |resource| registry.row_of(GROUP, resource);
    // If the resources are not served, the default objects stay in force.
    let (Ok((_, schemas)), Ok((_, levels))) = (row("flowschemas"), row("prioritylevelconfigurations")) else {
        upkeep.hooks.finished(Hook::FairnessConfigConsumer);
        return;
    };
    if !(schemas.cacher.ready().await && levels.cacher.ready().await) {
        return;
    }
    let mut adjust_at = upkeep.env.now() + ADJUSTMENT_PERIOD;
    let mut known: Option<(Snapshot, Snapshot)> = None;
    let mut are_written = false;
    loop {
        let (Ok(now_schemas), Ok(now_levels)) = (schemas.cacher.snapshot(), levels.cacher.snapshot()) else { return };
        let is_same =
            |(schemas, levels): &(Snapshot, Snapshot)| schemas.is_same(&now_schemas) && levels.is_same(&now_levels);
        if !known.as_ref().is_some_and(is_same) {
            let (of_schemas, of_levels) = (values(&now_schemas), values(&now_levels));
            fairness.configure(&of_schemas, &of_levels);
            upkeep.hooks.finished(Hook::FairnessConfigConsumer);
            are_written = false;
        }
        // Repeated at every period until all could be written.
        if !are_written {
            are_written = write_conditions(registry, &values(&now_schemas), &values(&now_levels)).await;
        }
        tokio::select! {
            biased;
            () = upkeep.env.shutdown().cancelled() => return,
            () = upkeep.ending.cancelled() => return,
            () = schemas.cacher.changed(&now_schemas) => {}
            () = levels.cacher.changed(&now_levels) => {}
            () = upkeep.env.sleep_until(adjust_at) => {
                fairness.adjust();
                adjust_at = upkeep.env.now() + ADJUSTMENT_PERIOD;
            }
        }
        known = Some((now_schemas, now_levels));
    }
}

fn values(snapshot: &Snapshot) -> Vec<Value> {
    snapshot.iter().map(|(_, object)| object.to_value()).collect()
}

/// Writes the condition of each schema that does not have it yet. Returns false if one could not be written.
async fn write_conditions(registry: &Registry, schemas: &[Value], levels: &[Value]) -> bool {
    let levels: BTreeSet<&str> = levels.iter().filter_map(|level| level["metadata"]["name"].as_str()).collect();
    let mut are_written = true;
    for schema in schemas {
        let wanted = condition(schema, &levels);
        if has_condition(schema, &wanted) {
            continue;
        }
        let name = schema["metadata"]["name"].as_str().unwrap_or_default();
        if let Err(error) = write_condition(registry, name, &wanted).await
            && !error.is_not_found()
        {
            tracing::debug!(flow_schema = name, %error, "its condition is not written yet");
            are_written = false;
        }
    }
    are_written
}

/// Returns the condition `Dangling`: whether the schema's level is missing.
fn condition(schema: &Value, levels: &BTreeSet<&str>) -> Value {
    let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
    let (status, reason, what) = if levels.contains(level) {
        ("False", "Found", "and it exists")
    } else {
        ("True", "NotFound", "but there is no such object")
    };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {what}");
    json!({"type": DANGLING, "status": status, "reason": reason, "message": message})
}

fn has_condition(schema: &Value, wanted: &Value) -> bool {
    let same = |known: &Value| ["type", "status", "reason", "message"].iter().all(|key| known[key] == wanted[key]);
    schema["status"]["conditions"].as_array().into_iter().flatten().any(same)
}

async fn write_condition(registry: &Registry, name: &str, wanted: &Value) -> registry::Result<()> {
    let (target, _) = registry.row_of(GROUP, "flowschemas")?;
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, "", name);
    (mutation.subresource, mutation.manager) = ("status", MANAGER);
    let now = registry.env.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    registry.update(&mut mutation, &Edit(|current: &Value| Ok(with_condition(current, wanted, &now)))).await.map(|_| ())
}

/// Returns the schema with the condition. `lastTransitionTime` changes only when the condition's status does.
fn with_condition(current: &Value, wanted: &Value, now: &str) -> Value {
    let mut schema = current.clone();
    let mut conditions = schema["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions.iter().position(|condition| condition["type"] == DANGLING);
    let mut condition = wanted.clone();
    condition["lastTransitionTime"] = match known.map(|at| &conditions[at]) {
        Some(known) if known["status"] == wanted["status"] => known["lastTransitionTime"].clone(),
        _ => json!(now),
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    schema["status"]["conditions"] = json!(conditions);
    schema
}
