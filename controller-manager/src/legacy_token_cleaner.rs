//! The cleaner of legacy tokens marks generated tokens in Secrets that nobody has used for long as invalid, and deletes them
//! when nobody has missed them for as long again.
//!
//! ```text
//!   tracked, created and last used more than a year ago    label kubernetes.io/legacy-token-invalid-since=<today>
//!   ... the API server refuses the token
//!   ... marked more than a year ago                         deleted
//! ```
//!
//! Corresponds to legacy_serviceaccount_token_cleaner.go of pkg/controller/serviceaccount.

use client::reconcile::PeriodicReconciler;
use client::{Action, Client, DeleteOptions, Lister, Patch, Plan, Preconditions};
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proto::Kind;
use proto::kinds::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(24 * 3600);
const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// ConfigMap with the day since which the API server labels the tokens that are used.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

struct Cleaner {
    client: Client,
    accounts: Lister<ServiceAccount>,
    secrets: Lister<Secret>,
    pods: Lister<Pod>,
    period: SignedDuration,
}

#[derive(Clone, Debug)]
struct Observed {
    /// The day since which uses are tracked; `None` if it is not known.
    tracked_since: Option<Date>,
    /// Secrets with tokens, each with the account that it belongs to.
    tokens: Vec<(Arc<Secret>, Option<Arc<ServiceAccount>>)>,
    /// Names of the secrets that pods use, by namespace.
    used: BTreeMap<String, BTreeSet<String>>,
    period: SignedDuration,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let period = setup.settings.legacy_service_account_token_clean_up_period;
    if period.is_zero() {
        tracing::warn!("invalid CleanUpPeriod: 0s: unused tokens in secrets are not cleaned up");
        return Box::pin(async {});
    }
    let cleaner = Cleaner {
        client: setup.actor().client,
        accounts: setup.lister(),
        secrets: setup.lister(),
        pods: setup.lister(),
        period: SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX),
    };
    setup.run_periodically("legacy-service-account-token-cleaner", PERIOD, cleaner)
}

impl Cleaner {
    async fn tracked_since(&self) -> Option<Date> {
        let tracking = self.client.api::<ConfigMap>("kube-system").get(TRACKING).await;
        let tracking =
            tracking.inspect_err(|error| tracing::warn!(%error, "since when tokens are tracked is not known"));
        tracking.ok()?.data?.get("since")?.parse().ok()
    }
}

impl PeriodicReconciler for Cleaner {
    type Observed = Observed;

    /// Reads the pods, and since when tokens are tracked, only if a token looks unused.
    async fn observe(&mut self, now: Timestamp) -> Observed {
        let of_account = |secret: Arc<Secret>| {
            let account = self.accounts.get(secret.namespace(), annotation(&secret, ACCOUNT_NAME));
            (secret, account)
        };
        let secrets = self.secrets.filter("", |secret| secret.type_.as_deref() == Some(TYPE) && !secret.is_deleting());
        let tokens: Vec<_> = secrets.into_iter().map(of_account).collect();
        let mut observed = Observed { tracked_since: None, tokens, used: BTreeMap::new(), period: self.period };
        let namespaces: BTreeSet<&str> = observed.due(now).map(Secret::namespace).collect();
        let used_in = |namespace: &str| {
            let pods = self.pods.in_namespace(namespace);
            (namespace.to_owned(), pods.iter().flat_map(|pod| secret_names(pod)).collect())
        };
        observed.used = namespaces.into_iter().map(used_in).collect();
        if observed.unused(now).next().is_some() {
            observed.tracked_since = self.tracked_since().await;
        }
        observed
    }

    fn plan(&mut self, observed: &Observed, now: Timestamp) -> Vec<Plan> {
        plan(observed, now)
    }
}

fn annotation<'a>(secret: &'a Secret, key: &str) -> &'a str {
    secret.metadata.annotations.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str)
}

fn label<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    secret.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Returns the day of a label; `None` if it is absent or no day.
fn day(text: Option<&str>) -> Option<Date> {
    text?.parse().ok()
}

