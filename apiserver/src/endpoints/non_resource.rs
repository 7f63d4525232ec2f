//! Paths other than resources: discovery, OpenAPI, health, metrics, version, debug pages, keys of service account tokens.
//!
//! Corresponds to the routes of k8s.io/apiserver/pkg/server/routes and pkg/endpoints/discovery.

use super::{Call, has_builtin, method_not_allowed};
use crate::answer;
use crate::discovery;
use crate::media::{self, Form};
use crate::{health, snapshot};
use axum::body::Body;
use bytes::Bytes;
use component_base::health_checks;
use component_base::metrics;
use component_base::version::Info;
use extension::aggregation;
use http::{HeaderValue, Method, Response, header};
use openapi::{Document, v2_protobuf};
use proto::Status;
use proto::resources::catalogue::GroupVersions;
use proto::wire::field_order::{
    API_GROUP, API_GROUP_LIST, API_RESOURCE_LIST, API_VERSIONS, FieldOrder, InOrder, JSON_WEB_KEY_SET,
    OPENID_CONFIGURATION,
};
use serde_json::{Value, json};

const AGGREGATED_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The paths that `/statusz` lists.
const DEBUGGING_PATHS: &[&str] = &["/healthz", "/livez", "/metrics", "/readyz", "/version"];
const OPENAPI_V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2";

pub async fn answer(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let path = call.info.path.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_read = matches!(call.parts.method, Method::GET | Method::HEAD);
    match parts.as_slice() {
        ["api"] | ["version"] if call.parts.method != Method::GET => Err(method_not_allowed()),
        ["openapi", ..] | ["metrics", ..] | ["statusz"] | ["flagz"] if !is_read => Err(method_not_allowed()),
        [] => root(call),
        ["api"] => group_discovery(call, true),
        ["apis"] => group_discovery(call, false),
        ["api", version] => resources(call, "", version),
        ["apis", group] => one_group(call, group),
        ["apis", group, version] => resources(call, group, version),
        ["version"] => {
            let form = call.plain_form()?;
            let form = Form { pretty: call.info.query.get("pretty").is_none() || form.pretty, ..form };
            Ok(answer::value(&form, 200, &Info::of_server(call.server.config.original.version())))
        }
        [endpoint @ ("healthz" | "livez" | "readyz")] => Ok(health_of(call, endpoint, "")),
        [endpoint @ ("healthz" | "livez" | "readyz"), single @ ..] => Ok(health_of(call, endpoint, &single.join("/"))),
        ["orrery", "snapshot"] if is_read => {
            let body = Body::from_stream(snapshot::save(call.server.storage.clone()));
            let mut response = answer::response(200, "application/octet-stream", Bytes::new());
            *response.body_mut() = body;
            Ok(response)
        }
        ["debug", "api_priority_and_fairness", page] if is_read => {
            let details = call.info.query.get("includeRequestDetails").is_some_and(|value| !value.is_empty());
            let fairness = call.server.flow_control.fairness();
            let page = fairness.and_then(|fairness| flow_control::debug::page(fairness, page, details));
            Ok(page.map_or_else(not_found, |page| answer::text(200, page)))
        }
        ["debug", "requests"] if is_read => {
            let traces = call.server.records.request_traces.as_ref();
            let listed = traces.map(|traces| json!({"items": traces.summaries()}).to_string());
            Ok(listed.map_or_else(not_found, |listed| answer::response(200, "application/json", listed.into())))
        }
        ["debug", "requests", _] if is_read => {
            let found =
                call.server.records.request_traces.as_ref().and_then(|traces| traces.document(call.parts.uri.path()));
            Ok(found.map_or_else(not_found, |document| answer::response(200, "application/json", document)))
        }
        ["metrics"] => {
            let text = call.server.env.metrics().encode();
            Ok(answer::response(200, metrics::TEXT_FORMAT, text.into()))
        }
        ["metrics", "slis"] => {
            Ok(answer::response(200, metrics::TEXT_FORMAT, call.server.records.health_metrics.page().into()))
        }
        ["statusz" | "flagz"] => {
            let (pages, now) = (&call.server.records.zpages, call.server.env.wall());
            Ok(pages.answer(path, call.headers(), now, DEBUGGING_PATHS).unwrap_or_else(not_found))
        }
        ["openapi", "v2"] => Ok(openapi_v2(call)),
        ["openapi", "v3"] => {
            let index = call.server.upstreams.aggregation.v3_index(&call.server.openapi());
            Ok(document(call, &index, "text/plain; charset=utf-8"))
        }
        ["openapi", "v3", "api", version] => openapi_v3(call, "", version),
        ["openapi", "v3", "apis", group, version] => {
            match call.server.upstreams.aggregation.of_path(&format!("/apis/{group}/{version}")) {
                Some(remote) => {
                    let path = call.parts.uri.path_and_query().map_or("/", |path| path.as_str());
                    let (server, headers) = (call.server, call.headers());
                    let (clients, objects) = (&server.upstreams.aggregation.clients, &*server.registry);
                    let found = aggregation::openapi::v3(clients, objects, path, headers, &remote).await;
                    Ok(found.unwrap_or_else(|why| answer::plain_error(503, &why)))
                }
                None => openapi_v3(call, group, version),
            }
        }
        [".well-known", "openid-configuration"] => {
            let tokens =
                call.server.access.authentication.service_accounts.as_ref().ok_or_else(Status::unknown_path)?;
            let address = call.server.advertised_address();
            let own = format!("https://{address}/openid/v1/jwks");
            let body =
                tokens.openid_configuration(call.server.config.service_account_jwks_uri.as_ref().unwrap_or(&own));
            let body = InOrder(&body, &OPENID_CONFIGURATION).to_json();
            Ok(answer::response(200, "application/json", body.into()))
        }
        ["openid", "v1", "jwks"] => {
            let tokens =
                call.server.access.authentication.service_accounts.as_ref().ok_or_else(Status::unknown_path)?;
            let keys = InOrder(&tokens.jwks(), &JSON_WEB_KEY_SET).to_json();
            Ok(answer::response(200, "application/jwk-set+json", keys.into()))
        }
        _ => Ok(not_found()),
    }
}

