//! The strategies of CustomResourceDefinitions and of custom resources.

use super::strategy::CustomStrategy;
use super::{definition, deletion, validation};
use proto::resources::Resource;
use std::sync::Arc;
use strategy::Strategy;
use strategy::kinds;
use strategy::kinds::rules::{ByRules, Generation, Rules};

/// Returns the strategy of any row, built in or custom.
pub fn of(resource: &Arc<Resource>) -> Arc<dyn Strategy> {
    let stored = resource.storage_version();
    if !stored.schema.is_builtin() {
        Arc::new(CustomStrategy::new(resource.clone()))
    } else if stored.group == definition::GROUP && stored.resource == definition::RESOURCE {
        Arc::new(ByRules(DEFINITIONS))
    } else {
        kinds::of(resource)
    }
}

/// The strategy of CustomResourceDefinitions.
const DEFINITIONS: Rules = Rules {
    group: "apiextensions.k8s.io",
    resource: "customresourcedefinitions",
    generation: Generation::Of(&["spec"]),
    unconditional_update: false,
    core_finalizers: false,
    create: validation::record_storage_version,
    update: |context, definition, _| validation::record_storage_version(context, definition),
    delete: deletion::begin,
    validate: validation::create,
    revalidates: false,
    validate_update: validation::update,
    validate_status: validation::status,
    warnings: validation::warnings,
    ..Rules::DEFAULT
};
