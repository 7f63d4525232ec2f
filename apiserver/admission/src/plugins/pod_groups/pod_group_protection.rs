//! PodGroupProtection: adds the finalizer that keeps a PodGroup while pods of the group run.
//!
//! Corresponds to plugin/pkg/admission/podgroupprotection.

use crate::plugins::finalizers::hold;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;
use proto::finalizers::POD_GROUP_PROTECTION;

pub struct PodGroupProtection;

#[async_trait]
impl AdmissionPlugin for PodGroupProtection {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.is("scheduling.k8s.io", "podgroups") {
            hold(attributes, POD_GROUP_PROTECTION);
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
            ("podgroups", json!([]), json!([POD_GROUP_PROTECTION])),
            ("podgroups", json!(["a/b"]), json!(["a/b", POD_GROUP_PROTECTION])),
            ("podgroups", json!([POD_GROUP_PROTECTION]), json!([POD_GROUP_PROTECTION])),
            ("workloads", json!([]), json!([])),
        ] {
            let object = json!({"metadata": {"namespace": "shop", "name": "x", "finalizers": before}});
            let object = Write::create("scheduling.k8s.io", resource, object).run(&PodGroupProtection).await.passed();
            assert_eq!(object["metadata"]["finalizers"], after, "{resource}");
        }
    }
}
