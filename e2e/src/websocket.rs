//! `WebSocketClient`: a client of one WebSocket, with any sub-protocol, over a plain connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const IS_LAST: u8 = 0x80;
const IS_MASKED: u8 = 0x80;
/// Longest payload whose length is in the second byte of a frame.
const MAX_SHORT: usize = 125;

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketMessage {
    Text(String),
    Binary(Vec<u8>),
    Close,
}

/// An open WebSocket.
#[derive(Debug)]
pub struct WebSocketClient {
    stream: BufReader<TcpStream>,
    /// The sub-protocol that the server has chosen.
    pub protocol: Option<String>,
}

impl WebSocketClient {
    /// Asks the server at `address` for a WebSocket; the error is the status code with which it refuses.
    pub fn open(address: &str, path: &str, protocols: &[&str]) -> Result<Self, u16> {
        let mut stream = TcpStream::connect(address).expect("the server accepts connections");
        let named = match protocols {
            [] => String::new(),
            names => format!("Sec-WebSocket-Protocol: {}\r\n", names.join(", ")),
        };
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{named}\r\n"
        )
        .expect("the server reads the request");
        let mut stream = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = stream.read_line(&mut line).expect("the answer has a head");
            if read == 0 || line.trim_end().is_empty() {
                break;
            }
            lines.push(line.trim_end().to_owned());
        }
        let code = lines.first().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        match code {
            Some(101) => {}
            code => return Err(code.unwrap_or_default()),
        }
        let header = |line: &String| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("sec-websocket-protocol").then(|| value.trim().to_owned())
        };
        let protocol = lines.iter().find_map(header);
        Ok(Self { stream, protocol })
    }

    pub fn send_text(&mut self, text: &str) {
        self.send(TEXT, text.as_bytes());
    }

    pub fn send_binary(&mut self, bytes: &[u8]) {
        self.send(BINARY, bytes);
    }

    fn send(&mut self, opcode: u8, bytes: &[u8]) {
        assert!(bytes.len() <= MAX_SHORT, "tests send short messages");
        let length = u8::try_from(bytes.len()).expect("it is short");
        // A mask of zeros changes nothing.
        let frame = [&[IS_LAST | opcode, IS_MASKED | length, 0, 0, 0, 0], bytes].concat();
        self.stream.get_mut().write_all(&frame).expect("the server reads messages");
    }

    /// Waits for the next message. Answers to no ping, since the servers of these tests send none.
    pub fn receive(&mut self) -> WebSocketMessage {
        let (mut payload, mut kind) = (Vec::new(), CONTINUATION);
        loop {
            let mut head = [0; 2];
            if self.stream.read_exact(&mut head).is_err() {
                return WebSocketMessage::Close;
            }
            let length = match head[1] {
                126 => usize::from(u16::from_be_bytes(self.array())),
                127 => usize::try_from(u64::from_be_bytes(self.array())).expect("a message fits into memory"),
                length => usize::from(length),
            };
            let mut bytes = vec![0; length];
            self.stream.read_exact(&mut bytes).expect("a frame is whole");
            payload.extend(bytes);
            if head[0] & 0x0f != CONTINUATION {
                kind = head[0] & 0x0f;
            }
            if head[0] & IS_LAST != 0 {
                break;
            }
        }
        match kind {
            TEXT => WebSocketMessage::Text(String::from_utf8(payload).expect("text is UTF-8")),
            CLOSE => WebSocketMessage::Close,
            _ => WebSocketMessage::Binary(payload),
        }
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).expect("a frame has a length");
        bytes
    }
}
