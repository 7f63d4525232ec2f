//! Upgrades a request to a WebSocket or to SPDY, and negotiates the protocol within.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/httpstream and to k8s.io/kubelet/pkg/cri/streaming.

use super::multiplex::{self, Framing, Incoming, Outgoing};
use super::spdy;
use super::wire::{self, MAX_MESSAGE_BYTES};
use crate::agent::plain_text::{Refusal, text};
use crate::fleet::Fleet;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use axum::response::IntoResponse;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use std::convert::Infallible;
use std::sync::Arc;

const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
const ACCEPTED_PROTOCOLS: &str = "x-accepted-stream-protocol-versions";
/// The prefix of a protocol whose SPDY frames come in the messages of a WebSocket.
const TUNNELLED: &str = "SPDY/3.1+";

/// The protocols that an endpoint offers over WebSockets and over SPDY, the preferred one first.
#[derive(Clone, Copy, Debug)]
pub struct Offers {
    pub websocket: &'static [&'static str],
    pub spdy: &'static [&'static str],
}

/// The upgrade that a request asks for; with SPDY, the protocols that its client supports.
pub enum Upgrade {
    WebSocket(WebSocketUpgrade),
    Spdy(OnUpgrade, Vec<String>),
    None,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        if is_spdy(&parts.headers)
            && let Some(upgrade) = parts.extensions.remove::<OnUpgrade>()
        {
            return Ok(Self::Spdy(upgrade, protocols(&parts.headers)));
        }
        let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await;
        Ok(upgrade.map_or(Self::None, Self::WebSocket))
    }
}

fn is_spdy(headers: &HeaderMap) -> bool {
    let wanted = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    wanted.eq_ignore_ascii_case(spdy::NAME)
}

/// Returns the client's protocols: each in a header of its own, or several in one, with commas between.
fn protocols(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(STREAM_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

impl Upgrade {
    /// True when the negotiated protocol will be one of numbered channels.
    pub fn takes_channels(&self, offers: Offers) -> bool {
        let Self::WebSocket(upgrade) = self else { return false };
        let wanted: Vec<&str> = upgrade.requested_protocols().filter_map(|name| name.to_str().ok()).collect();
        offers
            .websocket
            .iter()
            .find(|known| wanted.contains(*known))
            .is_some_and(|chosen| !chosen.starts_with(TUNNELLED))
    }

    /// Answers the upgrade and calls `run` with the open streams in the background; or refuses in the kubelet's words.
    pub fn answer<Run, Done>(self, fleet: &Arc<Fleet>, offers: Offers, run: Run) -> Response<Body>
    where
        Run: FnOnce(Framing, Incoming, Outgoing) -> Done + Send + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let (env, idle_limit) = (fleet.env().clone(), fleet.idle_limit());
        match self {
            Self::None => text((StatusCode::BAD_REQUEST, "Upgrade request required".to_owned())),
            Self::WebSocket(upgrade) => {
                let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES).protocols(offers.websocket.iter().copied());
                let Some(protocol) = upgrade.selected_protocol().and_then(|name| name.to_str().ok()) else {
                    let known = offers.websocket.join(", ");
                    return text((StatusCode::FORBIDDEN, format!("none of the requested protocols is one of {known}")));
                };
                let framing = if protocol.starts_with(TUNNELLED) { Framing::Spdy } else { Framing::Channels };
                upgrade
                    .on_upgrade(move |socket| async move {
                        let (incoming, outgoing) =
                            multiplex::open(wire::from_websocket(socket), framing, &env, idle_limit);
                        run(framing, incoming, outgoing).await;
                    })
                    .into_response()
            }
            Self::Spdy(upgrade, wanted) => {
                let Some(chosen) = wanted.iter().find(|name| offers.spdy.contains(&name.as_str())) else {
                    return refuse(&wanted, offers.spdy);
                };
                let answer = switched(chosen);
                env.clone().spawn(async move {
                    let Ok(upgraded) = upgrade.await else { return };
                    let wire = wire::from_upgraded(upgraded);
                    let (incoming, outgoing) = multiplex::open(wire, Framing::Spdy, &env, idle_limit);
                    run(Framing::Spdy, incoming, outgoing).await;
                });
                answer
            }
        }
    }
}

fn switched(protocol: &str) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(spdy::NAME));
    if let Ok(protocol) = HeaderValue::from_str(protocol) {
        headers.insert(STREAM_PROTOCOL, protocol);
    }
    answer
}

/// Refuses a client when no protocol is supported by both sides.
fn refuse(wanted: &[String], known: &'static [&'static str]) -> Response<Body> {
    if wanted.is_empty() {
        let why = "unable to upgrade: X-Stream-Protocol-Version is required\n";
        return text((StatusCode::BAD_REQUEST, why.to_owned()));
    }
    let (wanted, accepted) = (wanted.join(" "), known.join(" "));
    let refusal: Refusal = (
        StatusCode::FORBIDDEN,
        format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{wanted}], server accepts [{accepted}]\n"
        ),
    );
    let mut answer = text(refusal);
    for name in known {
        answer.headers_mut().append(ACCEPTED_PROTOCOLS, HeaderValue::from_static(name));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_come_in_headers_or_behind_commas() {
        let mut headers = HeaderMap::new();
        for value in ["v4.channel.k8s.io, v3.channel.k8s.io", "", "channel.k8s.io"] {
            headers.append(STREAM_PROTOCOL, HeaderValue::from_static(value));
        }
        assert_eq!(protocols(&headers), ["v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"]);
    }

    #[test]
    fn who_speaks_nothing_of_ours_is_told_what_we_speak() {
        let refusal = refuse(&["v1".to_owned(), "v2".to_owned()], &["v3", "v4"]);
        assert_eq!(refusal.status(), StatusCode::FORBIDDEN);
        let accepted: Vec<&HeaderValue> = refusal.headers().get_all(ACCEPTED_PROTOCOLS).iter().collect();
        assert_eq!(accepted, ["v3", "v4"]);
        assert_eq!(refuse(&[], &["v4"]).status(), StatusCode::BAD_REQUEST);
    }
}
