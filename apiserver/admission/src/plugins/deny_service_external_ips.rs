//! DenyServiceExternalIPs: rejects Services that add an external IP.
//!
//! Corresponds to plugin/pkg/admission/network/denyserviceexternalips. Off by default, as there.

use super::pod_parts::items;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;

pub struct DenyServiceExternalIPs;

#[async_trait]
impl AdmissionPlugin for DenyServiceExternalIPs {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let had = |ip| items(attributes.old(), "/spec/externalIPs").any(|old| old == ip);
        if attributes.is("", "services") && !items(attributes.new_object(), "/spec/externalIPs").all(had) {
            return Err(attributes.forbidden("Use of external IPs is denied by admission control."));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn external_addresses_only_go() {
        let service = |ips: Value| json!({"metadata": {"name": "s", "namespace": "a"}, "spec": {"externalIPs": ips}});
        let denied = r#"services "s" is forbidden: Use of external IPs is denied by admission control."#;
        for (old, new, expected) in [
            (None, json!([]), ""),
            (None, json!(["198.51.100.4"]), denied),
            (Some(json!(["198.51.100.4", "198.51.100.5"])), json!(["198.51.100.4"]), ""),
            (Some(json!(["198.51.100.4"])), json!(["198.51.100.5"]), denied),
        ] {
            let write = match old {
                Some(old) => Write::update("", "services", service(old), service(new)),
                None => Write::create("", "services", service(new)),
            };
            assert_eq!(write.run(&DenyServiceExternalIPs).await.message(), expected);
        }
    }
}
