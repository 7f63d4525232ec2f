//! The table of the flags of kube-apiserver v1.36. `works` marks those that have an effect here, `none` the others.
//!
//! The flags that work are fields of `Config`, where they are described. Corresponds to cmd/kube-apiserver/app/options.

use component_base::options::Original;
use component_base::options::original::Form::{Duration, Float, Int, Ip, List, Pairs, Switch, Switches, Text};
use component_base::options::original::{Flag, JSON_LOGGING, LOGGING, METRICS, SERVING, VERSIONS, none, works};

/// The original whose flags the API server accepts.
#[derive(Clone, Debug)]
pub struct KubeApiserver;

// Deviation: an API server without flags authorizes by Node and RBAC, and has an issuer of service account tokens and a
// range for Services: the values that kubeadm sets.
impl Original for KubeApiserver {
    const NAME: &'static str = "kube-apiserver";
    const FLAGS: &'static [&'static [Flag]] = &[
        SERVING,
        REQUESTS,
        STORE,
        AUTHENTICATION,
        AUTHORIZATION,
        ADMISSION,
        APIS,
        AUDIT,
        NETWORK,
        LOGGING,
        JSON_LOGGING,
        METRICS,
        VERSIONS,
    ];
}

const REQUESTS: &[Flag] = &[
    works("cert-dir", Text, "/var/run/kubernetes"),
    none("contention-profiling", Switch, ""),
    works("cors-allowed-origins", List, ""),
    none("debug-socket-path", Text, ""),
    works("delete-collection-workers", Int, "1").but("16"),
    works("enable-priority-and-fairness", Switch, "true"),
    none("external-hostname", Text, ""),
    none("goaway-chance", Float, ""),
    none("livez-grace-period", Duration, ""),
    none("max-connection-bytes-per-sec", Int, ""),
    works("max-mutating-requests-inflight", Int, "200"),
    works("max-requests-inflight", Int, "400"),
    works("min-request-timeout", Int, "1800"),
    none("profiling", Switch, "true"),
    works("request-timeout", Duration, "1m0s"),
    works("secure-port", Int, "6443"),
    none("send-retry-after-while-not-ready-once", Switch, ""),
    works("shutdown-delay-duration", Duration, ""),
    none("shutdown-send-retry-after", Switch, ""),
    none("shutdown-watch-termination-grace-period", Duration, ""),
    none("strict-transport-security-directives", List, ""),
    none("tracing-config-file", Text, ""),
];

const STORE: &[Flag] = &[
    works("encryption-provider-config", Text, ""),
    works("encryption-provider-config-automatic-reload", Switch, ""),
    works("etcd-cafile", Text, ""),
    works("etcd-certfile", Text, ""),
    works("etcd-compaction-interval", Duration, "5m0s"),
    none("etcd-count-metric-poll-period", Duration, "1m0s"),
    none("etcd-db-metric-poll-interval", Duration, "30s"),
    none("etcd-healthcheck-timeout", Duration, "2s"),
    works("etcd-keyfile", Text, ""),
    works("etcd-prefix", Text, "/registry"),
    none("etcd-readycheck-timeout", Duration, "2s"),
    works("etcd-servers", List, ""),
    none("etcd-servers-overrides", List, ""),
    works("lease-reuse-duration-seconds", Int, "60"),
    none("storage-backend", Text, ""),
    none("storage-initialization-timeout", Duration, "1m0s"),
    none("storage-media-type", Text, "application/vnd.kubernetes.protobuf"),
    none("watch-cache", Switch, "true"),
    none("watch-cache-sizes", List, ""),
];

