//! The messages of numbered channels in a WebSocket: a channel's number, and then bytes or their base64 text.
//!
//! Corresponds to wsstream.Conn in k8s.io/apimachinery/pkg/util/httpstream/wsstream.

use super::event::StreamEvent;
use super::wire::WireMessage;
use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A message on this channel says that the client has closed the channel in the payload.
const CLOSE: u8 = 255;

/// What a protocol of numbered channels does in its own way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelProtocol {
    /// Messages are text: the number as a digit, and the bytes in base64.
    pub is_base64: bool,
    /// A client can close a single channel.
    pub closes_channels: bool,
    /// The exit status is a Status object in JSON. Older protocols send an error's message alone.
    pub has_status_object: bool,
}

impl ChannelProtocol {
    /// Returns the protocol that a WebSocket names, such as `v4.base64.channel.k8s.io`; a name may be empty.
    pub fn of_name(name: &str) -> Self {
        let closes_channels = name.starts_with("v5.");
        Self {
            is_base64: name.ends_with("base64.channel.k8s.io"),
            closes_channels,
            has_status_object: closes_channels || name.starts_with("v4."),
        }
    }

    pub fn encode(self, channel: u8, bytes: &[u8]) -> WireMessage {
        if self.is_base64 {
            let mut text = String::from(char::from(b'0'.wrapping_add(channel)));
            STANDARD.encode_string(bytes, &mut text);
            return WireMessage::Text(text);
        }
        WireMessage::Binary([&[channel], bytes].concat())
    }

    /// Reads a message; `None` for one that means nothing. The error stands for one that ends the connection.
    pub fn decode(self, message: &Bytes) -> Result<Option<StreamEvent>, Malformed> {
        let Some(first) = message.first() else { return Ok(None) };
        let payload = message.slice(1..);
        if self.is_base64 {
            let stream = u32::from(first.wrapping_sub(b'0'));
            let text: Vec<u8> = payload.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
            let decoded = STANDARD.decode(text).ok();
            return Ok(decoded.map(|bytes| StreamEvent::Data { stream, bytes: bytes.into() }));
        }
        match (*first, self.closes_channels) {
            (CLOSE, true) => match payload[..] {
                [closed] => Ok(Some(StreamEvent::End(u32::from(closed)))),
                _ => Err(Malformed),
            },
            (number, _) => Ok(Some(StreamEvent::Data { stream: u32::from(number), bytes: payload })),
        }
    }
}

/// A message that closes something other than one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "channel.k8s.io";
    const BASE64: &str = "base64.channel.k8s.io";
    const V4: &str = "v4.channel.k8s.io";
    const V4_BASE64: &str = "v4.base64.channel.k8s.io";
    const V5: &str = "v5.channel.k8s.io";

    #[test]
    fn a_name_says_how_messages_look() {
        for (name, is_base64, closes_channels, has_status_object) in [
            ("", false, false, false),
            (OLD, false, false, false),
            (BASE64, true, false, false),
            (V4, false, false, true),
            (V4_BASE64, true, false, true),
            (V5, false, true, true),
        ] {
            let expected = ChannelProtocol { is_base64, closes_channels, has_status_object };
            assert_eq!(ChannelProtocol::of_name(name), expected, "{name}");
        }
    }

    #[test]
    fn a_message_is_a_channel_and_its_bytes() {
        let data = |stream, text: &'static str| {
            Ok(Some(StreamEvent::Data { stream, bytes: Bytes::from_static(text.as_bytes()) }))
        };
        for (name, message, expected) in [
            (OLD, &b"\x00foo\n"[..], data(0, "foo\n")),
            ("", b"\x00foo\n", data(0, "foo\n")),
            (V4, b"\x00", data(0, "")),
            (V4, b"", Ok(None)),
            (V4, b"\x04{}", data(4, "{}")),
            (V4, b"\xff\x00", data(255, "\0")),
            (V5, b"\x00ab", data(0, "ab")),
            (V5, b"\xff\x00", Ok(Some(StreamEvent::End(0)))),
            (V5, b"\xff", Err(Malformed)),
            (V5, b"\xff\x00\x01", Err(Malformed)),
            (BASE64, b"0Zm9vCg==", data(0, "foo\n")),
            (BASE64, b"0Zm9v\r\nCg==", data(0, "foo\n")),
            (V4_BASE64, b"0", data(0, "")),
            (V4_BASE64, b"4e30=", data(4, "{}")),
            (V4_BASE64, b"0Zm9vCg", Ok(None)),
            (V4_BASE64, b"0?", Ok(None)),
            (V4_BASE64, b"\x00Zm9vCg==", data(208, "foo\n")),
        ] {
            let found = ChannelProtocol::of_name(name).decode(&Bytes::copy_from_slice(message));
            assert_eq!(found, expected, "{name} {message:?}");
        }
    }

    #[test]
    fn output_is_bytes_or_text() {
        for (name, channel, bytes, expected) in [
            (OLD, 1, "\n", WireMessage::Binary(b"\x01\n".to_vec())),
            (V5, 2, "no", WireMessage::Binary(b"\x02no".to_vec())),
            (V4, 3, "", WireMessage::Binary(vec![3])),
            (BASE64, 1, "\n", WireMessage::Text("1Cg==".to_owned())),
            (V4_BASE64, 3, "", WireMessage::Text("3".to_owned())),
        ] {
            assert_eq!(ChannelProtocol::of_name(name).encode(channel, bytes.as_bytes()), expected, "{name}");
        }
    }
}
