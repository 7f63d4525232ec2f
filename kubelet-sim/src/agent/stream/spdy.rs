//! The frames of SPDY/3.1, which carries many streams over one connection. Kubernetes' clients use it for exec and
//! ports.
//!
//! Corresponds to github.com/moby/spdystream. Pure. As there, flow-control windows are neither announced nor
//! obeyed; a client's frames about them and about settings are ignored.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use std::collections::BTreeMap;

/// The protocol's name in an `Upgrade` header.
pub const NAME: &str = "SPDY/3.1";

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const FLAG_LAST: u8 = 1;
/// The status code of a refused stream.
const REFUSED_STREAM: u32 = 3;

/// The length of the head of a frame.
const HEAD_BYTES: usize = 8;
/// The longest frame. Clients send 32 KiB at a time.
const MAX_FRAME_BYTES: usize = 1 << 20;
/// The longest block of headers, inflated.
const MAX_HEADERS_BYTES: usize = 64 << 10;
/// How far back compressed headers may refer.
const WINDOW_BYTES: usize = 32 << 10;

/// The names with which the protocol's dictionary begins, each one behind its length.
const NAMES: [&str; 65] = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];
/// The rest of the dictionary.
const VALUES: &str = concat!(
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized",
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable",
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT",
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,",
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
);
/// The dictionary's Adler-32 checksum, by which zlib identifies it.
const DICTIONARY_ID: u32 = 0xe3c6_a7c2;

/// Returns the dictionary that headers are compressed with.
fn dictionary() -> Vec<u8> {
    let mut text = Vec::new();
    for name in NAMES {
        text.put_u32(name.len() as u32);
        text.extend_from_slice(name.as_bytes());
    }
    text.extend_from_slice(VALUES.as_bytes());
    text
}

pub type Headers = BTreeMap<String, String>;

/// A frame from a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    Open {
        stream: u32,
        headers: Headers,
        is_last: bool,
    },
    Data {
        stream: u32,
        bytes: Bytes,
        is_last: bool,
    },
    Reset {
        stream: u32,
    },
    Ping(u32),
    GoAway,
    /// A frame that is ignored.
    Other,
}

/// A violation of the protocol, after which nothing more can be decoded.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(&'static str);

/// Decodes bytes into frames.
pub struct Decoder {
    buffer: BytesMut,
    inflater: Inflater,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { buffer: BytesMut::new(), inflater: Inflater::new() }
    }
}

impl Decoder {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next frame; `None` until all its bytes were fed.
    pub fn frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        let Some(mut head) = self.buffer.get(..HEAD_BYTES) else { return Ok(None) };
        let (first, second) = (head.get_u32(), head.get_u32());
        let (flags, length) = ((second >> 24) as u8, (second & 0x00ff_ffff) as usize);
        if length > MAX_FRAME_BYTES {
            return Err(ProtocolError("a frame is too long"));
        }
        if self.buffer.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(HEAD_BYTES);
        let payload = self.buffer.split_to(length).freeze();
        let is_last = flags & FLAG_LAST != 0;
        if first >> 31 == 0 {
            return Ok(Some(Frame::Data { stream: first, bytes: payload, is_last }));
        }
        if (first >> 16) as u16 & 0x7fff != VERSION {
            return Err(ProtocolError("this is not the third version of SPDY"));
        }
        self.control(first as u16, payload, is_last).map(Some)
    }

    fn control(&mut self, kind: u16, mut payload: Bytes, is_last: bool) -> Result<Frame, ProtocolError> {
        let fixed = match kind {
            // The stream, the associated stream, the priority.
            SYN_STREAM => 10,
            SYN_REPLY | RST_STREAM | PING | HEADERS => 4,
            _ => 0,
        };
        if payload.len() < fixed {
            return Err(ProtocolError("a frame is too short"));
        }
        let mut fixed = payload.split_to(fixed);
        Ok(match kind {
            SYN_STREAM => {
                let stream = fixed.get_u32() & 0x7fff_ffff;
                Frame::Open { stream, headers: headers(&self.inflater.inflate(&payload)?)?, is_last }
            }
            SYN_REPLY | HEADERS => {
                // Later headers refer back to these.
                self.inflater.inflate(&payload)?;
                Frame::Other
            }
            RST_STREAM => Frame::Reset { stream: fixed.get_u32() & 0x7fff_ffff },
            PING => Frame::Ping(fixed.get_u32()),
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }
}

/// Parses a block of names and values, each one behind its length.
fn headers(mut block: &[u8]) -> Result<Headers, ProtocolError> {
    fn number(block: &mut &[u8]) -> Result<usize, ProtocolError> {
        block.try_get_u32().map(|number| number as usize).map_err(|_| ProtocolError("headers end early"))
    }
    fn text(block: &mut &[u8]) -> Result<String, ProtocolError> {
        let length = number(block)?;
        let (text, rest) = block.split_at_checked(length).ok_or(ProtocolError("headers end early"))?;
        *block = rest;
        Ok(String::from_utf8_lossy(text).into_owned())
    }
    let count = number(&mut block)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = text(&mut block)?;
        headers.insert(name.to_ascii_lowercase(), text(&mut block)?);
    }
    Ok(headers)
}

