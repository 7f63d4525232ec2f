//! Warnings of requests for kinds that Kubernetes advises against.
//!
//! Corresponds to the APILifecycleDeprecated methods of k8s.io/api.

use proto::resources::{Target, Text};

const DEPRECATED: &[(&str, &str, &str)] = &[
    ("", "componentstatuses", "v1 ComponentStatus is deprecated in v1.19+"),
    ("", "endpoints", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
];

pub fn warning(target: &Target) -> Option<Text> {
    let served = target.served();
    if served.deprecation.is_some() {
        return served.deprecation.clone();
    }
    let row = DEPRECATED.iter().find(|(group, resource, _)| *group == served.group && *resource == served.resource);
    row.map(|(_, _, warning)| Text::Borrowed(*warning))
}
