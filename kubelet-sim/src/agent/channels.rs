//! The channels of a command over one WebSocket: every message begins with the number of its channel.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/remotecommand and k8s.io/apiserver/pkg/util/wsstream.

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use component_base::env::Env;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use serde_json::Value;
use std::time::Duration;

/// What we speak, the best first.
pub const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// A message is no larger than this; clients send far less at a time.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// After the last word, a client gets so long to say goodbye.
const GOODBYE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Stdin,
    Stdout,
    Stderr,
    Error,
    Resize,
    /// v5: the channel in its payload has ended.
    Close,
}

impl Channel {
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Stdin,
            1 => Self::Stdout,
            2 => Self::Stderr,
            3 => Self::Error,
            4 => Self::Resize,
            255 => Self::Close,
            _ => return None,
        })
    }

    fn number(self) -> u8 {
        match self {
            Self::Stdin => 0,
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Error => 3,
            Self::Resize => 4,
            Self::Close => 255,
        }
    }
}

/// What comes from the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Bytes(Bytes),
    /// It types nothing more, and still listens.
    End,
    /// It has gone.
    Gone,
}

/// What a message means to a command; `None` for what means nothing to it.
fn input(message: &[u8]) -> Option<Input> {
    let (number, rest) = message.split_first()?;
    match Channel::of(*number)? {
        Channel::Stdin => Some(Input::Bytes(Bytes::copy_from_slice(rest))),
        Channel::Close if rest == [Channel::Stdin.number()] => Some(Input::End),
        _ => None,
    }
}

pub struct Reader {
    stream: SplitStream<WebSocket>,
    idle_limit: Duration,
    env: Env,
}

pub struct Writer(SplitSink<WebSocket, Message>);

pub fn open(socket: WebSocket, env: &Env, idle_limit: Duration) -> (Reader, Writer) {
    let (sink, stream) = socket.split();
    (Reader { stream, idle_limit, env: env.clone() }, Writer(sink))
}

impl Reader {
    /// The next that is typed. A client that is silent for too long counts as gone.
    pub async fn next(&mut self) -> Input {
        loop {
            let message = match self.env.timeout(self.idle_limit, self.stream.next()).await {
                Ok(Some(Ok(message))) => message,
                _ => return Input::Gone,
            };
            let found = match &message {
                Message::Binary(bytes) => input(bytes),
                Message::Text(text) => input(text.as_bytes()),
                Message::Close(_) => return Input::Gone,
                Message::Ping(_) | Message::Pong(_) => None,
            };
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Reads on until the client has said goodbye, so that it hears our last word.
    pub async fn finish(mut self) {
        let rest = async { while let Some(Ok(_)) = self.stream.next().await {} };
        let _ = self.env.timeout(GOODBYE_LIMIT, rest).await;
    }
}

impl Writer {
    /// False once nobody listens.
    pub async fn write(&mut self, channel: Channel, bytes: &[u8]) -> bool {
        let mut message = Vec::with_capacity(bytes.len() + 1);
        message.push(channel.number());
        message.extend_from_slice(bytes);
        self.0.send(Message::Binary(message.into())).await.is_ok()
    }

    /// The last word: how it ended, as a Status.
    pub async fn close(mut self, status: &Value) {
        self.write(Channel::Error, status.to_string().as_bytes()).await;
        let close = CloseFrame { code: close_code::NORMAL, reason: "".into() };
        let _ = self.0.send(Message::Close(Some(close))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_typed_reaches_a_command() {
        for (message, expected) in [
            (&[0, b'a', b'b'][..], Some(Input::Bytes(Bytes::from_static(b"ab")))),
            (&[0], Some(Input::Bytes(Bytes::new()))),
            (&[255, 0], Some(Input::End)),
            (&[255, 4], None),
            (&[4, b'{', b'}'], None),
            (&[9], None),
            (&[], None),
        ] {
            assert_eq!(input(message), expected, "{message:?}");
        }
    }
}
