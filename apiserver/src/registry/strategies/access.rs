//! Who may do what: roles, flow control, signing requests, admission policies.
//!
//! Corresponds to pkg/registry/rbac, flowcontrol, certificates and admissionregistration.

use super::rules::{Generation, Rules};
use crate::registry::validation::object_meta;

const SPEC: Generation = Generation::Of(&["spec"]);

const RBAC: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    name: object_meta::path_segment,
    create_on_update: true,
    ..Rules::DEFAULT
};

const FLOW_CONTROL: Rules = Rules { group: "flowcontrol.apiserver.k8s.io", generation: SPEC, ..Rules::DEFAULT };

const ADMISSION: Rules = Rules { group: "admissionregistration.k8s.io", unconditional_update: false, ..Rules::DEFAULT };

pub const ROWS: &[Rules] = &[
    Rules { resource: "clusterroles", ..RBAC },
    Rules { resource: "clusterrolebindings", ..RBAC },
    Rules { resource: "roles", ..RBAC },
    Rules { resource: "rolebindings", ..RBAC },
    Rules { resource: "flowschemas", ..FLOW_CONTROL },
    Rules { resource: "prioritylevelconfigurations", ..FLOW_CONTROL },
    Rules { group: "certificates.k8s.io", resource: "certificatesigningrequests", ..Rules::DEFAULT },
    Rules { resource: "validatingwebhookconfigurations", generation: Generation::Of(&["webhooks"]), ..ADMISSION },
    Rules { resource: "mutatingwebhookconfigurations", generation: Generation::Of(&["webhooks"]), ..ADMISSION },
    Rules { resource: "validatingadmissionpolicies", generation: SPEC, ..ADMISSION },
    Rules { resource: "validatingadmissionpolicybindings", generation: SPEC, ..ADMISSION },
    Rules { resource: "mutatingadmissionpolicies", generation: SPEC, ..ADMISSION },
    Rules { resource: "mutatingadmissionpolicybindings", generation: SPEC, ..ADMISSION },
];
