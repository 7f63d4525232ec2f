//! Publishes the certificate authority of the API server as a ClusterTrustBundle, which pods can mount.
//!
//! Corresponds to pkg/controller/certificates/clustertrustbundlepublisher.

use client::reconcile::Reconciler;
use client::{Action, DeleteOptions, Event, Lister, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::certificates::v1beta1::{ClusterTrustBundle, ClusterTrustBundleSpec};
use proto::kinds::metav1::ObjectMeta;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::Arc;

pub const GATE: &str = "ClusterTrustBundle";
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// The bytes of the hash in a bundle's name.
const HASH_BYTES: usize = 12;
/// The only key of the queue.
const KEY: &str = SIGNER;

struct Publisher {
    bundles: Lister<ClusterTrustBundle>,
    authority_pem: String,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) || !setup.serves::<ClusterTrustBundle>() {
        return Box::pin(async {});
    }
    let Some(authority_pem) = setup.settings.root_ca_pem.clone() else {
        tracing::warn!("no ClusterTrustBundle: the certificate authority of the API server is not known");
        return Box::pin(async {});
    };
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<ClusterTrustBundle>, queue| {
        if is_of_signer(event.object()) {
            queue.add(KEY.to_owned());
        }
    });
    // There may be no bundle yet, and so no event.
    queue.add(KEY.to_owned());
    setup.run(queue, 1, Publisher { bundles: setup.lister(), authority_pem })
}

fn is_of_signer(bundle: &ClusterTrustBundle) -> bool {
    bundle.spec.signer_name.as_deref() == Some(SIGNER)
}

impl Reconciler for Publisher {
    /// The bundles of the signer.
    type Observed = Vec<Arc<ClusterTrustBundle>>;

    fn observe(&self, _key: &str) -> Option<Self::Observed> {
        Some(self.bundles.filter("", is_of_signer))
    }

    fn plan(&self, observed: &Self::Observed, _now: Timestamp) -> Plan {
        plan(observed, &self.authority_pem)
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

/// Plans the bundle, and then the deletion of those of other authorities.
fn plan(present: &[Arc<ClusterTrustBundle>], pem: &str) -> Plan {
    let wanted = name_of(pem);
    let write = match present.iter().find(|bundle| bundle.name() == wanted) {
        None => {
            let metadata = ObjectMeta { name: Some(wanted.clone()), ..ObjectMeta::default() };
            let spec = ClusterTrustBundleSpec { signer_name: Some(SIGNER.to_owned()), trust_bundle: pem.to_owned() };
            Some(Action::create(&ClusterTrustBundle { metadata, spec }))
        }
        Some(bundle) if bundle.spec.trust_bundle != pem => {
            let mut bundle = ClusterTrustBundle::clone(bundle);
            bundle.spec.trust_bundle = pem.to_owned();
            Some(Action::update(&bundle))
        }
        Some(_) => None,
    };
    let others = present.iter().filter(|bundle| bundle.name() != wanted);
    let deletions =
        others.map(|bundle| Action::delete::<ClusterTrustBundle>("", bundle.name(), DeleteOptions::default()));
    Plan::of(write.into_iter().chain(deletions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_of_the_authority_is_the_only_one() {
        let planned = |present: &[Arc<ClusterTrustBundle>]| plan(present, "PEM").to_string();
        // The first bytes of the SHA-256 of "PEM".
        let name = "kubernetes.io:kube-apiserver-serving:384fb9a44fabe158be2757b9";
        let bundle = |name: &str, pem: &str| {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let spec = ClusterTrustBundleSpec { signer_name: Some(SIGNER.to_owned()), trust_bundle: pem.to_owned() };
            Arc::new(ClusterTrustBundle { metadata, spec })
        };
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
