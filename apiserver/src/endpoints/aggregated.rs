//! Requests that another server answers: passed on with the caller's name, and the answer passed back as it comes.
//!
//! Authentication, flow control and authorization have been before. Corresponds to handler_proxy.go of
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
use remote::callers::{CallError, unreachable};
use request::ids::AUDIT_ID;
use std::net::SocketAddr;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
/// What belongs to one connection, whoever is at its ends.
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
    let answer = pass_on(call, remote, body).await;
    let told = answer.as_ref().map(Response::status).map_err(ToString::to_string);
    call.record.trace_aggregation(remote, told.as_ref().copied().map_err(String::as_str));
    match answer {
        Ok(answer) => passed_back(call, answer),
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

async fn pass_on(call: &Call<'_>, remote: &RemoteVersion, body: Body) -> Result<Response<Body>, CallError> {
    let callers = &call.server.upstreams.aggregation.callers;
    let authority = callers.resolve(&*call.server.registry, &remote.service)?;
    let mut request = Request::new(body);
    *request.method_mut() = call.parts.method.clone();
    let path = call.parts.uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| CallError::Unusable("not a path".to_owned()))?;
    let mut headers = passed_on(call.headers());
    let came_from = call.parts.extensions.get::<ConnectionInfo>().map(|connection| connection.remote_address);
    forward(&mut headers, came_from);
    identify(&mut headers, call.user).map_err(CallError::Unusable)?;
    if let Some(id) = call.record.audit_id() {
        headers.insert(AUDIT_ID, id);
    }
    let upgrade = call.parts.extensions.get::<OnUpgrade>().filter(|_| upgrade::is_wanted(call.headers())).cloned();
    let Some(upgrade) = upgrade else {
        *request.headers_mut() = headers;
        let client = callers.client(&authority, &remote.trust)?;
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
    let mut found = callers.dialer(&authority, &remote.trust)?.request(&authority, request).await?;
    if found.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut found);
        let end = call.server.env.shutdown().clone();
        call.server.env.spawn(async move { tunnel(upgrade, theirs, (), end).await });
    }
    Ok(found)
}

/// The answer, without what belonged to the connection; its body ends with this server.
fn passed_back(call: &Call<'_>, answer: Response<Body>) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
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

/// Headers that others are shown: nothing that is the connection's, nothing by which the caller was recognised here.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut passed = headers.clone();
    remove_hop_by_hop(&mut passed);
    for name in [header::HOST, header::AUTHORIZATION, header::CONTENT_LENGTH] {
        passed.remove(name);
    }
    let hidden = |name: &HeaderName| name.as_str().starts_with(IDENTITY) || name.as_str().starts_with("impersonate-");
    let hidden: Vec<HeaderName> = passed.keys().filter(|name| hidden(name)).cloned().collect();
    hidden.into_iter().for_each(|name| drop(passed.remove(name)));
    passed
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

/// Adds where the request came from to what proxies before have said.
fn forward(headers: &mut HeaderMap, came_from: Option<SocketAddr>) {
    let Some(came_from) = came_from else { return };
    let before: Vec<&str> = headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
    let all = before.into_iter().map(str::to_owned).chain([came_from.ip().to_string()]).collect::<Vec<_>>().join(", ");
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
    fn what_is_the_connections_and_the_callers_own_is_not_passed_on() {
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
        assert_eq!(shown(&passed_on(&given)), ["accept: */*", "traceparent: 00-1-2-01"]);
    }

    #[test]
    fn every_proxy_adds_where_it_heard_it_from() {
        let mut passed = headers(&[("x-forwarded-for", "192.0.2.1")]);
        forward(&mut passed, Some("192.0.2.2:5".parse().unwrap()));
        assert_eq!(shown(&passed), ["x-forwarded-for: 192.0.2.1, 192.0.2.2"]);
    }
}
