//! Reads the wire format: numbered fields of four kinds. Errors are worded as Go's generated code words them.
//!
//! Corresponds to encoding/proto as gogo/protobuf generates it.

/// The content of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

pub struct Reader<'a> {
    rest: &'a [u8],
}

const UNEXPECTED_EOF: &str = "unexpected EOF";

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next field and its number. Returns `None` at the end of the message.
    pub fn next(&mut self) -> Result<Option<(u64, Payload<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let (number, wire_type) = (key >> 3, key & 7);
        let payload = match wire_type {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| "proto: negative length found during unmarshaling")?;
                Payload::Bytes(self.take(length)?)
            }
            5 => Payload::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        if number == 0 {
            return Err(format!("proto: illegal tag 0 (wire type {wire_type})"));
        }
        Ok(Some((number, payload)))
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(UNEXPECTED_EOF)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let taken = self.rest.get(..length).ok_or(UNEXPECTED_EOF)?;
        self.rest = &self.rest[length..];
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("as many bytes were taken"))
    }
}

/// Decodes text. Broken UTF-8 becomes replacement characters, as in JSON.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_each_kind_are_read() {
        let mut reader =
            Reader::new(&[0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(reader.next(), Ok(Some((1, Payload::Varint(150)))));
        assert_eq!(reader.next(), Ok(Some((2, Payload::Bytes(b"hi")))));
        assert_eq!(reader.next(), Ok(Some((3, Payload::Fixed32(1)))));
        assert_eq!(reader.next(), Ok(Some((4, Payload::Fixed64(2)))));
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn broken_fields_are_errors() {
        let cases: [(&[u8], &str); 5] = [
            (&[0x80], "unexpected EOF"),
            (&[0x12, 0x05, b'x'], "unexpected EOF"),
            (&[0x0f], "proto: illegal wireType 7"),
            (&[0x00, 0x00], "proto: illegal tag 0 (wire type 0)"),
            (&[0xff; 11], "proto: integer overflow"),
        ];
        for (bytes, message) in cases {
            assert_eq!(Reader::new(bytes).next(), Err(message.to_owned()), "{bytes:?}");
        }
    }
}
