//! A connection after its upgrade: bytes in both directions, plain or as the messages of a WebSocket.

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::BytesMut;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

/// The largest message. The Python client sends up to half of this at a time, other clients far less.
pub const MAX_MESSAGE_BYTES: usize = 2 << 20;
const READ_BYTES: usize = 32 << 10;

type Plain = TokioIo<Upgraded>;

/// A message to the client. Without a WebSocket there are no messages, only bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireMessage {
    Binary(Vec<u8>),
    Text(String),
}

/// The receiving half of a connection.
pub enum WireReader {
    Messages(SplitStream<WebSocket>),
    Plain(ReadHalf<Plain>),
}

/// The sending half of a connection.
pub enum WireWriter {
    Messages(SplitSink<WebSocket, Message>),
    Plain(WriteHalf<Plain>),
}

pub fn from_websocket(socket: WebSocket) -> (WireReader, WireWriter) {
    let (sink, stream) = socket.split();
    (WireReader::Messages(stream), WireWriter::Messages(sink))
}

pub fn from_upgraded(upgraded: Upgraded) -> (WireReader, WireWriter) {
    let (reader, writer) = tokio::io::split(TokioIo::new(upgraded));
    (WireReader::Plain(reader), WireWriter::Plain(writer))
}

impl WireReader {
    /// Waits for the next message or piece; `None` when the client has gone. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Messages(stream) => loop {
                match stream.next().await?.ok()? {
                    Message::Binary(bytes) => return Some(bytes),
                    Message::Text(text) => return Some(text.into()),
                    Message::Close(_) => return None,
                    Message::Ping(_) | Message::Pong(_) => {}
                }
            },
            Self::Plain(stream) => {
                let mut bytes = BytesMut::with_capacity(READ_BYTES);
                let read = stream.read_buf(&mut bytes).await.ok()?;
                (read > 0).then(|| bytes.freeze())
            }
        }
    }
}

impl WireWriter {
    /// Writes a message; false once the client has gone.
    pub async fn write(&mut self, message: WireMessage) -> bool {
        match (self, message) {
            (Self::Messages(sink), WireMessage::Binary(bytes)) => {
                sink.send(Message::Binary(bytes.into())).await.is_ok()
            }
            (Self::Messages(sink), WireMessage::Text(text)) => sink.send(Message::Text(text.into())).await.is_ok(),
            (Self::Plain(stream), WireMessage::Binary(bytes)) => stream.write_all(&bytes).await.is_ok(),
            (Self::Plain(stream), WireMessage::Text(text)) => stream.write_all(text.as_bytes()).await.is_ok(),
        }
    }

    pub async fn close(&mut self) {
        match self {
            Self::Messages(sink) => {
                let close = CloseFrame { code: close_code::NORMAL, reason: "".into() };
                let _ = sink.send(Message::Close(Some(close))).await;
            }
            Self::Plain(stream) => drop(stream.shutdown().await),
        }
    }
}
