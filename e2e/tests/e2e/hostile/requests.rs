//! Makes random reads: paths, parameters, selectors, tokens and headers.

use e2e::raw_request::RawRequest;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Pieces of paths, in their encoded form.
const SEGMENTS: &[&str] = &[
    "api",
    "apis",
    "v1",
    "v2",
    "apps",
    "namespaces",
    "default",
    "nowhere",
    "pods",
    "configmaps",
    "deployments",
    "nodes",
    "status",
    "scale",
    "log",
    "proxy",
    "watch",
    "x",
    "",
    ".",
    "..",
    "%2e%2e",
    "%2f",
    "%00",
    "%ff",
    "%25",
    "A_B",
    "openapi",
    "v3",
    "version",
    "healthz",
    "readyz",
    "livez",
    "metrics",
    "logs",
    "debug",
    "events.k8s.io",
    "events",
    "componentstatuses",
    "customresourcedefinitions",
    "apiextensions.k8s.io",
    "*",
    "a%20b",
    "~",
    "very-long-name-very-long-name-very-long-name-x",
];

/// Paths that the server serves.
const SERVED_PATHS: &[&str] = &[
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/namespaces/default/serviceaccounts/default",
    "/apis/apps/v1/deployments",
    "/apis/autoscaling/v1/horizontalpodautoscalers",
    "/apis/events.k8s.io/v1/events",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/api",
    "/apis",
    "/openapi/v2",
    "/openapi/v3/apis/apps/v1",
    "/version",
    "/readyz",
    "/metrics",
];

const PARAMETERS: &[&str] = &[
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "watch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "pretty",
    "timeout",
    "includeObject",
    "dryRun",
    "fieldManager",
    "verbose",
    "exclude",
    "unknown",
];

const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "1.5",
    "abc",
    "true",
    "false",
    "99999999999999999999",
    "18446744073709551615",
    "Exact",
    "NotOlderThan",
    "1s",
    "1ns",
    "-5m",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    "eyJ2Ijoi",
    "e30",
    "%00",
    "%ff",
    "None",
    "Object",
    "Metadata",
    "a%26b",
    "metadata.name",
    "..",
];

/// Pieces of selectors.
const WORDS: &[&str] = &[
    "a",
    "app",
    "metadata.name",
    "metadata.namespace",
    "status.phase",
    "spec.nodeName",
    "involvedObject.name",
    "in",
    "notin",
    "=",
    "==",
    "!=",
    "!",
    ",",
    "(",
    ")",
    "%20",
    "%5C",
    "x/y",
    "x/",
    "/",
    "1",
    "%3E",
    "%3C",
    "A_b",
    "-",
    ".",
    "exists",
    "%27",
    "*",
];

const ACCEPTED: &[&str] = &[
    "application/json",
    "*/*",
    "",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/cbor-seq",
    "text/html;q=0.9,;;,",
    "application/json;watch=x;stream=",
];

fn path() -> impl Strategy<Value = String> {
    let random = vec(select(SEGMENTS), 1..9).prop_map(|segments| format!("/{}", segments.join("/")));
    prop_oneof![select(SERVED_PATHS).prop_map(str::to_owned), random]
}

fn parameter() -> impl Strategy<Value = String> {
    let selector = vec(select(WORDS), 0..9).prop_map(|words| words.concat());
    let value = prop_oneof![2 => select(VALUES).prop_map(str::to_owned), 1 => selector];
    (select(PARAMETERS), value).prop_map(|(name, value)| format!("{name}={value}"))
}

/// Makes a read. A watch ends soon, unless a random parameter sets another timeout.
pub fn reads() -> impl Strategy<Value = RawRequest> {
    let headers = (select(ACCEPTED), select(vec!["", "", "gzip", "identity;q=0", "W/\"x\"", "*, \"x\""]));
    (path(), vec(parameter(), 0..5), headers).prop_map(|(path, mut parameters, (accept, other))| {
        parameters.push("timeoutSeconds=1".into());
        let request = RawRequest::get(&format!("{path}?{}", parameters.join("&"))).header("accept", accept);
        match other {
            "" => request,
            "gzip" | "identity;q=0" => request.header("accept-encoding", other),
            other => request.header("if-none-match", other),
        }
    })
}
