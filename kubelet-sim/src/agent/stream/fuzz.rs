//! The fuzz target of SPDY frames. Whatever a client sends, and however it is cut, must give the same frames or the
//! same error.

use super::spdy::{Decoder, Frame};

/// Decodes the input at once and in pieces, and compares.
pub fn spdy(input: &[u8]) {
    assert_eq!(frames(input, input.len().max(1)), frames(input, 7));
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
