//! The strategies of all kinds: one table, found by group and plural.
//!
//! A kind without a row keeps the defaults. The crate `extension` has the strategies of custom resources and of
//! CustomResourceDefinitions.
//! Corresponds to pkg/registry/*/*/strategy.go.

pub mod access;
pub mod core;
pub mod machinery;
pub mod network;
pub mod pod;
pub mod rules;
pub mod service;
pub mod workloads;

use crate::Strategy;
use proto::resources::Resource;
use rules::{ByRules, Rules};
use service::ServiceStrategy;
use std::sync::Arc;

/// Returns the strategy of a built-in row. CustomResourceDefinitions are not here: the crate `extension` has theirs.
pub fn of(resource: &Resource) -> Arc<dyn Strategy> {
    let storage = resource.storage_version();
    let rules = ByRules(rules_of(&storage.group, &storage.resource));
    match (&*storage.group, &*storage.resource) {
        ("", "services") => Arc::new(ServiceStrategy(rules)),
        _ => Arc::new(rules),
    }
}

fn rules_of(group: &str, resource: &str) -> Rules {
    let tables = [core::ROWS, workloads::ROWS, network::ROWS, access::ROWS, machinery::ROWS];
    let mut rows = tables.iter().flat_map(|rows| rows.iter());
    rows.find(|row| row.group == group && row.resource == resource).copied().unwrap_or(Rules::DEFAULT)
}

#[cfg(test)]
mod table {
    use super::*;
    use proto::resources::builtin;

    #[test]
    fn every_stored_builtin_row_has_its_rules() {
        let missing: Vec<String> = builtin()
            .iter()
            .filter(|row| row.prefix.is_some())
            .map(|row| row.storage_version())
            .filter(|served| rules_of(&served.group, &served.resource).resource.is_empty())
            .map(|served| format!("{}/{}", served.group, served.resource))
            .collect();
        assert_eq!(missing, ["apiextensions.k8s.io/customresourcedefinitions"]);
    }
}

#[cfg(test)]
mod tests;
