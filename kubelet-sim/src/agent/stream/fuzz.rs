//! The fuzz targets of SPDY frames and of channel messages. Whatever a client sends, and however it is cut, must give
//! the same frames or the same error; and what is read from a message can be written as one that means the same.

use super::channel_codec::ChannelProtocol;
use super::event::StreamEvent;
use super::spdy::{Decoder, Frame};
use super::wire::WireMessage;
use axum::body::Bytes;

/// Decodes the input at once and in pieces, and compares.
pub fn spdy(input: &[u8]) {
    assert_eq!(frames(input, input.len().max(1)), frames(input, 7));
}

/// Decodes the input as one message of each protocol, encodes what was read, and decodes that.
pub fn channels(input: &[u8]) {
    for name in ["", "v5.channel.k8s.io", "v4.base64.channel.k8s.io"] {
        let protocol = ChannelProtocol::of_name(name);
        let Ok(Some(StreamEvent::Data { stream, bytes })) = protocol.decode(&Bytes::copy_from_slice(input)) else {
            continue;
        };
        // A digit beyond ASCII takes two bytes in text: no client has so many channels.
        let Some(channel) = u8::try_from(stream).ok().filter(|channel| *channel < 80) else { continue };
        let again = match protocol.encode(channel, &bytes) {
            WireMessage::Binary(bytes) => bytes,
            WireMessage::Text(text) => text.into_bytes(),
        };
        assert_eq!(protocol.decode(&again.into()), Ok(Some(StreamEvent::Data { stream, bytes })), "{name}");
    }
}

/// Decodes pieces of `size` bytes: returns the frames up to the first error, and false if there was one.
fn frames(input: &[u8], size: usize) -> (Vec<Frame>, bool) {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    for part in input.chunks(size) {
        decoder.feed(part);
        loop {
            match decoder.frame() {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(_) => return (found, false),
            }
        }
    }
    (found, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::stream::spdy::Encoder;

    #[test]
    fn messages_are_read_or_ignored() {
        let examples: [&[u8]; 4] = [b"\x00foo\n", b"0Zm9vCg==", b"\xff\x00", b"4eyJXaWR0aCI6ODB9"];
        proto::mutation::run(&examples, &["\0", "=", "\u{7f}", "A", "\n"], 5_000, channels);
    }

    #[test]
    fn frames_are_read_or_refused() {
        // What zlib makes of `streamtype: error, port: 80, requestid: 0` in the stream 1.
        let headers = concat!(
            "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45a024cc64610024398b2091",
            "98094adc8c0600000000ffff"
        );
        let block: Vec<u8> =
            (0..headers.len() / 2).map(|i| u8::from_str_radix(&headers[2 * i..2 * i + 2], 16).unwrap()).collect();
        let opened =
            [&[0x80, 3, 0, 1, 0, 0, 0, 10 + block.len() as u8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], &block[..]].concat();
        assert_eq!(frames(&opened, 1).0.len(), 1, "the example opens a stream");
        let encoder = Encoder::default();
        let examples =
            [opened, encoder.data(1, b"GET /", true), [encoder.pong(5), encoder.refuse(1), encoder.go_away()].concat()];
        let examples: Vec<&[u8]> = examples.iter().map(Vec::as_slice).collect();
        proto::mutation::run(&examples, &["\0", "\0\0\0\u{1}", "\u{1}\0", "\u{7f}", "x"], 5_000, spdy);
    }
}
