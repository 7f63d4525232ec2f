//! Many streams over one connection: the numbered channels of a WebSocket, or SPDY, in a WebSocket or alone.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/httpstream and to wsstream.

use super::spdy::{Decoder, Encoder, Frame, Headers};
use super::wire::{WireReader, WireWriter};
use axum::body::Bytes;
use component_base::env::Env;
use std::time::Duration;
use tokio::sync::mpsc;

/// What waits to be written; who has more to say waits, too.
const MAX_UNWRITTEN: usize = 16;
/// v5: the stream of the number in the payload has ended.
const CLOSE: u8 = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Every message begins with the number of its stream. The streams are agreed on before.
    Channels,
    Spdy,
}

/// What comes from the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Open {
        stream: u32,
        headers: Headers,
    },
    Data {
        stream: u32,
        bytes: Bytes,
    },
    /// The client says nothing more there, and still listens.
    End(u32),
    /// The client is through with it.
    Reset(u32),
}

enum Parser {
    Channels,
    Spdy(Box<Decoder>),
}

pub struct Incoming {
    wire: WireReader,
    parser: Parser,
    outgoing: Outgoing,
    /// The end that came along with the last event.
    ended: Option<u32>,
    env: Env,
    idle_limit: Duration,
}

/// What is said to the client.
#[derive(Debug)]
enum Said {
    Reply(u32),
    Refuse(u32),
    Data(u32, Bytes),
    End(u32),
    Pong(u32),
    Goodbye,
}

#[derive(Clone)]
pub struct Outgoing(mpsc::Sender<Said>);

/// Both directions; what is said is written in the background until every `Outgoing` is dropped.
pub fn open(
    (reader, writer): (WireReader, WireWriter),
    framing: Framing,
    env: &Env,
    idle_limit: Duration,
) -> (Incoming, Outgoing) {
    let (sender, said) = mpsc::channel(MAX_UNWRITTEN);
    env.spawn(write(writer, framing, said));
    let outgoing = Outgoing(sender);
    let parser = match framing {
        Framing::Channels => Parser::Channels,
        Framing::Spdy => Parser::Spdy(Box::default()),
    };
    (Incoming { wire: reader, parser, outgoing: outgoing.clone(), ended: None, env: env.clone(), idle_limit }, outgoing)
}

async fn write(mut wire: WireWriter, framing: Framing, mut said: mpsc::Receiver<Said>) {
    let mut encoder = Encoder::default();
    while let Some(said) = said.recv().await {
        if said_goodbye(&said, framing) {
            break;
        }
        let bytes = match framing {
            Framing::Channels => in_channels(&said),
            Framing::Spdy => Some(in_spdy(&mut encoder, &said)),
        };
        if let Some(bytes) = bytes
            && !wire.write(bytes).await
        {
            return;
        }
    }
    wire.close().await;
}

/// A WebSocket closes; SPDY has a frame for it, and leaves the closing to the client.
fn said_goodbye(said: &Said, framing: Framing) -> bool {
    matches!((said, framing), (Said::Goodbye, Framing::Channels))
}

fn in_channels(said: &Said) -> Option<Vec<u8>> {
    let Said::Data(stream, bytes) = said else { return None };
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(*stream as u8);
    message.extend_from_slice(bytes);
    Some(message)
}

fn in_spdy(encoder: &mut Encoder, said: &Said) -> Vec<u8> {
    match said {
        Said::Reply(stream) => encoder.reply(*stream),
        Said::Refuse(stream) => encoder.refuse(*stream),
        Said::Data(stream, bytes) => encoder.data(*stream, bytes, false),
        Said::End(stream) => encoder.data(*stream, &[], true),
        Said::Pong(id) => encoder.pong(*id),
        Said::Goodbye => encoder.go_away(),
    }
}

impl Incoming {
    /// `None` once the client has gone, or was silent for too long. May be dropped while it waits, and nothing is lost.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(stream) = self.ended.take() {
            return Some(Event::End(stream));
        }
        loop {
            if let Parser::Spdy(decoder) = &mut self.parser {
                match decoder.frame().ok()? {
                    Some(Frame::Ping(id)) => {
                        // Ours have even numbers, and we send none.
                        if !id.is_multiple_of(2) {
                            let _ = self.outgoing.0.try_send(Said::Pong(id));
                        }
                        continue;
                    }
                    Some(Frame::GoAway) => return None,
                    Some(Frame::Other) => continue,
                    Some(Frame::Reset { stream }) => return Some(Event::Reset(stream)),
                    Some(Frame::Open { stream, headers, is_last }) => {
                        self.ended = is_last.then_some(stream);
                        return Some(Event::Open { stream, headers });
                    }
                    Some(Frame::Data { stream, bytes, is_last }) => {
                        self.ended = is_last.then_some(stream);
                        return Some(Event::Data { stream, bytes });
                    }
                    None => {}
                }
            }
            let bytes = self.env.timeout(self.idle_limit, self.wire.next()).await.ok()??;
            match &mut self.parser {
                Parser::Spdy(decoder) => decoder.feed(&bytes),
                Parser::Channels => {
                    if let Some(event) = of_channels(&bytes) {
                        return Some(event);
                    }
                }
            }
        }
    }

    /// Reads on, so that the client hears our last words, until it has gone or `limit` has passed.
    pub async fn finish(mut self, limit: Duration) {
        let env = self.env.clone();
        let rest = async { while self.next().await.is_some() {} };
        let _ = env.timeout(limit, rest).await;
    }
}

fn of_channels(message: &Bytes) -> Option<Event> {
    let number = *message.first()?;
    if number == CLOSE {
        return message.get(1).map(|ended| Event::End(u32::from(*ended)));
    }
    Some(Event::Data { stream: u32::from(number), bytes: message.slice(1..) })
}

impl Outgoing {
    /// False once nobody listens.
    async fn say(&self, said: Said) -> bool {
        self.0.send(said).await.is_ok()
    }

    pub async fn reply(&self, stream: u32) -> bool {
        self.say(Said::Reply(stream)).await
    }

    pub async fn refuse(&self, stream: u32) -> bool {
        self.say(Said::Refuse(stream)).await
    }

    pub async fn data(&self, stream: u32, bytes: Bytes) -> bool {
        bytes.is_empty() || self.say(Said::Data(stream, bytes)).await
    }

    /// Nothing more comes on that stream; a channel cannot say so.
    pub async fn end(&self, stream: u32) -> bool {
        self.say(Said::End(stream)).await
    }

    pub async fn goodbye(&self) -> bool {
        self.say(Said::Goodbye).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_channel_and_what_it_says() {
        let data =
            |stream, text: &'static str| Some(Event::Data { stream, bytes: Bytes::from_static(text.as_bytes()) });
        for (message, expected) in [
            (&[0, b'a', b'b'][..], data(0, "ab")),
            (&[0], data(0, "")),
            (&[4, b'{', b'}'], data(4, "{}")),
            (&[255, 0], Some(Event::End(0))),
            (&[255], None),
            (&[], None),
        ] {
            assert_eq!(of_channels(&Bytes::copy_from_slice(message)), expected, "{message:?}");
        }
        assert_eq!(in_channels(&Said::Data(2, Bytes::from_static(b"no"))), Some(vec![2, b'n', b'o']));
        assert_eq!(in_channels(&Said::End(2)), None);
    }
}
