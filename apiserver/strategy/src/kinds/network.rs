//! Services, and the kinds that route traffic to them.
//!
//! Corresponds to pkg/registry/core/service, discovery and networking.

use super::rules::{Generation, Rules};
use crate::validation::{endpoints, networking, object_meta, service, warnings};
use crate::write_context::WriteContext;
use serde_json::Value;

const SPEC: Generation = Generation::Of(&["spec"]);

const NETWORKING: Rules = Rules { group: "networking.k8s.io", ..Rules::DEFAULT };

pub const ROWS: &[Rules] = &[
    Rules {
        resource: "services",
        name: object_meta::label,
        validate: service::service,
        update_first: true,
        validate_update: service::update,
        validate_status: service::status,
        warnings: service::warnings,
        create_on_update: true,
        ..Rules::DEFAULT
    },
    Rules {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        generation: Generation::Of(&["addressType", "endpoints", "ports", "metadata.labels"]),
        create: drop_topology,
        update: drop_new_topology,
        validate: endpoints::slice,
        validate_update: endpoints::slice_update,
        ..Rules::DEFAULT
    },
    Rules {
        resource: "ingresses",
        generation: SPEC,
        validate: networking::ingress,
        warnings: warnings::ingress,
        revalidates: false,
        validate_update: networking::ingress_update,
        validate_status: networking::ingress_status,
        ..NETWORKING
    },
    Rules {
        resource: "ingressclasses",
        generation: SPEC,
        validate: networking::ingress_class,
        update_first: true,
        validate_update: networking::ingress_class_update,
        ..NETWORKING
    },
    Rules {
        resource: "networkpolicies",
        generation: SPEC,
        validate: networking::policy,
        revalidates_metadata: false,
        warnings: warnings::network_policy,
        ..NETWORKING
    },
    Rules {
        resource: "ipaddresses",
        name: networking::ip_address_name,
        validate: networking::ip_address,
        revalidates: false,
        revalidates_metadata: false,
        validate_update: networking::ip_address_update,
        ..NETWORKING
    },
    Rules {
        resource: "servicecidrs",
        validate: networking::service_cidr,
        revalidates: false,
        revalidates_metadata: false,
        validate_update: networking::service_cidr_update,
        ..NETWORKING
    },
];

/// Removes the topology of v1beta1 from all endpoints; v1 has `nodeName` and `zone` instead.
fn drop_topology(_context: &WriteContext<'_>, slice: &mut Value) {
    for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
        let _ = endpoint.as_object_mut().map(|endpoint| endpoint.remove("deprecatedTopology"));
    }
}

fn drop_new_topology(context: &WriteContext<'_>, slice: &mut Value, old: &Value) {
    if slice["endpoints"] != old["endpoints"] {
        drop_topology(context, slice);
    }
}
