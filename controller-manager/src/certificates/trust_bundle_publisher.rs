//! Publishes the certificate authority of the API server as a ClusterTrustBundle, which pods can mount.
//!
//! The gate ClusterTrustBundle is off by default, and this API server does not serve the kind. Corresponds to
//! pkg/controller/certificates/clustertrustbundlepublisher.
//!
//! Deviation: the bundles are compared once a minute. Kubernetes watches them.

use client::reconcile::PeriodicReconciler;
use client::{Action, Client, DeleteOptions, ListOptions, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Gvr;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::time::Duration;

const GATE: &str = "ClusterTrustBundle";
const PERIOD: Duration = Duration::from_secs(60);
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// The bytes of the hash in a bundle's name.
const HASH_BYTES: usize = 12;

struct Publisher {
    client: Client,
    authority_pem: String,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) {
        return Box::pin(async {});
    }
    let Some(authority_pem) = setup.settings.root_ca_pem.clone() else {
        tracing::warn!("no ClusterTrustBundle: the certificate authority of the API server is not known");
        return Box::pin(async {});
    };
    let publisher = Publisher { client: setup.client.clone(), authority_pem };
    let running = setup.run_periodically("kube-apiserver-serving-clustertrustbundle-publisher", PERIOD, publisher);
    setup.run_where_served(bundles(), running)
}

fn bundles() -> Gvr {
    Gvr::new("certificates.k8s.io", "v1beta1", "clustertrustbundles")
}

impl PeriodicReconciler for Publisher {
    /// The bundles of the signer; `None` if they cannot be listed.
    type Observed = Option<Vec<Value>>;

    async fn observe(&mut self, _now: Timestamp) -> Self::Observed {
        let of_signer = ListOptions::fields(format!("spec.signerName={SIGNER}"));
        let listed = self.client.dynamic(&bundles(), "").list(&of_signer).await;
        let listed = listed.inspect_err(|error| tracing::warn!(%error, "unable to list ClusterTrustBundles"));
        listed.ok().map(|list| list.items)
    }

    fn plan(&mut self, observed: &Self::Observed, _now: Timestamp) -> Vec<Plan> {
        observed.as_deref().map(|present| plan(present, &self.authority_pem)).unwrap_or_default()
    }
}

/// Returns the name of the bundle with this text: the signer, and a hash of the text.
fn name_of(pem: &str) -> String {
    let mut name = format!("{}:", SIGNER.replace('/', ":"));
    for byte in &Sha256::digest(pem.as_bytes())[..HASH_BYTES] {
        write!(name, "{byte:02x}").expect("a text has room");
    }
    name
}

/// Plans the bundle, and the deletion of those of other authorities.
fn plan(present: &[Value], pem: &str) -> Vec<Plan> {
    let wanted = name_of(pem);
    let mut actions = Vec::new();
    match present.iter().find(|bundle| bundle["metadata"]["name"] == wanted.as_str()) {
        None => {
            let object = json!({
                "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": wanted},
                "spec": {"signerName": SIGNER, "trustBundle": pem},
            });
            actions.push(Action::Create { gvr: bundles(), namespace: String::new(), object });
        }
        Some(bundle) if bundle["spec"]["trustBundle"] != pem => {
            let mut object = bundle.clone();
            object["spec"]["trustBundle"] = json!(pem);
            actions.push(Action::Update { gvr: bundles(), namespace: String::new(), object });
        }
        Some(_) => {}
    }
    let names = present.iter().filter_map(|bundle| bundle["metadata"]["name"].as_str());
    let others = names.filter(|name| *name != wanted).map(str::to_owned);
    let delete =
        |name| Action::Delete { gvr: bundles(), namespace: String::new(), name, options: DeleteOptions::default() };
    actions.into_iter().chain(others.map(delete)).map(|action| Plan::of([action])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_of_the_authority_is_the_only_one() {
        let planned = |present: &[Value]| -> String { plan(present, "PEM").iter().map(ToString::to_string).collect() };
        // The first bytes of the SHA-256 of "PEM".
        let name = "kubernetes.io:kube-apiserver-serving:384fb9a44fabe158be2757b9";
        let bundle = |name: &str, pem: &str| json!({"metadata": {"name": name}, "spec": {"trustBundle": pem}});
        let own = name_of("PEM");
        assert_eq!(own, name);
        assert_eq!(planned(&[]), format!("create clustertrustbundles.certificates.k8s.io {own}\n"));
        assert_eq!(planned(&[bundle(&own, "PEM")]), "");
        assert_eq!(
            planned(&[bundle(&own, "other")]),
            format!("update clustertrustbundles.certificates.k8s.io {own}\n")
        );
        let old = name_of("old");
        assert_eq!(
            planned(&[bundle(&old, "old"), bundle(&own, "PEM")]),
            format!("delete clustertrustbundles.certificates.k8s.io {old}\n")
        );
    }
}
