//! Groups of flags that several originals share.

use super::Flag;
use super::Form::{Duration, Gates, Int, Ip, List, Pairs, Switch, Text};
use super::{none, works};
use crate::options::feature_gates::Notation;

/// Flags for serving. The port is in each component's own table.
pub const SERVING: &[Flag] = &[
    works("bind-address", Ip, "0.0.0.0"),
    works("client-ca-file", Text, ""),
    none("disable-http2-serving", Switch, "false"),
    none("http2-max-streams-per-connection", Int, "0"),
    none("permit-address-sharing", Switch, "false"),
    none("permit-port-sharing", Switch, "false"),
    works("tls-cert-file", Text, ""),
    works("tls-cipher-suites", List, ""),
    none("tls-curve-preferences", List, ""),
    works("tls-min-version", Text, ""),
    works("tls-private-key-file", Text, ""),
    works("tls-sni-cert-key", Text, ""),
];

/// Flags for delegated authentication and authorization. This model uses the component's own kubeconfig for them.
pub const DELEGATED_AUTH: &[Flag] = &[
    none("authentication-kubeconfig", Text, ""),
    none("authentication-skip-lookup", Switch, "false"),
    none("authentication-token-webhook-cache-ttl", Duration, "10s"),
    none("authorization-always-allow-paths", List, "/healthz,/readyz,/livez"),
    none("authorization-kubeconfig", Text, ""),
    none("authorization-webhook-cache-authorized-ttl", Duration, "10s"),
    none("authorization-webhook-cache-unauthorized-ttl", Duration, "10s"),
];

/// Flags for authenticating proxies.
pub const REQUEST_HEADERS: &[Flag] = &[
    none("requestheader-allowed-names", List, ""),
    none("requestheader-client-ca-file", Text, ""),
    none("requestheader-extra-headers-prefix", List, "x-remote-extra-"),
    none("requestheader-group-headers", List, "x-remote-group"),
    none("requestheader-uid-headers", List, ""),
    none("requestheader-username-headers", List, "x-remote-user"),
];

/// Flags for leader election. The name of the lock is in each component's own table.
pub const LEADER_ELECTION: &[Flag] = &[
    works("leader-elect", Switch, "true"),
    works("leader-elect-lease-duration", Duration, "15s"),
    works("leader-elect-renew-deadline", Duration, "10s"),
    works("leader-elect-resource-lock", Text, "leases"),
    works("leader-elect-resource-namespace", Text, "kube-system"),
    works("leader-elect-retry-period", Duration, "2s"),
];

pub const LOGGING: &[Flag] = &[
    none("log-flush-frequency", Duration, "5s"),
    none("log-text-info-buffer-size", Text, ""),
    none("log-text-split-stream", Switch, "false"),
    none("logging-format", Text, "text"),
    none("vmodule", Pairs, ""),
];

/// Flags of components that can log JSON.
pub const JSON_LOGGING: &[Flag] =
    &[none("log-json-info-buffer-size", Text, ""), none("log-json-split-stream", Switch, "")];

pub const METRICS: &[Flag] = &[
    none("allow-metric-labels", Pairs, ""),
    none("allow-metric-labels-manifest", Text, ""),
    none("disabled-metrics", List, ""),
    none("show-hidden-metrics-for-version", Text, ""),
];

/// Flags for the emulated version and for feature gates.
pub const VERSIONS: &[Flag] = &[
    none("emulated-version", List, ""),
    none("feature-gates", Gates(Notation::Grouped), ""),
    none("min-compatibility-version", List, ""),
];
