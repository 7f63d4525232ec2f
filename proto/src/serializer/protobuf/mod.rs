//! Protobuf bodies: the envelope around a message. `schema::protobuf` reads the message itself.
//!
//! Corresponds to k8s.io/apimachinery/pkg/runtime/serializer/protobuf. Stock clients write their requests in protobuf;
//! answers are JSON, which all of them accept.

pub(crate) mod field;

use field::{Payload, Reader};

/// The first bytes of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";

/// runtime.Unknown: the version and kind of an object, and its message, which has not been read yet.
#[derive(Debug, Default, PartialEq)]
pub struct Envelope {
    pub api_version: String,
    pub kind: String,
    /// The bytes of the message.
    pub raw: Vec<u8>,
}

/// Opens a body. The error is worded as Kubernetes words it, without a preamble.
pub fn open(bytes: &[u8]) -> Result<Envelope, String> {
    if bytes.is_empty() {
        return Err("empty data".to_owned());
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let prefix = "[107 56 115 0]";
        return Err(format!("provided data does not appear to be a protobuf message, expected prefix {prefix}"));
    };
    if rest.is_empty() {
        return Err("empty body".to_owned());
    }
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(rest);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(type_meta)) => {
                let mut reader = Reader::new(type_meta);
                while let Some((number, payload)) = reader.next()? {
                    match (number, payload) {
                        (1, Payload::Bytes(text)) => envelope.api_version = field::text(text),
                        (2, Payload::Bytes(text)) => envelope.kind = field::text(text),
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(raw)) => envelope.raw = raw.to_vec(),
            _ => {}
        }
    }
    Ok(envelope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_says_what_is_in_it() {
        let envelope = open(b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x03abc\x1a\0\"\0").unwrap();
        let expected = Envelope { api_version: "v1".into(), kind: "ConfigMap".into(), raw: b"abc".to_vec() };
        assert_eq!(envelope, expected);
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        let cases: [(&[u8], &str); 4] = [
            (b"", "empty data"),
            (b"xyz", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
            (b"k8s\0", "empty body"),
            (b"k8s\0garbage", "proto: illegal wireType 7"),
        ];
        for (bytes, message) in cases {
            assert_eq!(open(bytes), Err(message.to_owned()));
        }
    }
}
