//! Many streams over one connection: numbered channels in a WebSocket, or SPDY, which may itself be in a WebSocket.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/httpstream and to wsstream.

use super::channel_codec::ChannelProtocol;
use super::event::StreamEvent;
use super::spdy::{Decoder, Encoder, Frame};
use super::wire::{WireMessage, WireReader, WireWriter};
use axum::body::Bytes;
use component_base::env::Env;
use std::time::Duration;
use tokio::sync::mpsc;

/// Frames that may wait to be written; then senders wait.
const MAX_UNWRITTEN: usize = 16;

/// How streams share the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Every message begins with the number of its stream. The numbers are fixed by the protocol.
    Channels(ChannelProtocol),
    Spdy,
}

/// The parser of bytes from the client.
enum Parser {
    Channels(ChannelProtocol),
    Spdy(Box<Decoder>),
}

/// The events of all streams, from the client.
pub struct Incoming {
    wire: WireReader,
    parser: Parser,
    outgoing: Outgoing,
    /// The stream that ended with the last event, if one did.
    ended: Option<u32>,
    env: Env,
    idle_limit: Duration,
}

/// A frame to the client.
#[derive(Debug)]
enum OutgoingFrame {
    Reply(u32),
    Refuse(u32),
    Data(u32, Bytes),
    End(u32),
    Pong(u32),
    GoAway,
}

/// The frames of all streams, to the client. Clones share the connection.
#[derive(Clone)]
pub struct Outgoing(mpsc::Sender<OutgoingFrame>);

/// Opens both directions. Frames are written in the background, until every `Outgoing` is dropped.
pub fn open(
    (reader, writer): (WireReader, WireWriter),
    framing: Framing,
    env: &Env,
    idle_limit: Duration,
) -> (Incoming, Outgoing) {
    let (sender, frame) = mpsc::channel(MAX_UNWRITTEN);
    env.spawn(write(writer, framing, frame));
    let outgoing = Outgoing(sender);
    let parser = match framing {
        Framing::Channels(protocol) => Parser::Channels(protocol),
        Framing::Spdy => Parser::Spdy(Box::default()),
    };
    (Incoming { wire: reader, parser, outgoing: outgoing.clone(), ended: None, env: env.clone(), idle_limit }, outgoing)
}

async fn write(mut wire: WireWriter, framing: Framing, mut frame: mpsc::Receiver<OutgoingFrame>) {
    let mut encoder = Encoder::default();
    while let Some(frame) = frame.recv().await {
        if closes_wire(&frame, framing) {
            break;
        }
        let message = match framing {
            Framing::Channels(protocol) => channel_message(protocol, &frame),
            Framing::Spdy => Some(WireMessage::Binary(spdy_frame(&mut encoder, &frame))),
        };
        if let Some(message) = message
            && !wire.write(message).await
        {
            return;
        }
    }
    wire.close().await;
}

/// True for the frame that closes the connection: a WebSocket is closed, while SPDY sends a frame and lets the client
/// close.
fn closes_wire(frame: &OutgoingFrame, framing: Framing) -> bool {
    matches!((frame, framing), (OutgoingFrame::GoAway, Framing::Channels(_)))
}

fn channel_message(protocol: ChannelProtocol, frame: &OutgoingFrame) -> Option<WireMessage> {
    let OutgoingFrame::Data(stream, bytes) = frame else { return None };
    Some(protocol.encode(*stream as u8, bytes))
}

fn spdy_frame(encoder: &mut Encoder, frame: &OutgoingFrame) -> Vec<u8> {
    match frame {
        OutgoingFrame::Reply(stream) => encoder.reply(*stream),
        OutgoingFrame::Refuse(stream) => encoder.refuse(*stream),
        OutgoingFrame::Data(stream, bytes) => encoder.data(*stream, bytes, false),
        OutgoingFrame::End(stream) => encoder.data(*stream, &[], true),
        OutgoingFrame::Pong(id) => encoder.pong(*id),
        OutgoingFrame::GoAway => encoder.go_away(),
    }
}

impl Incoming {
    /// Waits for the next event; `None` once the client has gone, or was silent for too long. It may be dropped while
    /// it waits, and nothing is lost.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        if let Some(stream) = self.ended.take() {
            return Some(StreamEvent::End(stream));
        }
        loop {
            if let Parser::Spdy(decoder) = &mut self.parser {
                match decoder.frame().ok()? {
                    Some(Frame::Ping(id)) => {
                        // Even numbers would answer pings of the server, which sends none.
                        if !id.is_multiple_of(2) {
                            let _ = self.outgoing.0.try_send(OutgoingFrame::Pong(id));
                        }
                        continue;
                    }
                    Some(Frame::GoAway) => return None,
                    Some(Frame::Other) => continue,
                    Some(Frame::Reset { stream }) => return Some(StreamEvent::Reset(stream)),
                    Some(Frame::Open { stream, headers, is_last }) => {
                        self.ended = is_last.then_some(stream);
                        return Some(StreamEvent::Open { stream, headers });
                    }
                    Some(Frame::Data { stream, bytes, is_last }) => {
                        self.ended = is_last.then_some(stream);
                        return Some(StreamEvent::Data { stream, bytes });
                    }
                    None => {}
                }
            }
            let bytes = self.env.timeout(self.idle_limit, self.wire.next()).await.ok()??;
            match &mut self.parser {
                Parser::Spdy(decoder) => decoder.feed(&bytes),
                Parser::Channels(protocol) => {
                    if let Some(event) = protocol.decode(&bytes).ok()? {
                        return Some(event);
                    }
                }
            }
        }
    }

    /// Reads until the client has gone or `limit` has passed, so that it can still receive the last frames.
    pub async fn finish(mut self, limit: Duration) {
        let env = self.env.clone();
        let rest = async { while self.next().await.is_some() {} };
        let _ = env.timeout(limit, rest).await;
    }
}

impl Outgoing {
    /// Queues a frame; false once the client has gone.
    async fn send(&self, frame: OutgoingFrame) -> bool {
        self.0.send(frame).await.is_ok()
    }

    pub async fn reply(&self, stream: u32) -> bool {
        self.send(OutgoingFrame::Reply(stream)).await
    }

    pub async fn refuse(&self, stream: u32) -> bool {
        self.send(OutgoingFrame::Refuse(stream)).await
    }

    pub async fn data(&self, stream: u32, bytes: Bytes) -> bool {
        bytes.is_empty() || self.send(OutgoingFrame::Data(stream, bytes)).await
    }

    /// Sends an empty message, which tells the client of numbered channels that the connection is established.
    pub async fn greet(&self, stream: u32) -> bool {
        self.send(OutgoingFrame::Data(stream, Bytes::new())).await
    }

    /// Ends a stream. Numbered channels have no message for this.
    pub async fn end(&self, stream: u32) -> bool {
        self.send(OutgoingFrame::End(stream)).await
    }

    pub async fn go_away(&self) -> bool {
        self.send(OutgoingFrame::GoAway).await
    }
}