/// Builds the 404 of a path that nothing serves: the router's line of text.
pub fn not_found() -> Response<Body> {
    answer::plain_error(404, "404 page not found")
}

/// Answers a health endpoint, or one of its checks if `single` names it.
fn health_of(call: &Call<'_>, endpoint: &str, single: &str) -> Response<Body> {
    let checks = health::checks(call.server, endpoint);
    let query = call.parts.uri.query().unwrap_or_default();
    let metrics = &call.server.records.health_metrics;
    let mut response = health_checks::answer(endpoint, &checks, single, query, metrics);
    if !single.is_empty() && response.status() == 200 {
        response.headers_mut().remove(header::X_CONTENT_TYPE_OPTIONS);
    }
    response
}

/// Answers `/`: the list of paths.
fn root(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let form = call.plain_form()?;
    let mut paths =
        vec!["/.well-known/openid-configuration".to_owned(), "/api".into(), "/api/v1".into(), "/apis".into()];
    let groups = groups(call);
    let mut groups: Vec<_> = groups.iter().filter(|g| !g.group.is_empty()).collect();
    groups.sort_by(|a, b| a.group.cmp(&b.group));
    for group in groups {
        paths.push(format!("/apis/{}", group.group));
        let mut versions = group.versions.clone();
        versions.sort();
        paths.extend(versions.iter().map(|version| format!("/apis/{}/{version}", group.group)));
    }
    for endpoint in ["healthz", "livez", "readyz"] {
        paths.push(format!("/{endpoint}"));
        let checks = health::checks(call.server, endpoint);
        let mut names: Vec<String> = checks.iter().map(|check| format!("/{endpoint}/{}", check.name)).collect();
        names.sort();
        paths.extend(names);
    }
    paths.extend(call.server.records.zpages.paths().map(str::to_owned));
    paths.extend(
        ["/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/version"].map(str::to_owned),
    );
    paths.sort();
    Ok(answer::value(&Form { pretty: true, ..form }, 200, &json!({"paths": paths})))
}

/// Answers `/api` and `/apis`: with the aggregated document if the client asks for it, else with the legacy list.
fn group_discovery(call: &Call<'_>, core: bool) -> Result<Response<Body>, Status> {
    match media::wants_aggregated(call.headers()) {
        Some(true) => Ok(document(call, call.server.aggregated_discovery().document(core), AGGREGATED_TYPE)),
        Some(false) | None if core => {
            let address = call.server.advertised_address();
            in_order(call, &discovery::core_versions(&address), &API_VERSIONS)
        }
        Some(false) | None => in_order(call, &discovery::group_list(&groups(call)), &API_GROUP_LIST),
    }
}

/// Returns the groups of this server and of aggregated API servers, in the order of discovery.
fn groups(call: &Call<'_>) -> Vec<GroupVersions> {
    let catalogue = call.server.registry.catalogue.load();
    aggregation::discovery::groups(catalogue.groups(), &call.server.upstreams.aggregation.table())
}

fn one_group(call: &Call<'_>, group: &str) -> Result<Response<Body>, Status> {
    match discovery::group(&groups(call), group) {
        Some(body) => in_order(call, &body, &API_GROUP),
        None => Ok(not_found()),
    }
}

fn resources(call: &Call<'_>, group: &str, version: &str) -> Result<Response<Body>, Status> {
    let catalogue = call.server.registry.catalogue.load();
    match discovery::resource_list(&catalogue, group, version) {
        Some(_) if has_builtin(&catalogue, group) && call.parts.method != Method::GET => Err(method_not_allowed()),
        Some(body) => in_order(call, &body, &API_RESOURCE_LIST),
        // Kubernetes' router answers for every path of a built-in group, with a Status.
        None if has_builtin(&catalogue, group) => Err(Status::unknown_path()),
        None => Ok(not_found()),
    }
}

/// Answers with a document whose members are in Kubernetes' order.
fn in_order(call: &Call<'_>, body: &Value, order: &FieldOrder) -> Result<Response<Body>, Status> {
    let form = call.plain_form()?;
    Ok(answer::value(&form, 200, &InOrder(body, order)))
}

fn openapi_v2(call: &Call<'_>) -> Response<Body> {
    let accept = call.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let only_protobuf = accept.contains(OPENAPI_V2_PROTOBUF) && !accept.contains("json") && !accept.contains("*/*");
    let found = call.server.upstreams.aggregation.v2(&call.server.openapi(), only_protobuf);
    document(call, &found, if only_protobuf { v2_protobuf::MEDIA_TYPE } else { "application/json" })
}

fn openapi_v3(call: &Call<'_>, group: &str, version: &str) -> Result<Response<Body>, Status> {
    match call.server.openapi().v3(group, version) {
        Some(found) => Ok(document(call, found, "application/json")),
        None => Ok(not_found()),
    }
}

/// Answers with a large document that changes rarely: 304 if the client has it already.
fn document(call: &Call<'_>, document: &Document, content_type: &str) -> Response<Body> {
    let tag = format!("\"{}\"", document.hash);
    let is_unchanged = call.headers().get(header::IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
    let gzip = answer::accepts_gzip(call.headers());
    let mut response = if is_unchanged {
        answer::response(304, content_type, bytes::Bytes::new())
    } else {
        answer::compressed(200, content_type, document.bytes.clone(), gzip)
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    response
}
