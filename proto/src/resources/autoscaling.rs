//! autoscaling: the HorizontalPodAutoscaler, which is stored as v2 and served as v1, too.
//!
//! Corresponds to pkg/registry/autoscaling/rest.

use super::columns::autoscaler;
use super::conversion::hpa;
use super::row::Group;
use super::{Conversion, Resource};

const V2: Group = Group { name: "autoscaling", version: "v2", package: "io.k8s.api.autoscaling.v2" };
const V1: Group = Group { name: "autoscaling", version: "v1", package: "io.k8s.api.autoscaling.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        V2.namespaced("horizontalpodautoscalers", "HorizontalPodAutoscaler")
            .short("hpa")
            .category("all")
            .status()
            .columns(autoscaler::columns())
            .also(&V1, Conversion::With { to_storage: hpa::to_v2, from_storage: hpa::to_v1 }),
    ]
}