/// One zlib stream through all header blocks of a connection.
struct Inflater {
    state: Box<DecompressorOxide>,
    /// A ring buffer of what was inflated. At first it ends with the dictionary.
    window: Vec<u8>,
    at: usize,
    has_begun: bool,
}

impl Inflater {
    fn new() -> Self {
        let (mut window, dictionary) = (vec![0; WINDOW_BYTES], dictionary());
        window[WINDOW_BYTES - dictionary.len()..].copy_from_slice(&dictionary);
        Self { state: Box::default(), window, at: 0, has_begun: false }
    }

    fn inflate(&mut self, mut block: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        const DEFLATE: u8 = 8;
        const WITH_DICTIONARY: u8 = 0x20;
        if !self.has_begun {
            let (mut begin, rest) = block.split_at_checked(6).ok_or(ProtocolError("headers end early"))?;
            let (method, flags) = (begin.get_u8(), begin.get_u8());
            if method & 0x0f != DEFLATE || flags & WITH_DICTIONARY == 0 || begin.get_u32() != DICTIONARY_ID {
                return Err(ProtocolError("headers are not compressed with SPDY's dictionary"));
            }
            (block, self.has_begun) = (rest, true);
        }
        let mut inflated = Vec::new();
        loop {
            let flags = TINFL_FLAG_HAS_MORE_INPUT;
            let (status, read, written) = decompress(&mut self.state, block, &mut self.window, self.at, flags);
            inflated.extend_from_slice(&self.window[self.at..self.at + written]);
            self.at = (self.at + written) % WINDOW_BYTES;
            block = &block[read..];
            match status {
                TINFLStatus::NeedsMoreInput => return Ok(inflated),
                TINFLStatus::HasMoreOutput if inflated.len() <= MAX_HEADERS_BYTES => {}
                _ => return Err(ProtocolError("headers cannot be inflated")),
            }
        }
    }
}

/// Encodes frames to a client.
#[derive(Debug, Default)]
pub struct Encoder {
    /// True once the header of the zlib stream was written; there is one stream for all replies.
    has_begun: bool,
}

impl Encoder {
    fn control(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(HEAD_BYTES + payload.len());
        frame.put_u16(0x8000 | VERSION);
        frame.put_u16(kind);
        frame.put_u32(payload.len() as u32);
        frame.extend_from_slice(payload);
        frame
    }

