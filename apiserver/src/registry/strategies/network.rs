//! Services and what leads traffic to them.
//!
//! Corresponds to pkg/registry/core/service, discovery and networking.

use super::rules::{Generation, Rules};
use crate::registry::validation::object_meta;

const SPEC: Generation = Generation::Of(&["spec"]);

pub const ROWS: &[Rules] = &[
    Rules { resource: "services", name: object_meta::label_1035, create_on_update: true, ..Rules::DEFAULT },
    Rules {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        generation: Generation::Of(&["addressType", "endpoints", "ports", "metadata.labels"]),
        ..Rules::DEFAULT
    },
    Rules { group: "networking.k8s.io", resource: "ingresses", generation: SPEC, ..Rules::DEFAULT },
    Rules { group: "networking.k8s.io", resource: "ingressclasses", generation: SPEC, ..Rules::DEFAULT },
    Rules { group: "networking.k8s.io", resource: "networkpolicies", generation: SPEC, ..Rules::DEFAULT },
    Rules { group: "networking.k8s.io", resource: "ipaddresses", ..Rules::DEFAULT },
    Rules { group: "networking.k8s.io", resource: "servicecidrs", ..Rules::DEFAULT },
];
