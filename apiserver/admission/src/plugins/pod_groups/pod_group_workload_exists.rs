//! PodGroupWorkloadExists: refuses a PodGroup whose Workload, or the template in it, does not exist.
//!
//! Corresponds to plugin/pkg/admission/podgroup.

use crate::plugins::pod_parts::{items, text};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;

const GROUP: &str = "scheduling.k8s.io";

pub struct PodGroupWorkloadExists;

#[async_trait]
impl AdmissionPlugin for PodGroupWorkloadExists {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !attributes.is(GROUP, "podgroups") {
            return Ok(());
        }
        let reference = attributes.new_object().pointer("/spec/podGroupTemplateRef/workload");
        let Some(reference) = reference.filter(|reference| !reference.is_null()) else { return Ok(()) };
        let (name, template) = (text(reference, "/workloadName"), text(reference, "/podGroupTemplateName"));
        let key = ObjectKey::new(GROUP, "workloads", attributes.namespace, name);
        let Some(workload) = attributes.lookup.find(key).await? else {
            return Err(attributes.forbidden(format_args!("PodGroup rejected: Workload {name:?} not found")));
        };
        let workload = workload.value();
        if !text(&workload, "/metadata/deletionTimestamp").is_empty() {
            return Err(attributes.forbidden(format_args!("PodGroup rejected: Workload {name:?} is being deleted")));
        }
        if items(&workload, "/spec/podGroupTemplates").any(|known| text(known, "/name") == template) {
            return Ok(());
        }
        Err(attributes
            .forbidden(format_args!("PodGroup rejected: PodGroupTemplate {template:?} not found in Workload {name:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn a_group_names_a_template_that_exists() {
        let workload = |name: &str, namespace: &str, deleted: Value| {
            json!({
                "metadata": {"namespace": namespace, "name": name, "deletionTimestamp": deleted},
                "spec": {"podGroupTemplates": [{"name": "workers"}, {"name": "leader"}]},
            })
        };
        let reference = |workload: &str, template: &str| json!({"podGroupTemplateRef": {"workload": {"workloadName": workload, "podGroupTemplateName": template}}});
        for (spec, refusal) in [
            (json!({}), ""),
            (json!({"podGroupTemplateRef": {}}), ""),
            (reference("train", "workers"), ""),
            (reference("train", "leader"), ""),
            (
                reference("train", "other"),
                "PodGroup rejected: PodGroupTemplate \"other\" not found in Workload \"train\"",
            ),
            (reference("gone", "workers"), "PodGroup rejected: Workload \"gone\" not found"),
            (reference("elsewhere", "workers"), "PodGroup rejected: Workload \"elsewhere\" not found"),
            (reference("leaving", "workers"), "PodGroup rejected: Workload \"leaving\" is being deleted"),
        ] {
            let group = json!({"metadata": {"namespace": "shop", "name": "g"}, "spec": spec});
            let outcome = Write::create(GROUP, "podgroups", group)
                .beside(GROUP, "workloads", workload("train", "shop", Value::Null))
                .beside(GROUP, "workloads", workload("elsewhere", "other", Value::Null))
                .beside(GROUP, "workloads", workload("leaving", "shop", json!("2026-01-01T00:00:00Z")))
                .run(&PodGroupWorkloadExists)
                .await;
            assert_eq!(outcome.error.is_some(), !refusal.is_empty(), "{spec}");
            assert!(outcome.message().ends_with(refusal), "{}", outcome.message());
        }
    }
}
