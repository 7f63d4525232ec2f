//! PodGroupProtection: adds the finalizer that keeps a PodGroup while pods of the group run.
//!
//! Corresponds to plugin/pkg/admission/podgroupprotection.

use crate::plugins::finalizers::hold;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

pub struct PodGroupProtection;

#[async_trait]
impl AdmissionPlugin for PodGroupProtection {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.is("scheduling.k8s.io", "podgroups") {
            hold(attributes, FINALIZER);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;

    #[tokio::test]
    async fn a_group_of_pods_is_held() {
        for (resource, before, after) in [
            ("podgroups", json!([]), json!([FINALIZER])),
            ("podgroups", json!(["a/b"]), json!(["a/b", FINALIZER])),
            ("podgroups", json!([FINALIZER]), json!([FINALIZER])),
            ("workloads", json!([]), json!([])),
        ] {
            let object = json!({"metadata": {"namespace": "shop", "name": "x", "finalizers": before}});
            let object = Write::create("scheduling.k8s.io", resource, object).run(&PodGroupProtection).await.passed();
            assert_eq!(object["metadata"]["finalizers"], after, "{resource}");
        }
    }
}
