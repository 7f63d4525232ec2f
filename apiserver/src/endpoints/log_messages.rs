//! Logs over a WebSocket: a browser cannot read a response as it is streamed, but it can read messages.
//!
//! Corresponds to StreamObject in k8s.io/apiserver/pkg/endpoints/handlers/responsewriters and to wsstream.Reader.

use super::Call;
use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// The largest piece of a log that one message holds.
const MAX_PIECE_BYTES: usize = 2048;

/// What the client calls its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogProtocol {
    /// The client names no protocol: messages are bytes.
    Unnamed,
    Binary,
    Base64,
}

impl LogProtocol {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "binary.k8s.io" => Self::Binary,
            "base64.binary.k8s.io" => Self::Base64,
            _ => return None,
        })
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::Unnamed => None,
            Self::Binary => Some("binary.k8s.io"),
            Self::Base64 => Some("base64.binary.k8s.io"),
        }
    }

    /// Chooses the first protocol that the client names and this server knows.
    fn negotiate(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
        let mut names =
            values.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty()).peekable();
        if names.peek().is_none() {
            return Some(Self::Unnamed);
        }
        names.find_map(Self::of_name)
    }

    fn message(self, bytes: &[u8]) -> Message {
        match self {
            Self::Base64 => Message::Text(STANDARD.encode(bytes).into()),
            Self::Unnamed | Self::Binary => Message::Binary(Bytes::copy_from_slice(bytes)),
        }
    }
}

/// Returns whether the client asks for a WebSocket.
pub fn is_requested(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    upgrade.eq_ignore_ascii_case("websocket") && super::upgrade::is_requested(headers)
}

/// Opens a WebSocket and sends `log` through it in messages.
pub async fn answer(call: &Call<'_>, log: Body) -> Response<Body> {
    let Some(protocol) = LogProtocol::negotiate(call.headers()) else {
        let mut refused = Response::new(Body::empty());
        *refused.status_mut() = StatusCode::FORBIDDEN;
        return refused;
    };
    let mut upgrade = match WebSocketUpgrade::from_request_parts(&mut call.parts.clone(), &()).await {
        Ok(upgrade) => upgrade,
        Err(refused) => return refused.into_response(),
    };
    if let Some(name) = protocol.name() {
        upgrade.set_selected_protocol(HeaderValue::from_static(name));
    }
    upgrade.on_upgrade(move |socket| send(socket, log, protocol)).into_response()
}

/// Sends an empty message at first, so that the client knows that the log is open, and then the log. What the client
/// sends is ignored. It ends the log when it closes the WebSocket.
async fn send(mut socket: WebSocket, log: Body, protocol: LogProtocol) {
    if socket.send(protocol.message(&[])).await.is_err() {
        return;
    }
    let mut chunks = log.into_data_stream();
    loop {
        let chunk = tokio::select! {
            biased;
            received = socket.recv() => match received {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            chunk = chunks.next() => chunk,
        };
        let Some(Ok(chunk)) = chunk else { break };
        for piece in chunk.chunks(MAX_PIECE_BYTES) {
            if socket.send(protocol.message(piece)).await.is_err() {
                return;
            }
        }
    }
    let close = CloseFrame { code: close_code::NORMAL, reason: "".into() };
    let _ = socket.send(Message::Close(Some(close))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_protocol_is_chosen() {
        for (named, expected) in [
            (&[][..], Some(LogProtocol::Unnamed)),
            (&[""], Some(LogProtocol::Unnamed)),
            (&["binary.k8s.io"], Some(LogProtocol::Binary)),
            (&["base64.binary.k8s.io, binary.k8s.io"], Some(LogProtocol::Base64)),
            (&["v4.channel.k8s.io", "binary.k8s.io"], Some(LogProtocol::Binary)),
            (&["v4.channel.k8s.io"], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in named {
                headers.append(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value));
            }
            assert_eq!(LogProtocol::negotiate(&headers), expected, "{named:?}");
        }
    }

    #[test]
    fn a_piece_is_bytes_or_text() {
        for (protocol, bytes, expected) in [
            (LogProtocol::Unnamed, "hi\n", Message::Binary("hi\n".into())),
            (LogProtocol::Binary, "", Message::Binary(Bytes::new())),
            (LogProtocol::Base64, "hi\n", Message::Text("aGkK".into())),
            (LogProtocol::Base64, "", Message::Text("".into())),
        ] {
            assert_eq!(protocol.message(bytes.as_bytes()), expected, "{protocol:?} {bytes:?}");
        }
    }

    #[test]
    fn an_upgrade_to_spdy_is_no_websocket() {
        for (connection, upgrade, expected) in [
            ("Upgrade", "websocket", true),
            ("keep-alive, upgrade", "WebSocket", true),
            ("Upgrade", "SPDY/3.1", false),
            ("close", "websocket", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, HeaderValue::from_static(connection));
            headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
            assert_eq!(is_requested(&headers), expected, "{connection} {upgrade}");
        }
    }
}
