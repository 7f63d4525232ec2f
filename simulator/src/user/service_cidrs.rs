//! What a `User` does with ServiceCIDRs: adds and deletes ranges while Services come, change and go.

use super::{User, service};
use serde_json::{Value, json};
use std::time::Duration;

/// Number of names for Services.
const SERVICES: usize = 5;
/// The ranges that come and go: two that are the same, and one that contains them.
const RANGES: [(&str, &str); 3] = [("more", "10.9.0.0/28"), ("same", "10.9.0.0/28"), ("wider", "10.9.0.0/24")];

pub fn service_cidr(name: &str, cidr: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name},
        "spec": {"cidrs": [cidr]},
    })
}

impl User<'_> {
    /// Works on ServiceCIDRs and Services for some time.
    pub async fn work_on_service_cidrs(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        self.repeat_until(end, async |user| user.act_on_service_cidrs().await).await;
    }

    async fn act_on_service_cidrs(&self) {
        let random = &self.random;
        let (name, cidr) = RANGES[random.below(RANGES.len())];
        let exposed = format!("exposed-{}", random.below(SERVICES));
        match random.below(12) {
            0..=2 => self.create_any(&service_cidr(name, cidr)).await,
            3 | 4 => self.delete_any(&service_cidr(name, cidr)).await,
            5..=8 => self.create_any(&self.new_service_with_address(&exposed)).await,
            9 | 10 => self.delete_any(&self.new_service_with_address(&exposed)).await,
            _ => {
                // Without a cluster IP, and later with another one.
                let type_ = ["ExternalName", "ClusterIP", "NodePort"][random.below(3)];
                let name = (type_ == "ExternalName").then_some("example.com");
                let spec = json!({"type": type_, "externalName": name, "clusterIP": null, "clusterIPs": null});
                self.patch("", "services", "default", &exposed, json!({"spec": spec})).await;
            }
        }
    }

    /// Returns a Service, mostly with an address of a range that may not exist.
    fn new_service_with_address(&self, name: &str) -> Value {
        let mut service = service(name);
        service["metadata"]["namespace"] = json!("default");
        if self.random.below(4) > 0 {
            service["spec"]["clusterIP"] = json!(format!("10.9.0.{}", 1 + self.random.below(20)));
        }
        service
    }
}