const AUTHENTICATION: &[Flag] = &[
    works("anonymous-auth", Switch, "true"),
    works("api-audiences", List, ""),
    works("authentication-config", Text, ""),
    works("authentication-token-webhook-cache-ttl", Duration, "2m0s"),
    works("authentication-token-webhook-config-file", Text, ""),
    works("authentication-token-webhook-version", Text, "v1beta1"),
    works("enable-bootstrap-token-auth", Switch, ""),
    works("oidc-ca-file", Text, ""),
    works("oidc-client-id", Text, ""),
    works("oidc-groups-claim", Text, ""),
    works("oidc-groups-prefix", Text, ""),
    works("oidc-issuer-url", Text, ""),
    works("oidc-required-claim", Pairs, ""),
    works("oidc-signing-algs", List, "RS256"),
    works("oidc-username-claim", Text, "sub"),
    works("oidc-username-prefix", Text, ""),
    works("requestheader-allowed-names", List, ""),
    works("requestheader-client-ca-file", Text, ""),
    works("requestheader-extra-headers-prefix", List, ""),
    works("requestheader-group-headers", List, ""),
    works("requestheader-uid-headers", List, ""),
    works("requestheader-username-headers", List, ""),
    works("service-account-extend-token-expiration", Switch, "true"),
    works("service-account-issuer", List, "").but("https://kubernetes.default.svc"),
    works("service-account-jwks-uri", Text, ""),
    works("service-account-key-file", List, ""),
    works("service-account-lookup", Switch, "true"),
    works("service-account-max-token-expiration", Duration, ""),
    works("service-account-signing-endpoint", Text, ""),
    works("service-account-signing-key-file", Text, ""),
    works("token-auth-file", Text, ""),
];

const AUTHORIZATION: &[Flag] = &[
    works("authorization-config", Text, ""),
    works("authorization-mode", List, "").but("Node,RBAC"),
    works("authorization-policy-file", Text, ""),
    works("authorization-webhook-cache-authorized-ttl", Duration, "5m0s"),
    works("authorization-webhook-cache-unauthorized-ttl", Duration, "30s"),
    works("authorization-webhook-config-file", Text, ""),
    works("authorization-webhook-version", Text, "v1beta1"),
];

const ADMISSION: &[Flag] = &[
    none("admission-control", List, ""),
    works("admission-control-config-file", Text, ""),
    none("allow-privileged", Switch, ""),
    works("default-not-ready-toleration-seconds", Int, "300"),
    works("default-unreachable-toleration-seconds", Int, "300"),
    works("disable-admission-plugins", List, ""),
    works("enable-admission-plugins", List, ""),
];

const APIS: &[Flag] = &[
    none("aggregator-reject-forwarding-redirect", Switch, "true"),
    none("coordinated-leadership-lease-duration", Duration, "15s"),
    none("coordinated-leadership-renew-deadline", Duration, "10s"),
    none("coordinated-leadership-retry-period", Duration, "2s"),
    none("emulation-forward-compatible", Switch, ""),
    none("enable-aggregator-routing", Switch, ""),
    none("enable-garbage-collector", Switch, "true"),
    none("enable-logs-handler", Switch, ""),
    works("event-ttl", Duration, "1h0m0s"),
    none("peer-advertise-ip", Text, ""),
    none("peer-advertise-port", Text, ""),
    none("peer-ca-file", Text, ""),
    works("proxy-client-cert-file", Text, ""),
    works("proxy-client-key-file", Text, ""),
    works("runtime-config", Switches, ""),
    none("runtime-config-emulation-forward-compatible", Switch, ""),
];

const AUDIT: &[Flag] = &[
    works("audit-log-batch-buffer-size", Int, "10000"),
    works("audit-log-batch-max-size", Int, "1"),
    works("audit-log-batch-max-wait", Duration, ""),
    works("audit-log-batch-throttle-burst", Int, ""),
    works("audit-log-batch-throttle-enable", Switch, ""),
    works("audit-log-batch-throttle-qps", Float, ""),
    works("audit-log-compress", Switch, ""),
    works("audit-log-format", Text, "json"),
    works("audit-log-maxage", Int, "366"),
    works("audit-log-maxbackup", Int, "100"),
    works("audit-log-maxsize", Int, "100"),
    works("audit-log-mode", Text, "blocking"),
    works("audit-log-path", Text, ""),
    works("audit-log-truncate-enabled", Switch, ""),
    works("audit-log-truncate-max-batch-size", Int, "10485760"),
    works("audit-log-truncate-max-event-size", Int, "102400"),
    none("audit-log-version", Text, "audit.k8s.io/v1"),
    works("audit-policy-file", Text, ""),
    works("audit-webhook-batch-buffer-size", Int, "10000"),
    works("audit-webhook-batch-max-size", Int, "400"),
    works("audit-webhook-batch-max-wait", Duration, "30s"),
    works("audit-webhook-batch-throttle-burst", Int, "15"),
    works("audit-webhook-batch-throttle-enable", Switch, "true"),
    works("audit-webhook-batch-throttle-qps", Float, "10"),
    works("audit-webhook-config-file", Text, ""),
    works("audit-webhook-initial-backoff", Duration, "10s"),
    works("audit-webhook-mode", Text, "batch"),
    works("audit-webhook-truncate-enabled", Switch, ""),
    works("audit-webhook-truncate-max-batch-size", Int, "10485760"),
    works("audit-webhook-truncate-max-event-size", Int, "102400"),
    none("audit-webhook-version", Text, "audit.k8s.io/v1"),
];

