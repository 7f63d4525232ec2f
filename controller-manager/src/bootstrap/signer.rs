//! The bootstrap signer signs ConfigMap `cluster-info` in `kube-public` with every bootstrap token. A node that holds a
//! token can so verify that the content comes from the cluster.
//!
//! Corresponds to bootstrapsigner.go of pkg/controller/bootstrap and k8s.io/cluster-bootstrap/token/jws.

use super::token::Token;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::reconcile::Reconciler;
use client::{Action, Event, Lister, Plan};
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey};
use proto::Kind;
use proto::kinds::api::core::v1::{ConfigMap, Secret};
use std::collections::BTreeMap;
use std::sync::Arc;

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
const KUBECONFIG: &str = "kubeconfig";
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

struct Controller {
    secrets: Lister<Secret>,
    config_maps: Lister<ConfigMap>,
}

#[derive(Debug)]
pub struct Observed {
    pub cluster_info: Arc<ConfigMap>,
    pub tokens: Vec<Arc<Secret>>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    let key = || format!("{NAMESPACE}/{NAME}");
    setup.on_event(&queue, move |event: &Event<Secret>, queue| {
        if Token::is_token(event.object()) {
            queue.add(key());
        }
    });
    setup.on_event(&queue, move |event: &Event<ConfigMap>, queue| {
        if !matches!(event, Event::Deleted(_)) && event.object().key() == key() {
            queue.add(key());
        }
    });
    setup.run(queue, 1, Controller { secrets: setup.lister(), config_maps: setup.lister() })
}

/// Returns a detached JSON web signature of a text: its payload part is empty.
pub fn signature(content: &str, id: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = EncodingKey::from_secret(secret.as_bytes());
    let signed = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256);
    format!("{header}..{}", signed.expect("any secret signs by HMAC"))
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let present = observed.cluster_info.data.clone().unwrap_or_default();
    let mut plan = Plan::default();
    let Some(content) = present.get(KUBECONFIG) else { return plan };
    let mut wanted: BTreeMap<String, String> = present.clone();
    wanted.retain(|key, _| !key.starts_with(SIGNATURE_PREFIX));
    for secret in &observed.tokens {
        let Some((id, key)) = Token(secret).for_signing(now) else { continue };
        wanted.insert(format!("{SIGNATURE_PREFIX}{id}"), signature(content, id, key));
        if let Some(end) = Token(secret).expires_at() {
            plan.requeue_within(clock::until(end, now));
        }
    }
    if wanted != present {
        let mut updated = observed.cluster_info.as_ref().clone();
        updated.data = Some(wanted);
        plan.actions.push(Action::update(&updated));
    }
    plan
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let cluster_info = self.config_maps.by_key(key)?;
        let tokens = self.secrets.filter(super::token::NAMESPACE, Token::is_token);
        Some(Observed { cluster_info, tokens })
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::fixture::secret;
    use super::*;
    use controller_base::fixture;

    #[test]
    fn every_token_signs_and_none_that_has_gone() {
        let mut metadata = fixture::meta(NAME);
        metadata.namespace = Some(NAMESPACE.to_owned());
        let data = [(KUBECONFIG, "words"), ("jws-kubeconfig-gonego", "x")];
        let cluster_info = ConfigMap { metadata, data: Some(fixture::labels(&data)), ..ConfigMap::default() };
        let end = fixture::at(60).to_string();
        let tokens = vec![
            secret("abcdef", &[("expiration", &end)]),
            secret("unused", &[("usage-bootstrap-signing", "false")]),
            secret("toolat", &[("expiration", &fixture::at(-1).to_string())]),
        ];
        let tokens = tokens.into_iter().map(Arc::new).collect();
        let mut observed = Observed { cluster_info: Arc::new(cluster_info), tokens };
        let signed = plan(&observed, fixture::at(0));
        assert_eq!(signed.to_string(), "update configmaps kube-public/cluster-info\nlook again after 60s\n");
        let [Action::Update { object, .. }] = signed.actions.as_slice() else { panic!("{signed}") };
        let updated = ConfigMap::decode_value(object.clone()).unwrap();
        let keys: Vec<&str> = updated.data.as_ref().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["jws-kubeconfig-abcdef", KUBECONFIG]);
        observed.cluster_info = Arc::new(updated);
        assert_eq!(plan(&observed, fixture::at(0)).to_string(), "look again after 60s\n");
        assert_eq!(plan(&observed, fixture::at(60)).to_string(), "update configmaps kube-public/cluster-info\n");
    }

    #[test]
    fn a_signature_is_without_its_text() {
        let signed = signature("words", "abcdef", "0123456789abcdef");
        let (header, rest) = signed.split_once("..").unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(header).unwrap(), br#"{"alg":"HS256","kid":"abcdef"}"#);
        let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode("words"));
        let key = jsonwebtoken::DecodingKey::from_secret(b"0123456789abcdef");
        assert!(jsonwebtoken::crypto::verify(rest, message.as_bytes(), &key, Algorithm::HS256).unwrap());
    }
}