fn date_of(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

impl Observed {
    /// Returns the time from which on a use, or the creation, of a token keeps it.
    fn kept_from(&self, now: Timestamp) -> Timestamp {
        now.saturating_sub(self.period).unwrap_or(Timestamp::MIN)
    }

    /// Returns the due tokens that no pod mounts.
    fn unused(&self, now: Timestamp) -> impl Iterator<Item = &Secret> {
        let is_mounted =
            |secret: &&Secret| self.used.get(secret.namespace()).is_some_and(|used| used.contains(secret.name()));
        self.due(now).filter(move |secret| !is_mounted(secret))
    }

    /// Returns the generated tokens that were neither made nor used within the period, and that are not marked, or were
    /// marked before it.
    fn due(&self, now: Timestamp) -> impl Iterator<Item = &Secret> {
        let kept_from = self.kept_from(now);
        let due = self.tokens.iter().filter(move |(secret, account)| {
            let is_old = secret.metadata.creation_timestamp.as_ref().is_none_or(|time| time.0 < kept_from);
            let is_unused = match label(secret, LAST_USED) {
                None => true,
                // Nobody can say when a token with a label that is no day was used.
                Some(text) => day(Some(text)).is_some_and(|day| day < date_of(kept_from)),
            };
            let is_marked = day(label(secret, INVALID_SINCE)).is_some_and(|since| since >= date_of(kept_from));
            is_old && is_unused && !is_marked && is_generated(secret, account.as_deref())
        });
        due.map(|(secret, _)| &**secret)
    }
}

/// Plans one write for each unused token, once uses have been tracked for the whole period.
fn plan(observed: &Observed, now: Timestamp) -> Vec<Plan> {
    let kept_from = observed.kept_from(now);
    // Tracking began within its first day.
    let tracked_from = observed.tracked_since.and_then(|day| day.tomorrow().ok());
    let tracked_from = tracked_from.and_then(|day| day.to_zoned(TimeZone::UTC).ok());
    if tracked_from.is_none_or(|from| from.timestamp() > kept_from) {
        return Vec::new();
    }
    observed.unused(now).map(|secret| Plan::of([clean(secret, now)])).collect()
}

/// Returns true if the account lists the secret, as Kubernetes before v1.24 made them.
fn is_generated(secret: &Secret, account: Option<&ServiceAccount>) -> bool {
    let uid = annotation(secret, ACCOUNT_UID);
    let account = account.filter(|account| uid.is_empty() || account.uid() == uid);
    let mut listed = account.into_iter().flat_map(|account| account.secrets.iter().flatten());
    listed.any(|reference| reference.name.as_deref() == Some(secret.name()))
}

/// Marks a token, or deletes it if it was marked long ago.
fn clean(secret: &Secret, now: Timestamp) -> Action {
    if day(label(secret, INVALID_SINCE)).is_none() {
        let labels = json!({INVALID_SINCE: date_of(now).to_string()});
        let patch = json!({"metadata": {"uid": secret.uid(), "labels": labels}});
        return Action::patch::<Secret>(secret.namespace(), secret.name(), Patch::Merge(patch));
    }
    let resource_version = secret.resource_version().to_owned();
    let preconditions = Preconditions { resource_version, ..Preconditions::default() };
    actions::delete(secret, DeleteOptions { preconditions, ..DeleteOptions::default() })
}

/// Returns the names of the secrets that a pod uses.
fn secret_names(pod: &Pod) -> Vec<String> {
    let mut names = Vec::new();
    collect(&json!(pod.spec), &mut names);
    names
}

/// Collects the names below the fields that refer to secrets, wherever they stand in a spec.
fn collect(value: &Value, names: &mut Vec<String>) {
    const REFERENCES: &[&str] = &["secretRef", "secretKeyRef", "nodePublishSecretRef", "secret"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match field.as_str() {
                    "secretName" => names.extend(text(value)),
                    "imagePullSecrets" => {
                        names.extend(value.as_array().into_iter().flatten().filter_map(|item| text(&item["name"])));
                    }
                    field if REFERENCES.contains(&field) => {
                        names.extend(text(&value["name"]));
                        collect(value, names);
                    }
                    _ => collect(value, names),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::ObjectReference;

    const NOW: &str = "2026-06-15T10:00:00Z";

    fn token(created: &str, labels: &[(&str, &str)]) -> Secret {
        let mut secret = Secret { metadata: fixture::meta("old"), type_: Some(TYPE.to_owned()), ..Secret::default() };
        fixture::annotate(&mut secret, &[(ACCOUNT_NAME, "robot"), (ACCOUNT_UID, "uid-robot")]);
        secret.metadata.labels = Some(fixture::labels(labels));
        secret.metadata.creation_timestamp = Some(proto::kinds::metav1::Time(created.parse().unwrap()));
        secret
    }

    fn account(name: &str) -> ServiceAccount {
        let secrets = vec![ObjectReference { name: Some("old".to_owned()), ..ObjectReference::default() }];
        ServiceAccount { metadata: fixture::meta(name), secrets: Some(secrets), ..ServiceAccount::default() }
    }

    fn observed(secret: Secret, account: Option<ServiceAccount>) -> Observed {
        Observed {
            tracked_since: Some("2024-01-01".parse().unwrap()),
            tokens: vec![(Arc::new(secret), account.map(Arc::new))],
            used: BTreeMap::new(),
            period: SignedDuration::from_hours(8760),
        }
    }

    fn planned(observed: &Observed) -> String {
        plan(observed, NOW.parse().unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_unused_token_is_marked_and_a_year_later_deleted() {
        let mark = "merge patch secrets default/old {\"metadata\":{\"labels\":{\"kubernetes.io/legacy-token-invalid-since\":\
                    \"2026-06-15\"},\"uid\":\"uid-old\"}}\n";
        let (long_ago, delete) = ("2020-01-01T00:00:00Z", "delete secrets default/old\n");
        let cases = [
            ("never used", long_ago, vec![], mark),
            ("used long ago", long_ago, vec![(LAST_USED, "2025-06-14")], mark),
            ("used in the last year", long_ago, vec![(LAST_USED, "2025-06-15")], ""),
            ("used on no day", long_ago, vec![(LAST_USED, "soon")], ""),
            ("made in the last year", "2025-06-15T10:00:00Z", vec![], ""),
            ("made before", "2025-06-15T09:59:59Z", vec![], mark),
            ("marked", long_ago, vec![(INVALID_SINCE, "2025-06-15")], ""),
            ("marked with no day", long_ago, vec![(INVALID_SINCE, "soon")], mark),
            ("marked long ago", long_ago, vec![(INVALID_SINCE, "2025-06-14")], delete),
            ("used again since", long_ago, vec![(INVALID_SINCE, "2025-06-14"), (LAST_USED, "2026-06-01")], ""),
        ];
        for (what, created, labels, expected) in cases {
            assert_eq!(planned(&observed(token(created, &labels), Some(account("robot")))), expected, "{what}");
        }
    }

    #[test]
    fn only_generated_tokens_that_nobody_mounts_are_cleaned_up() {
        let unused = || token("2020-01-01T00:00:00Z", &[]);
        assert_eq!(planned(&observed(unused(), None)), "", "without an account");
        assert_eq!(planned(&observed(unused(), Some(account("other")))), "", "another account of the name");
        let mut unlisted = account("robot");
        unlisted.secrets = None;
        assert_eq!(planned(&observed(unused(), Some(unlisted))), "", "made by a user");
        let marked = observed(token("2020-01-01T00:00:00Z", &[(INVALID_SINCE, "2025-06-15")]), Some(account("robot")));
        assert_eq!(marked.due(NOW.parse().unwrap()).count(), 0, "no pod is read for it");
        let mut mounted = observed(unused(), Some(account("robot")));
        mounted.used.insert("default".to_owned(), BTreeSet::from(["old".to_owned()]));
        assert_eq!(planned(&mounted), "");
        for since in [None, Some("2025-06-15")] {
            let mut early = observed(unused(), Some(account("robot")));
            early.tracked_since = since.map(|day| day.parse().unwrap());
            assert_eq!(planned(&early), "", "tracked since {since:?}");
        }
    }

    #[test]
    fn secrets_are_named_in_many_places() {
        let spec = json!({
            "imagePullSecrets": [{"name": "a"}],
            "containers": [{
                "name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "b", "key": "k"}}}],
                "envFrom": [{"secretRef": {"name": "c"}}, {"configMapRef": {"name": "no"}}],
            }],
            "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "d"}}]}],
            "volumes": [
                {"name": "v", "secret": {"secretName": "e"}},
                {"name": "w", "projected": {"sources": [{"secret": {"name": "f"}}, {"configMap": {"name": "no"}}]}},
                {"name": "x", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "g"}}},
            ],
        });
        let pod = Pod::decode_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
        let names: BTreeSet<String> = secret_names(&pod).into_iter().collect();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "e", "f", "g"]);
    }
}
