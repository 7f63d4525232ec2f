//! `Claim`: the usage that one write adds to which quotas; checks whether they allow it.

use crate::Attributes;
use proto::Status;
use proto::fields::text;
use proto::quota::{Amounts, add, amounts, matches_resource, scope, unmet_constraints, usage};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The usage that a write adds to that of the old object.
#[derive(Clone, Debug)]
pub struct Claim {
    group: String,
    resource: String,
    /// Name of the object, for messages.
    name: String,
    /// Names of all resources that the object uses, also without an increase.
    taken: BTreeSet<String>,
    asked: Amounts,
    /// Names of the quotas that match the object.
    pub quotas: BTreeSet<String>,
}

impl Claim {
    /// Calculates the claim of a write; `quotas` are those of the namespace. Decreases are not counted: the quota controller
    /// lowers usage after the write.
    pub fn of<'a>(attributes: &Attributes<'_>, quotas: impl IntoIterator<Item = &'a Value>) -> Self {
        let (group, resource): (&str, &str) = (&attributes.served.group, &attributes.served.resource);
        let had = attributes.old_object.map(|old| usage(group, resource, old)).unwrap_or_default();
        let mut asked = usage(group, resource, attributes.new_object());
        let taken = asked.keys().cloned().collect();
        for (name, quantity) in &mut asked {
            if let Some(before) = had.get(name) {
                *quantity -= *before;
            }
        }
        asked.retain(|_, quantity| quantity.signum() > 0);
        let is_pod = group.is_empty() && resource == "pods";
        let counts = |quota: &&Value| {
            limits(quota).keys().any(|name| matches_resource(group, resource, name))
                && scope::matches(quota, is_pod, attributes.new_object())
        };
        let quotas = quotas.into_iter().filter(counts).map(|quota| text(quota, "/metadata/name").to_owned()).collect();
        let name = attributes.shown_name().to_owned();
        Self { group: group.to_owned(), resource: resource.to_owned(), name, taken, asked, quotas }
    }

    pub fn is_nothing(&self) -> bool {
        self.quotas.is_empty()
    }

    /// Tells whether the write raises any usage.
    pub fn takes_more(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Returns the names of the resources that the object uses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.taken.iter().map(String::as_str)
    }

    /// Returns the resources that the matching quotas limit.
    pub fn covered(&self, quotas: &[&Value]) -> BTreeSet<String> {
        let counting = quotas.iter().filter(|quota| self.quotas.contains(text(quota, "/metadata/name")));
        counting.flat_map(|quota| limits(quota).into_keys()).collect()
    }

    pub fn forbidden(&self, why: impl std::fmt::Display) -> Status {
        Status::forbidden(&self.group, &self.resource, &self.name, why)
    }

    fn limited<'a>(&self, hard: &'a Amounts) -> Vec<&'a String> {
        hard.keys().filter(|limit| matches_resource(&self.group, &self.resource, limit)).collect()
    }

    /// Rejects a pod that does not specify a resource which a quota limits.
    pub fn must_specify_limited_resources(&self, quota: &Value, object: &Value) -> Result<(), Status> {
        if !self.group.is_empty() || self.resource != "pods" {
            return Ok(());
        }
        let hard = limits(quota);
        match unmet_constraints(object, self.limited(&hard).into_iter()) {
            Some(why) => Err(self.forbidden(format_args!("failed quota: {}: {why}", text(quota, "/metadata/name")))),
            None => Ok(()),
        }
    }

    /// Returns the usage of a quota after the write; `None` if it is the same. The error is 403 if the quota is exceeded.
    pub fn charged(&self, quota: &Value) -> Result<Option<Amounts>, Status> {
        let (name, hard, mut used) = (text(quota, "/metadata/name"), limits(quota), usage_of(quota));
        let limited = self.limited(&hard);
        if limited.iter().any(|limit| !used.contains_key(*limit)) {
            let names: Vec<&str> = limited.iter().map(|limit| limit.as_str()).collect();
            let why = format!("status unknown for quota: {name}, resources: {}", names.join(","));
            return Err(self.forbidden(why));
        }
        let mine: Amounts = self
            .asked
            .iter()
            .filter(|(name, _)| hard.contains_key(*name))
            .map(|(name, q)| (name.clone(), *q))
            .collect();
        if mine.is_empty() {
            return Ok(None);
        }
        let before = used.clone();
        add(&mut used, &mine);
        let exceeded: Vec<&String> = mine.keys().filter(|name| used.get(*name) > hard.get(*name)).collect();
        if exceeded.is_empty() {
            return Ok(Some(used));
        }
        let told = |of: &Amounts| -> String {
            let each = exceeded.iter().filter_map(|name| Some(format!("{name}={}", of.get(*name)?)));
            each.collect::<Vec<_>>().join(",")
        };
        Err(self.forbidden(format_args!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            told(&mine),
            told(&before),
            told(&hard)
        )))
    }
}

fn limits(quota: &Value) -> Amounts {
    amounts(quota.pointer("/status/hard"))
}

fn usage_of(quota: &Value) -> Amounts {
    amounts(quota.pointer("/status/used"))
}

/// Sets `status.used` of a quota.
pub fn set_usage(quota: &mut Value, used: &Amounts) {
    quota["status"]["used"] = used.iter().map(|(name, q)| (name.clone(), json!(q.to_string()))).collect();
}
