//! Aggregation: forwards a request to an aggregated API server with the user's name, and streams the response back.
//!
//! The request has passed authentication, flow control and authorization before. Corresponds to handler_proxy.go of
//! k8s.io/kube-aggregator/pkg/apiserver and to k8s.io/apimachinery/pkg/util/proxy.

use super::Call;
use super::upgrade::{self, tunnel};
use crate::answer;
use axum::body::Body;
use component_base::network::ConnectionInfo;
use extension::aggregation::identity::{IDENTITY, identify};
use extension::aggregation::table::RemoteVersion;
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use remote::clients::{CallError, unreachable};
use request::ids::AUDIT_ID;
use std::net::SocketAddr;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
/// Headers that apply to one connection and are not forwarded.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    KEEP_ALIVE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

pub async fn answer(call: &Call<'_>, remote: &RemoteVersion, body: Body) -> Response<Body> {
    if !remote.is_available {
        call.record.trace_aggregation(remote, Err("it is not available"));
        return unavailable();
    }
    let result = forward(call, remote, body).await;
    let outcome = result.as_ref().map(Response::status).map_err(ToString::to_string);
    call.record.trace_aggregation(remote, outcome.as_ref().copied().map_err(String::as_str));
    match result {
        Ok(response) => client_response(call, response),
        Err(CallError::Unresolved(error)) => {
            tracing::info!(service = remote.name, %error, "a request cannot be passed on");
            call.server.upstreams.aggregation.report_unreachable(&remote.name);
            unavailable()
        }
        Err(CallError::Unusable(why)) => answer::plain_error(500, &why),
        Err(CallError::Unreachable(why)) => {
            call.server.upstreams.aggregation.report_unreachable(&remote.name);
            answer::plain_error(503, &why)
        }
    }
}

fn unavailable() -> Response<Body> {
    answer::plain_error(503, "service unavailable")
}

/// Sends the request to the aggregated API server. If that upgrades the connection, both connections are joined.
async fn forward(call: &Call<'_>, remote: &RemoteVersion, body: Body) -> Result<Response<Body>, CallError> {
    let clients = &call.server.upstreams.aggregation.clients;
    let authority = clients.resolve(&*call.server.registry, &remote.service)?;
    let mut request = Request::new(body);
    *request.method_mut() = call.parts.method.clone();
    let path = call.parts.uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| CallError::Unusable("not a path".to_owned()))?;
    let mut headers = forwarded_headers(call.headers());
    let client_address = call.parts.extensions.get::<ConnectionInfo>().map(|connection| connection.remote_address);
    add_forwarded_for(&mut headers, client_address);
    identify(&mut headers, call.user).map_err(CallError::Unusable)?;
    if let Some(id) = call.record.audit_id() {
        headers.insert(AUDIT_ID, id);
    }
    let upgrade = call.parts.extensions.get::<OnUpgrade>().filter(|_| upgrade::is_requested(call.headers())).cloned();
    let Some(upgrade) = upgrade else {
        *request.headers_mut() = headers;
        let client = clients.client(&authority, &remote.trust)?;
        return client.send(request).await.map_err(|error| unreachable(&authority, &error));
    };
    for name in [header::CONNECTION, header::UPGRADE] {
        if let Some(value) = call.headers().get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let host = HeaderValue::from_str(&authority).map_err(|_| CallError::Unusable("not a host".to_owned()))?;
    headers.insert(header::HOST, host);
    *request.headers_mut() = headers;
    let mut found = clients.dialer(&authority, &remote.trust)?.request(&authority, request).await?;
    if found.status() == StatusCode::SWITCHING_PROTOCOLS {
        let remote_upgrade = hyper::upgrade::on(&mut found);
        let end = call.server.env.shutdown().clone();
        call.server.env.spawn(async move { tunnel(upgrade, remote_upgrade, (), end).await });
    }
    Ok(found)
}

/// Returns the response for the client: without hop-by-hop headers, and with a body that ends when this server shuts down.
/// A redirection becomes 502.
fn client_response(call: &Call<'_>, response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Response::from_parts(parts, Body::empty());
    }
    if parts.status.is_redirection() && parts.headers.contains_key(header::LOCATION) {
        let why = "the backend attempted to redirect this request, which is not permitted";
        return answer::text(502, why);
    }
    remove_hop_by_hop(&mut parts.headers);
    let end = call.server.env.shutdown().clone().cancelled_owned();
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().take_until(end)))
}

/// Returns the headers to forward: without hop-by-hop headers, credentials and headers that name a user.
fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let mut forwarded = headers.clone();
    remove_hop_by_hop(&mut forwarded);
    for name in [header::HOST, header::AUTHORIZATION, header::CONTENT_LENGTH] {
        forwarded.remove(name);
    }
    let names_user =
        |name: &HeaderName| name.as_str().starts_with(IDENTITY) || name.as_str().starts_with("impersonate-");
    let removed: Vec<HeaderName> = forwarded.keys().filter(|name| names_user(name)).cloned().collect();
    removed.into_iter().for_each(|name| drop(forwarded.remove(name)));
    forwarded
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_owned()))
        .collect();
    named.iter().for_each(|name| drop(headers.remove(name.as_str())));
    HOP_BY_HOP.into_iter().for_each(|name| drop(headers.remove(name)));
}

/// Appends the client's address to `X-Forwarded-For`, after the addresses that earlier proxies have added.
fn add_forwarded_for(headers: &mut HeaderMap, client_address: Option<SocketAddr>) {
    let Some(client_address) = client_address else { return };
    let before: Vec<&str> = headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
    let all =
        before.into_iter().map(str::to_owned).chain([client_address.ip().to_string()]).collect::<Vec<_>>().join(", ");
    if let Ok(all) = HeaderValue::from_str(&all) {
        headers.insert(FORWARDED_FOR, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let parse = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in all.iter().map(parse) {
            map.append(name, value);
        }
        map
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut shown: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        shown.sort();
        shown
    }

    #[test]
    fn headers_of_the_connection_and_of_the_user_are_not_forwarded() {
        let given = headers(&[
            ("accept", "*/*"),
            ("authorization", "Bearer x"),
            ("connection", "close, x-private"),
            ("content-length", "3"),
            ("host", "here"),
            ("impersonate-user", "eve"),
            ("traceparent", "00-1-2-01"),
            ("transfer-encoding", "chunked"),
            ("x-private", "1"),
            ("x-remote-group", "system:masters"),
        ]);
        assert_eq!(shown(&forwarded_headers(&given)), ["accept: */*", "traceparent: 00-1-2-01"]);
    }

    #[test]
    fn every_proxy_appends_the_address_of_its_client() {
        let mut forwarded = headers(&[("x-forwarded-for", "192.0.2.1")]);
        add_forwarded_for(&mut forwarded, Some("192.0.2.2:5".parse().unwrap()));
        assert_eq!(shown(&forwarded), ["x-forwarded-for: 192.0.2.1, 192.0.2.2"]);
    }
}
