//! `ApiService`: reads the fields of an APIService, and `Availability`: its condition `Available`.
//!
//! Corresponds to the helpers of k8s.io/kube-aggregator/pkg/apis/apiregistration.

use proto::meta::condition;
use remote::clients::{Trust, ca_bundle};
use remote::reference::ServiceReference;
use serde_json::{Value, json};

pub const GROUP: &str = "apiregistration.k8s.io";
pub const RESOURCE: &str = "apiservices";
pub const AVAILABLE: &str = "Available";
/// Label of an APIService that the server keeps: `onstart` for built-in groups, `true` for those of custom resources.
pub const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// A view of an APIService in JSON.
#[derive(Clone, Copy, Debug)]
pub struct ApiService<'a>(pub &'a Value);

impl<'a> ApiService<'a> {
    fn text(&self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn name(&self) -> &'a str {
        self.text("/metadata/name")
    }

    pub fn group(&self) -> &'a str {
        self.text("/spec/group")
    }

    pub fn version(&self) -> &'a str {
        self.text("/spec/version")
    }

    pub fn group_priority(&self) -> i64 {
        self.0.pointer("/spec/groupPriorityMinimum").and_then(Value::as_i64).unwrap_or(0)
    }

    pub fn version_priority(&self) -> i64 {
        self.0.pointer("/spec/versionPriority").and_then(Value::as_i64).unwrap_or(0)
    }

    pub fn automanaged(&self) -> &'a str {
        self.0["metadata"]["labels"].get(AUTOMANAGED).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the Service of the server; `None` when this server serves the group version itself.
    pub fn service(&self) -> Option<ServiceReference> {
        ServiceReference::read(self.0.pointer("/spec/service")?)
    }

    /// Returns how the server's certificate is verified.
    pub fn trust(&self) -> Trust {
        Trust {
            ca_pem: ca_bundle(&self.0["spec"]["caBundle"]),
            insecure: self.0["spec"]["insecureSkipTLSVerify"] == true,
            server_name: self.service().map(|service| service.server_name()).unwrap_or_default(),
            as_proxy: true,
            credentials: None,
        }
    }

    pub fn is_available(&self) -> bool {
        condition::find_value(self.0, AVAILABLE).is_some_and(|condition| condition["status"] == "True")
    }
}

/// The `Available` condition that an APIService should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Availability {
    pub fn local() -> Self {
        Self { status: "True", reason: "Local", message: "Local APIServices are always available".to_owned() }
    }

    pub fn passed() -> Self {
        Self { status: "True", reason: "Passed", message: "all checks passed".to_owned() }
    }

    pub fn failed(reason: &'static str, message: String) -> Self {
        Self { status: "False", reason, message }
    }

    /// Tells whether the APIService already has this condition.
    pub fn is_in(&self, service: &Value) -> bool {
        condition::find_value(service, AVAILABLE).is_some_and(|condition| {
            let of = |key: &str| condition[key].as_str().unwrap_or_default();
            (of("status"), of("reason"), of("message")) == (self.status, self.reason, self.message.as_str())
        })
    }

    /// Sets the condition in the APIService. `lastTransitionTime` changes only with the status.
    pub fn set_in(&self, service: &mut Value, now: &str) {
        let since = condition::find_value(service, AVAILABLE)
            .filter(|condition| condition["status"] == self.status)
            .map_or_else(|| json!(now), |condition| condition["lastTransitionTime"].clone());
        let fresh = json!({
            "type": AVAILABLE, "status": self.status, "reason": self.reason, "message": self.message,
            "lastTransitionTime": since,
        });
        if !service["status"]["conditions"].is_array() {
            service["status"]["conditions"] = json!([]);
        }
        let Some(conditions) = service["status"]["conditions"].as_array_mut() else { return };
        match conditions.iter_mut().find(|condition| condition["type"] == AVAILABLE) {
            Some(condition) => *condition = fresh,
            None => conditions.push(fresh),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut service = json!({"metadata": {"name": "v1.a"}});
        Availability::passed().set_in(&mut service, "t0");
        assert!(ApiService(&service).is_available() && Availability::passed().is_in(&service));
        let failed = Availability::failed("ServiceNotFound", "m".to_owned());
        failed.set_in(&mut service, "t1");
        assert!(!ApiService(&service).is_available() && failed.is_in(&service));
        Availability::failed("MissingEndpoints", "n".to_owned()).set_in(&mut service, "t2");
        let expected = json!([{
            "type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "n",
            "lastTransitionTime": "t1",
        }]);
        assert_eq!(service["status"]["conditions"], expected);
    }
}
