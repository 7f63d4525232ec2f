//! ResourceQuota: nothing is given out beyond what a namespace may use.
//!
//! Usage is kept in each quota's status. It is raised here, by compare-and-swap, so that no two writes get the last of
//! something; the quota controller lowers it and sets right what was raised for a write that then failed.
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/resourcequota.

pub mod scope;
#[cfg(test)]
mod tests;
pub mod usage;

use super::pod_parts::text;
use super::pod_resources::{Amounts, add, amounts};
use super::{AdmissionPlugin, Attributes, ObjectKey, Operation};
use async_trait::async_trait;
use proto::Status;
use proto::meta::quantity::Quantity;
use serde_json::{Value, json};
use std::sync::Arc;
use usage::{concerns, unsaid, usage};

/// Rounds against other writers of the same quota before the write is given up.
const ATTEMPTS: usize = 64;

pub struct ResourceQuota;

#[async_trait]
impl AdmissionPlugin for ResourceQuota {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !is_counted(attributes) {
            return Ok(());
        }
        let quotas = attributes.lookup.list("", "resourcequotas", attributes.namespace)?;
        let quotas = quotas.iter().map(|quota| quota.value());
        let quotas: Vec<Arc<Value>> = quotas.filter(|quota| concerns_write(attributes, quota)).collect();
        let asked = asked(attributes);
        // All are asked before any is charged.
        for quota in &quotas {
            charged(attributes, quota, &asked)?;
        }
        if attributes.dry_run {
            return Ok(());
        }
        for quota in &quotas {
            charge(attributes, text(quota, "/metadata/name"), &asked).await?;
        }
        Ok(())
    }
}

/// Of updates, only those that can take more.
fn is_counted(attributes: &Attributes<'_>) -> bool {
    let (group, resource): (&str, &str) = (&attributes.served.group, &attributes.served.resource);
    if attributes.namespace.is_empty() {
        return false;
    }
    match (attributes.operation, attributes.subresource) {
        (Operation::Create, "") => true,
        (Operation::Update, "") => group.is_empty() && matches!(resource, "services" | "persistentvolumeclaims"),
        (Operation::Update, "resize") => group.is_empty() && resource == "pods",
        _ => false,
    }
}

fn limits(quota: &Value) -> Amounts {
    amounts(quota.pointer("/status/hard"))
}

fn concerns_write(attributes: &Attributes<'_>, quota: &Value) -> bool {
    let (group, resource): (&str, &str) = (&attributes.served.group, &attributes.served.resource);
    let is_pod = group.is_empty() && resource == "pods";
    limits(quota).keys().any(|name| concerns(group, resource, name))
        && scope::matches(quota, is_pod, attributes.new_object())
}

/// What the write takes beyond what it had.
fn asked(attributes: &Attributes<'_>) -> Amounts {
    let (group, resource): (&str, &str) = (&attributes.served.group, &attributes.served.resource);
    let mut asked = usage(group, resource, attributes.new_object());
    if attributes.operation == Operation::Update {
        for (name, had) in usage(group, resource, attributes.old()) {
            let now = asked.get(&name).copied().unwrap_or(Quantity::ZERO);
            asked.insert(name, now - had);
        }
    }
    asked.retain(|_, quantity| !quantity.is_zero());
    asked
}

/// The usage of a quota after the write; 403 where it would be more than allowed.
fn charged(attributes: &Attributes<'_>, quota: &Value, asked: &Amounts) -> Result<Option<Amounts>, Status> {
    let (group, resource): (&str, &str) = (&attributes.served.group, &attributes.served.resource);
    let (name, hard, mut used) = (text(quota, "/metadata/name"), limits(quota), amounts(quota.pointer("/status/used")));
    let limited: Vec<&String> = hard.keys().filter(|limit| concerns(group, resource, limit)).collect();
    if group.is_empty()
        && resource == "pods"
        && let Some(why) = unsaid(attributes.new_object(), limited.iter().copied())
    {
        return Err(attributes.forbidden(format_args!("failed quota: {name}: {why}")));
    }
    if limited.iter().any(|limit| !used.contains_key(*limit)) {
        let names: Vec<&str> = limited.iter().map(|limit| limit.as_str()).collect();
        return Err(
            attributes.forbidden(format_args!("status unknown for quota: {name}, resources: {}", names.join(",")))
        );
    }
    let mine: Amounts =
        asked.iter().filter(|(name, _)| hard.contains_key(*name)).map(|(name, q)| (name.clone(), *q)).collect();
    if mine.is_empty() {
        return Ok(None);
    }
    let before = used.clone();
    add(&mut used, &mine);
    let exceeded: Vec<&String> = mine
        .iter()
        .filter(|(name, quantity)| quantity.signum() > 0 && used.get(*name) > hard.get(*name))
        .map(|(name, _)| name)
        .collect();
    if exceeded.is_empty() {
        return Ok(Some(used));
    }
    let told = |of: &Amounts| -> String {
        let each = exceeded.iter().filter_map(|name| Some(format!("{name}={}", of.get(*name)?)));
        each.collect::<Vec<_>>().join(",")
    };
    Err(attributes.forbidden(format_args!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        told(&mine),
        told(&before),
        told(&hard)
    )))
}

async fn charge(attributes: &Attributes<'_>, name: &str, asked: &Amounts) -> Result<(), Status> {
    let key = ObjectKey::new("", "resourcequotas", attributes.namespace, name);
    for _ in 0..ATTEMPTS {
        let live = attributes.lookup.get_live(key).await?;
        let Some(mut quota) = live.map(|live| live.to_value()) else { return Ok(()) };
        let Some(used) = charged(attributes, &quota, asked)? else { return Ok(()) };
        quota["status"]["used"] = used.iter().map(|(name, q)| (name.clone(), json!(q.to_string()))).collect();
        if attributes.quotas.record_usage(&quota).await? {
            return Ok(());
        }
    }
    Err(Status::conflict(
        "",
        "resourcequotas",
        name,
        "too many writers raise the usage of this quota; please try again",
    ))
}