    /// Accepts a stream, without headers.
    pub fn reply(&mut self, stream: u32) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.put_u32(stream);
        if !self.has_begun {
            payload.extend_from_slice(&[0x78, 0x20]);
            payload.put_u32(DICTIONARY_ID);
            self.has_begun = true;
        }
        // A stored block of four bytes (no headers), and an empty block, which flushes.
        payload.extend_from_slice(&[0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0]);
        payload.extend_from_slice(&[0, 0, 0, 0xff, 0xff]);
        Self::control(SYN_REPLY, &payload)
    }

    pub fn data(&self, stream: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
        let mut frame = Vec::with_capacity(HEAD_BYTES + bytes.len());
        frame.put_u32(stream);
        frame.put_u32(u32::from(is_last) << 24 | bytes.len() as u32);
        frame.extend_from_slice(bytes);
        frame
    }

    /// Refuses a stream.
    pub fn refuse(&self, stream: u32) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.put_u32(stream);
        payload.put_u32(REFUSED_STREAM);
        Self::control(RST_STREAM, &payload)
    }

    pub fn pong(&self, id: u32) -> Vec<u8> {
        Self::control(PING, &id.to_be_bytes())
    }

    /// Announces that no further streams are accepted.
    pub fn go_away(&self) -> Vec<u8> {
        Self::control(GOAWAY, &[0; 8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(stream: u32, block: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.put_u32(stream);
        payload.extend_from_slice(&[0; 6]);
        payload.extend_from_slice(block);
        Encoder::control(SYN_STREAM, &payload)
    }

    /// Encodes headers without compression.
    fn block(pairs: &[(&str, &str)], is_first: bool) -> Vec<u8> {
        let mut plain = Vec::new();
        plain.put_u32(pairs.len() as u32);
        for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(text.len() as u32);
            plain.extend_from_slice(text.as_bytes());
        }
        let mut block = Vec::new();
        if is_first {
            block.extend_from_slice(&[0x78, 0x20]);
            block.put_u32(DICTIONARY_ID);
        }
        block.push(0);
        block.put_u16_le(plain.len() as u16);
        block.put_u16_le(!(plain.len() as u16));
        block.extend_from_slice(&plain);
        block.extend_from_slice(&[0, 0, 0, 0xff, 0xff]);
        block
    }

    fn hex(text: &str) -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn all(decoder: &mut Decoder) -> Vec<Frame> {
        std::iter::from_fn(|| decoder.frame().unwrap()).collect()
    }

    #[test]
    fn the_dictionary_is_the_one_that_its_number_names() {
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in dictionary() {
            a = (a + u32::from(byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        assert_eq!(b << 16 | a, DICTIONARY_ID);
    }

    #[test]
    fn frames_come_out_however_they_were_cut() {
        let pairs = [("streamtype", "error"), ("port", "80")];
        let bytes = [
            opened(1, &block(&pairs, true)),
            opened(3, &block(&[("streamtype", "data")], false)),
            Encoder::default().data(3, b"GET /", true),
            Encoder::default().pong(5),
            Encoder::default().refuse(1),
            Encoder::control(4, &[0; 4]),
            Encoder::default().go_away(),
        ]
        .concat();
        let headers = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let expected = [
            Frame::Open { stream: 1, headers: headers(&pairs), is_last: false },
            Frame::Open { stream: 3, headers: headers(&[("streamtype", "data")]), is_last: false },
            Frame::Data { stream: 3, bytes: Bytes::from_static(b"GET /"), is_last: true },
            Frame::Ping(5),
            Frame::Reset { stream: 1 },
            Frame::Other,
            Frame::GoAway,
        ];
        for step in [1, 7, bytes.len()] {
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for part in bytes.chunks(step) {
                decoder.feed(part);
                found.extend(all(&mut decoder));
            }
            assert_eq!(found, expected, "by {step}");
        }
    }

    #[test]
    fn replies_are_one_zlib_stream() {
        let mut encoder = Encoder::default();
        let replies = [encoder.reply(1), encoder.reply(3)];
        let mut inflater = Inflater::new();
        for reply in replies {
            assert_eq!(inflater.inflate(&reply[HEAD_BYTES + 4..]).unwrap(), [0; 4]);
        }
    }

    #[test]
    fn a_block_refers_to_the_dictionary_and_to_blocks_before() {
        // What zlib makes of `streamtype: error, port: 80, requestid: 0`, and then of `data` instead.
        let mut inflater = Inflater::new();
        let first = hex(concat!(
            "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45a024cc64610024398b2091",
            "98094adc8c0600000000ffff"
        ));
        let second = hex("c2aa15540a2512d209000000ffff");
        let names =
            |block: &[u8]| headers(block).unwrap().into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>();
        assert_eq!(names(&inflater.inflate(&first).unwrap()), ["port=80", "requestid=0", "streamtype=error"]);
        assert_eq!(names(&inflater.inflate(&second).unwrap()), ["port=80", "requestid=0", "streamtype=data"]);
    }

    #[test]
    fn what_is_no_spdy_is_refused() {
        let long = [&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff][..]].concat();
        let other_version = [&[0x80, 2, 0, 6, 0, 0, 0, 4][..], &[0; 4]].concat();
        let short = Encoder::control(PING, &[0; 3]);
        let garbage = opened(1, b"not zlib at all");
        let bomb = opened(1, &block(&[("a", "b")], true)[..8]);
        for (bytes, expected) in [
            (long, Err("a frame is too long")),
            (other_version, Err("this is not the third version of SPDY")),
            (short, Err("a frame is too short")),
            (garbage, Err("headers are not compressed with SPDY's dictionary")),
            (bomb, Err("headers end early")),
        ] {
            let mut decoder = Decoder::default();
            decoder.feed(&bytes);
            assert_eq!(decoder.frame().map_err(|ProtocolError(why)| why), expected);
        }
    }
}
