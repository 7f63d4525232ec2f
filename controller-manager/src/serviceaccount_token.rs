//! The token controller fills secrets of type `kubernetes.io/service-account-token` with a token of their account, and
//! deletes them when the account no longer exists.
//!
//! Corresponds to tokens_controller.go of pkg/controller/serviceaccount.

use client::reconcile::Reconciler;
use client::{Action, Client, Event, Lister, Plan, ReconcileError};
use component_base::json_web_token::{LEGACY_ISSUER, SigningKey};
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::ByteString;
use proto::kinds::api::core::v1::{Secret, ServiceAccount};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";
struct Controller {
    key: SigningKey,
    root_ca_pem: Option<String>,
    secrets: Lister<Secret>,
    accounts: Lister<ServiceAccount>,
}

#[derive(Debug)]
pub struct Observed {
    pub secret: Arc<Secret>,
    pub account: Option<Arc<ServiceAccount>>,
    pub root_ca_pem: Option<String>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let Some(key) = setup.settings.service_account_key.clone() else {
        tracing::warn!("no tokens for secrets: --service-account-private-key-file is not given");
        return Box::pin(async {});
    };
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Secret>, queue| {
        if !matches!(event, Event::Deleted(_)) && account_of(event.object()).is_some() {
            queue.add(event.object().key());
        }
    });
    setup.on_event(&queue, {
        let secrets: Lister<Secret> = setup.lister();
        move |event: &Event<ServiceAccount>, queue| {
            let account = event.object();
            let own = secrets.filter(account.namespace(), |secret| account_of(secret) == Some(account.name()));
            own.iter().for_each(|secret| queue.add(secret.key()));
        }
    });
    let root_ca_pem = setup.settings.root_ca_pem.clone();
    let controller = Controller { key, root_ca_pem, secrets: setup.lister(), accounts: setup.lister() };
    setup.run(queue, setup.settings.concurrent_serviceaccount_token_syncs, controller)
}

fn annotation<'a>(secret: &'a Secret, key: &str) -> &'a str {
    secret.metadata.annotations.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str)
}

/// Returns the name of the account whose token belongs into the secret, if one does.
fn account_of(secret: &Secret) -> Option<&str> {
    let name = annotation(secret, NAME);
    (secret.type_.as_deref() == Some(TYPE) && !name.is_empty()).then_some(name)
}

pub fn plan(observed: &Observed, sign: impl Fn(&serde_json::Value) -> Option<String>) -> Plan {
    let secret = observed.secret.as_ref();
    let Some(name) = account_of(secret).filter(|_| !secret.is_deleting()) else { return Plan::default() };
    let uid = annotation(secret, UID);
    let account = observed.account.as_deref().filter(|account| uid.is_empty() || account.uid() == uid);
    let Some(account) = account else {
        return Plan::of([actions::delete_exactly(secret)]);
    };
    let mut data: BTreeMap<String, ByteString> = secret.data.clone().unwrap_or_default();
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    if let Some(ca) = &observed.root_ca_pem {
        data.insert("ca.crt".to_owned(), bytes(ca));
    }
    if data.get("namespace").is_none_or(|namespace| namespace.0.is_empty()) {
        data.insert("namespace".to_owned(), bytes(secret.namespace()));
    }
    if data.get("token").is_none_or(|token| token.0.is_empty()) {
        let claims = json!({
            "iss": LEGACY_ISSUER,
            "kubernetes.io/serviceaccount/namespace": secret.namespace(),
            "kubernetes.io/serviceaccount/secret.name": secret.name(),
            "kubernetes.io/serviceaccount/service-account.name": name,
            "kubernetes.io/serviceaccount/service-account.uid": account.uid(),
            "sub": format!("system:serviceaccount:{}:{name}", secret.namespace()),
        });
        let Some(token) = sign(&claims) else { return Plan::default() };
        data.insert("token".to_owned(), bytes(&token));
    }
    let mut updated = Secret { data: Some(data), ..secret.clone() };
    updated.metadata.annotations.get_or_insert_default().insert(UID.to_owned(), account.uid().to_owned());
    if updated.data == secret.data && updated.metadata.annotations == secret.metadata.annotations {
        return Plan::default();
    }
    Plan::of([Action::update(&updated)])
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let secret = self.secrets.by_key(key)?;
        let account = self.accounts.get(secret.namespace(), account_of(&secret)?);
        Some(Observed { secret, account, root_ca_pem: self.root_ca_pem.clone() })
    }

    /// Asks the server for an account that the cache lacks: the cache may not show a new account yet.
    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let Some(name) = account_of(&observed.secret).filter(|_| observed.account.is_none()) else {
            return Ok(Some(observed));
        };
        match client.api::<ServiceAccount>(observed.secret.namespace()).get(name).await {
            Ok(account) => Ok(Some(Observed { account: Some(Arc::new(account)), ..observed })),
            Err(error) if error.is_not_found() => Ok(Some(observed)),
            Err(error) => Err(error.into()),
        }
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed, |claims| {
            let signed = self.key.sign(claims);
            signed.inspect_err(|error| tracing::error!(%error, "a token cannot be signed")).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn a_secret_is_filled_and_goes_with_its_account() {
        let sign = |claims: &serde_json::Value| Some(format!("signed {}", claims["sub"].as_str().unwrap()));
        let mut secret =
            Secret { metadata: fixture::meta("robot-token"), type_: Some(TYPE.to_owned()), ..Secret::default() };
        secret.metadata.annotations = Some(fixture::labels(&[(NAME, "robot")]));
        let account = Arc::new(ServiceAccount { metadata: fixture::meta("robot"), ..ServiceAccount::default() });
        let mut observed =
            Observed { secret: Arc::new(secret), account: Some(account), root_ca_pem: Some("PEM".to_owned()) };
        let filled = plan(&observed, sign);
        assert_eq!(filled.to_string(), "update secrets default/robot-token\n");
        let [Action::Update { object, .. }] = filled.actions.as_slice() else { panic!("{filled}") };
        let updated = Secret::decode_value(object.clone()).unwrap();
        let data = updated.data.as_ref().unwrap();
        assert_eq!(data["token"].0, b"signed system:serviceaccount:default:robot");
        assert_eq!((data["namespace"].0.as_slice(), data["ca.crt"].0.as_slice()), (&b"default"[..], &b"PEM"[..]));
        assert_eq!(annotation(&updated, UID), "uid-robot");
        observed.secret = Arc::new(updated.clone());
        assert_eq!(plan(&observed, sign).to_string(), "");
        // A token that was removed is signed again. An account with the same name and another uid gets no token.
        let mut emptied = updated.clone();
        emptied.data.as_mut().unwrap().remove("token");
        observed.secret = Arc::new(emptied);
        assert_eq!(plan(&observed, sign), filled);
        let mut other = ServiceAccount { metadata: fixture::meta("robot"), ..ServiceAccount::default() };
        other.metadata.uid = Some("another".to_owned());
        observed.secret = Arc::new(updated);
        for account in [Some(Arc::new(other)), None] {
            observed.account = account;
            let deleted = plan(&observed, sign).to_string();
            assert!(deleted.starts_with("delete secrets default/robot-token "), "{deleted}");
        }
        let plain = Secret { metadata: fixture::meta("plain"), ..Secret::default() };
        observed.secret = Arc::new(plain);
        assert_eq!(plan(&observed, sign).to_string(), "");
    }
}
