//! Workloads: what makes pods, and what bounds and disturbs them.
//!
//! Corresponds to pkg/registry/apps, batch, autoscaling and policy.

use super::rules::{Generation, Rules};
use crate::registry::validation::object_meta;

const SPEC: Generation = Generation::Of(&["spec"]);

pub const ROWS: &[Rules] = &[
    Rules { group: "apps", resource: "controllerrevisions", ..Rules::DEFAULT },
    Rules { group: "apps", resource: "daemonsets", generation: SPEC, ..Rules::DEFAULT },
    Rules {
        group: "apps",
        resource: "deployments",
        generation: Generation::Of(&["spec", "metadata.annotations"]),
        ..Rules::DEFAULT
    },
    Rules { group: "apps", resource: "replicasets", generation: SPEC, ..Rules::DEFAULT },
    Rules { group: "apps", resource: "statefulsets", name: object_meta::label, generation: SPEC, ..Rules::DEFAULT },
    Rules { resource: "replicationcontrollers", generation: SPEC, ..Rules::DEFAULT },
    Rules { group: "batch", resource: "cronjobs", generation: SPEC, ..Rules::DEFAULT },
    Rules { group: "batch", resource: "jobs", generation: SPEC, ..Rules::DEFAULT },
    Rules { group: "autoscaling", resource: "horizontalpodautoscalers", ..Rules::DEFAULT },
    Rules {
        group: "policy",
        resource: "poddisruptionbudgets",
        generation: SPEC,
        unconditional_update: false,
        ..Rules::DEFAULT
    },
];
