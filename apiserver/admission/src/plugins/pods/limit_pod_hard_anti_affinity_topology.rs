//! LimitPodHardAntiAffinityTopology: required pod anti-affinity may use only the topology key `kubernetes.io/hostname`.
//!
//! Corresponds to plugin/pkg/admission/antiaffinity. Off by default, as there.

use crate::plugins::pod_parts::{items, text};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;
use proto::meta::node_labels::HOSTNAME;

const TERMS: &str = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";

pub struct LimitPodHardAntiAffinityTopology;

#[async_trait]
impl AdmissionPlugin for LimitPodHardAntiAffinityTopology {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let mut keys = items(attributes.new_object(), TERMS).map(|term| text(term, "/topologyKey"));
        match keys.find(|key| *key != HOSTNAME) {
            Some(key) => Err(attributes.forbidden(format_args!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn only_the_node_may_be_kept_free() {
        let pod = |which: &str, key: &str| -> Value {
            let affinity = json!({"podAntiAffinity": {which: [{"topologyKey": HOSTNAME}, {"topologyKey": key}]}});
            json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"affinity": affinity}})
        };
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (which, key, is_refused) in [
            (required, HOSTNAME, false),
            (required, "zone", true),
            ("preferredDuringSchedulingIgnoredDuringExecution", "zone", false),
        ] {
            let seen = Write::create("", "pods", pod(which, key)).run(&LimitPodHardAntiAffinityTopology).await;
            let expected = r#"pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"#;
            assert_eq!(seen.message(), if is_refused { expected } else { "" });
        }
    }
}
