//! Upgrades a request to a WebSocket or to SPDY, and negotiates the protocol within.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/httpstream and to k8s.io/kubelet/pkg/cri/streaming.

use super::channel_codec::ChannelProtocol;
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

/// The protocols that an endpoint offers over WebSockets and over SPDY.
#[derive(Clone, Copy, Debug)]
pub struct Offers {
    /// The first one is chosen whenever the client supports it, else the first of the client's own. A client that names
    /// no protocol has chosen the empty name.
    pub websocket: &'static [&'static str],
    pub spdy: &'static [&'static str],
}

impl Offers {
    /// Returns the protocol for a WebSocket whose client supports these; `None` when none is offered.
    fn websocket_protocol(self, wanted: &[String]) -> Option<&'static str> {
        let offered = |wanted: &str| self.websocket.iter().find(|known| **known == wanted).copied();
        if wanted.is_empty() {
            return offered("");
        }
        let preferred = self.websocket.first().filter(|first| wanted.iter().any(|name| name == *first));
        preferred.copied().or_else(|| wanted.iter().find_map(|name| offered(name)))
    }
}

/// The upgrade that a request asks for, and the protocols that its client supports.
pub enum Upgrade {
    WebSocket(WebSocketUpgrade, Vec<String>),
    Spdy(OnUpgrade, Vec<String>),
    None,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        if is_spdy(&parts.headers)
            && let Some(upgrade) = parts.extensions.remove::<OnUpgrade>()
        {
            return Ok(Self::Spdy(upgrade, protocols(&parts.headers, STREAM_PROTOCOL)));
        }
        let wanted = protocols(&parts.headers, header::SEC_WEBSOCKET_PROTOCOL.as_str());
        let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await;
        Ok(upgrade.map_or(Self::None, |upgrade| Self::WebSocket(upgrade, wanted)))
    }
}

fn is_spdy(headers: &HeaderMap) -> bool {
    let wanted = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    wanted.eq_ignore_ascii_case(spdy::NAME)
}

/// Returns the client's protocols: each in a header of its own, or several in one, with commas between.
fn protocols(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

impl Upgrade {
    /// True when the negotiated protocol will be one of numbered channels.
    pub fn takes_channels(&self, offers: Offers) -> bool {
        let Self::WebSocket(_, wanted) = self else { return false };
        offers.websocket_protocol(wanted).is_some_and(|chosen| !chosen.starts_with(TUNNELLED))
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
            Self::WebSocket(mut upgrade, wanted) => {
                let Some(protocol) = offers.websocket_protocol(&wanted) else {
                    let known = offers.websocket.join(", ");
                    return text((StatusCode::FORBIDDEN, format!("none of the requested protocols is one of {known}")));
                };
                if !protocol.is_empty() {
                    upgrade.set_selected_protocol(HeaderValue::from_static(protocol));
                }
                let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES);
                let framing = match protocol.starts_with(TUNNELLED) {
                    true => Framing::Spdy,
                    false => Framing::Channels(ChannelProtocol::of_name(protocol)),
                };
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
        assert_eq!(protocols(&headers, STREAM_PROTOCOL), ["v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"]);
    }

    #[test]
    fn a_websocket_gets_the_preferred_protocol_or_the_clients_first() {
        const OFFERS: Offers = Offers { websocket: &["v5", "v4", "b64", ""], spdy: &[] };
        const TUNNEL: Offers = Offers { websocket: &["SPDY/3.1+p"], spdy: &[] };
        for (offers, wanted, expected) in [
            (OFFERS, &["v4", "v5"][..], Some("v5")),
            (OFFERS, &["b64", "v4"], Some("b64")),
            (OFFERS, &["v9", "v4"], Some("v4")),
            (OFFERS, &["v9"], None),
            (OFFERS, &[], Some("")),
            (TUNNEL, &["SPDY/3.1+p"], Some("SPDY/3.1+p")),
            (TUNNEL, &[], None),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(offers.websocket_protocol(&wanted), expected, "{wanted:?}");
        }
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