const NETWORK: &[Flag] = &[
    works("advertise-address", Ip, ""),
    none("egress-selector-config-file", Text, ""),
    works("endpoint-reconciler-type", Text, "lease"),
    works("kubelet-certificate-authority", Text, ""),
    works("kubelet-client-certificate", Text, ""),
    works("kubelet-client-key", Text, ""),
    none("kubelet-preferred-address-types", List, "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP"),
    works("kubelet-timeout", Duration, "5s"),
    none("kubernetes-service-node-port", Int, ""),
    works("service-cluster-ip-range", Text, "").but("10.96.0.0/16"),
    works("service-node-port-range", Text, "30000-32767"),
];

#[cfg(test)]
mod tests {
    use super::KubeApiserver;
    use crate::Config;
    use crate::config::StoreKind;
    use crate::service_on;
    use crate::testing::{Api, Command};
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use clap::Parser;
    use component_base::env::Env;
    use component_base::options::Original;
    use component_base::options::original::disagreements;
    use http::Method;
    use serde_json::{Value, json};
    use storage::memory::Memory;

    async fn started(flags: &[&str]) -> Api {
        Api::with_flags(flags).await
    }

    #[test]
    fn every_flag_of_the_original_is_accepted_and_every_field_is_as_there() {
        // `--help` of v1.36.2 lists as many, apart from --help, --version and -v.
        assert_eq!(KubeApiserver::flags().count(), 170);
        assert_eq!(disagreements::<KubeApiserver, Config>(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn authorizers_are_those_that_were_named() {
        let nobody = [("authorization", "")];
        let ann = [("authorization", "Bearer ann-token")];
        for (flags, of_ann, of_nobody) in [
            (&[][..], 403, 403),
            (&["--authorization-mode=AlwaysAllow"], 200, 401),
            (&["--authorization-mode=Node,RBAC,AlwaysAllow", "--anonymous-auth=true"], 200, 401),
            (&["--authorization-mode=AlwaysDeny"], 403, 403),
        ] {
            let (path, api) = ("/api/v1/secrets", started(flags).await);
            assert_eq!(api.ask(Method::GET, path, "", &ann).await.code, of_ann, "{flags:?}");
            assert_eq!(api.ask(Method::GET, path, "", &nobody).await.code, of_nobody, "{flags:?}");
        }
        let denied = started(&["--authorization-mode=AlwaysDeny"]).await;
        let answer = denied.ask(Method::GET, "/api/v1/secrets", "", &nobody).await;
        assert!(answer.message().ends_with("Everything is forbidden."), "{}", answer.message());
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[tokio::test(start_paused = true)]
    async fn abac_policies_come_from_a_file() {
        let policies = file("{\"user\": \"ann\", \"resource\": \"configmaps\", \"readonly\": true}\n");
        let policies = format!("--authorization-policy-file={}", policies.path().display());
        let api = started(&["--authorization-mode=ABAC", &policies]).await;
        let ann = [("authorization", "Bearer ann-token")];
        assert_eq!(api.ask(Method::GET, "/api/v1/configmaps", "", &ann).await.code, 200);
        let refused = api.ask(Method::GET, "/api/v1/secrets", "", &ann).await;
        assert_eq!(refused.code, 403);
        assert!(refused.message().ends_with("at the cluster scope: No policy matched."), "{}", refused.message());
    }

    #[test]
    fn what_does_not_fit_together_is_refused_in_a_line() {
        let bad = file("{\"users\": \"ann\"}\n");
        let path = bad.path().display();
        let (bad, at) = (format!("--authorization-policy-file={path}"), format!("--authorization-policy-file: {path}"));
        for (flags, expected) in [
            (&["--authorization-mode=ABAC"][..], "--authorization-policy-file: needed by --authorization-mode=ABAC"),
            (&[&bad], "--authorization-policy-file: cannot be specified without --authorization-mode=ABAC"),
            (&["--authorization-mode=ABAC", &bad], &format!("{at}: line 1: unknown field `users`")),
            (&["--service-account-signing-endpoint=/run/s"], "--service-account-signing-endpoint: signers outside"),
            (&["--proxy-client-key-file=a"], "--proxy-client-key-file: needs --proxy-client-cert-file beside it"),
            (&["--proxy-client-key-file=a", "--proxy-client-cert-file=b"], "--proxy-client-cert-file: b: No such"),
            (
                &["--enable-admission-plugins=EventRateLimit"],
                "--admission-control-config-file: plugin \"EventRateLimit\": limits",
            ),
            (&["--admission-control-config-file=nowhere"], "--admission-control-config-file: nowhere: No such file"),
            (&["--requestheader-uid-headers= "], "--requestheader-uid-headers: empty value in"),
            (&["--requestheader-client-ca-file=c"], "--requestheader-client-ca-file: c: No such file"),
        ] {
            let config = Command::parse_from([&["apiserver"], flags].concat()).config;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            let refused = runtime.unwrap().block_on(async {
                let env = Env::simulated(1);
                service_on(config, env.clone(), Memory::new(&env)).err().map(|error| error.to_string())
            });
            let refused = refused.unwrap_or_default();
            assert!(refused.starts_with(expected), "{flags:?}: {refused}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_of_pods_that_may_not_renew_them_live_a_year() {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"serviceAccountName": "a", "containers": [{"name": "c", "image": "i"}]},
        });
        let request = |expiration_s: i64, bound: bool, audience: &str| {
            let mut spec = json!({"expirationSeconds": expiration_s, "audiences": [audience]});
            if bound {
                spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
            }
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
        };
        let own = "https://kubernetes.default.svc";
        let year_s = 365 * 24 * 3600;
        for (flag, asked_s, bound, audience, life_s) in [
            ("--service-account-extend-token-expiration", 3607, true, own, year_s),
            ("--service-account-extend-token-expiration", 3608, true, own, 3608),
            ("--service-account-extend-token-expiration", 3607, false, own, 3607),
            ("--service-account-extend-token-expiration", 3607, true, "vault", 3607),
            ("--service-account-extend-token-expiration=false", 3607, true, own, 3607),
        ] {
            let api = started(&[flag]).await;
            api.create("/api/v1/namespaces/default/serviceaccounts", account.clone()).await;
            api.create("/api/v1/namespaces/default/pods", pod.clone()).await;
            let path = "/api/v1/namespaces/default/serviceaccounts/a/token";
            let token = api.create(path, request(asked_s, bound, audience)).await;
            assert_eq!(token["spec"]["expirationSeconds"], asked_s);
            let claims = token["status"]["token"].as_str().and_then(|token| token.split('.').nth(1)).unwrap();
            let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
            let at = |claim: &Value| claim.as_i64().map(|time_s| time_s - claims["iat"].as_i64().unwrap());
            assert_eq!(at(&claims["exp"]), Some(life_s), "{flag} {asked_s} {bound} {audience}");
            let warn_after = at(&claims["kubernetes.io"]["warnafter"]);
            assert_eq!(warn_after, (life_s == year_s).then_some(asked_s));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_is_switched_off_is_not_there() {
        let api = started(&["--runtime-config=autoscaling/v1=false"]).await;
        let path = |version: &str| format!("/apis/autoscaling/{version}/horizontalpodautoscalers");
        assert_eq!((api.get(&path("v1")).await.code, api.get(&path("v2")).await.code), (404, 200));
        assert_eq!(api.get("/apis/autoscaling/v1").await.code, 404);
    }

    /// A server lacks the hooks of the groups that it does not serve, and does not wait for their objects.
    #[tokio::test(start_paused = true)]
    async fn a_server_without_some_groups_gets_ready() {
        let (roles, classes, fairness) =
            ("rbac/bootstrap-roles", "bootstrap-system-priority-classes", "priority-and-fairness-config-producer");
        let off = "--enable-priority-and-fairness=false";
        for (flags, without, with) in [
            (&["--runtime-config=api/beta=false"][..], &[][..], &[roles, classes, fairness][..]),
            (&["--runtime-config=rbac.authorization.k8s.io/v1=false"], &[roles], &[classes, fairness]),
            (&["--runtime-config=networking.k8s.io/v1=false,discovery.k8s.io/v1=false"], &[], &[roles, classes]),
            (&["--runtime-config=flowcontrol.apiserver.k8s.io/v1=false", off], &[fairness], &[roles, classes]),
            (
                &["--runtime-config=apiregistration.k8s.io/v1=false,apiextensions.k8s.io/v1=false"],
                &[],
                &[roles, "crd-informer-synced", "apiservice-wait-for-first-sync"],
            ),
            (&["--runtime-config=api/all=false,api/v1=true", off], &[roles, classes, fairness], &["system-namespaces"]),
        ] {
            let (env, config) = (Env::simulated(1), Command::parse_from([&["apiserver"], flags].concat()).config);
            let api = Api::starting(&env, Memory::new(&env), Config { store: Some(StoreKind::Memory), ..config });
            api.until("/readyz?verbose", |answer| answer.code == 200).await;
            assert_eq!(api.get("/api/v1/namespaces/kube-system").await.code, 200, "{flags:?}");
            for endpoint in ["/healthz?verbose", "/readyz?verbose"] {
                let checks = api.get(endpoint).await;
                assert!(without.iter().all(|name| !checks.text.contains(name)), "{flags:?}: {}", checks.text);
                assert!(with.iter().all(|name| checks.text.contains(name)), "{flags:?}: {}", checks.text);
            }
        }
    }

    /// Tools compare the whole version, and `kubectl --match-server-version` compares the commit too.
    #[tokio::test(start_paused = true)]
    async fn clients_are_told_the_originals_version_or_the_one_that_is_asked_for() {
        for (flags, reported) in [(&[][..], "v1.36.2"), (&["--version=v1.36.2-lab.1+b"], "v1.36.2-lab.1+b")] {
            let api = started(flags).await;
            let version = api.get("/version").await.body;
            assert_eq!(version["gitVersion"], reported);
            assert_eq!(version["gitCommit"], "24e2b02af5543d7910c2bb074c7264df5a8f0467");
            assert_eq!(version["gitTreeState"], "clean");
            assert_eq!((&version["emulationMinor"], &version["compiler"]), (&json!("36"), &json!("rustc")));
            let metrics = api.get("/metrics").await.text;
            let own = format!("orrery_build_info{{version=\"{}\",models=\"v1.36.2\"}} 1\n", env!("CARGO_PKG_VERSION"));
            assert!(metrics.contains(&own), "{metrics}");
            assert!(metrics.contains(&format!("git_version=\"{reported}\"")), "{metrics}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tolerations_and_the_life_of_tokens_are_as_told() {
        let api = started(&[
            "--default-not-ready-toleration-seconds=7",
            "--service-account-max-token-expiration=1h",
            "--disable-admission-plugins=ServiceAccount",
        ])
        .await;
        let container = json!({"name": "c", "image": "i"});
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}});
        let pod = api.create("/api/v1/namespaces/default/pods", pod).await;
        assert_eq!(pod["spec"]["tolerations"][0]["tolerationSeconds"], 7);
        assert_eq!(pod["spec"]["tolerations"][1]["tolerationSeconds"], 300);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
        api.create("/api/v1/namespaces/default/serviceaccounts", account).await;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}});
        let answer = api.post("/api/v1/namespaces/default/serviceaccounts/a/token", request).await;
        let shortened = r#"299 - "requested expiration of 7200 seconds shortened to 3600 seconds""#;
        assert_eq!(answer.warnings(), [shortened]);
    }
}
