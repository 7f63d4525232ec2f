//! What is wrong with a JSON text, in the words clients know from Kubernetes.
//!
//! Corresponds to the scanner of Go's encoding/json. Only bodies that the fast parser refused come here.

/// The first syntax error, or `None` if the text is JSON by Go's rules (which, unlike serde's, let lone surrogates and
/// broken UTF-8 pass).
pub fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.document().err().map(|error| match error {
        Wrong::End => "unexpected end of JSON input".to_owned(),
        Wrong::Byte(byte, context) => format!("invalid character {} {context}", quoted(byte)),
    })
}

/// The same text with what Go replaces on reading: lone surrogate escapes and broken UTF-8.
pub fn mend(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let bytes = text.as_bytes();
    let mut mended = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'\\' {
            mended.push(byte);
            at += 1;
            continue;
        }
        let length = match (surrogate(bytes, at), surrogate(bytes, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(_), _) => {
                mended.extend_from_slice("\u{fffd}".as_bytes());
                at += 6;
                continue;
            }
            (None, _) => 2,
        };
        let end = (at + length).min(bytes.len());
        mended.extend_from_slice(&bytes[at..end]);
        at = end;
    }
    mended
}

/// The surrogate that an escape `\uD800` to `\uDFFF` at this place names.
fn surrogate(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let code = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..=0xdfff).contains(&code).then_some(code)
}

enum Wrong {
    End,
    Byte(u8, &'static str),
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

const BEGIN_VALUE: &str = "looking for beginning of value";

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Wrong> {
        let mut open: Vec<u8> = Vec::new();
        // Iterative: nesting is bounded by the body's size alone.
        self.value(&mut open)?;
        while let Some(container) = open.last().copied() {
            match (container, self.token()?) {
                (b'{', b',') => self.key()?,
                (b'[', b',') => {}
                (b'{', b'}') | (b'[', b']') => {
                    open.pop();
                    continue;
                }
                (b'{', byte) => return Err(Wrong::Byte(byte, "after object key:value pair")),
                (_, byte) => return Err(Wrong::Byte(byte, "after array element")),
            }
            self.value(&mut open)?;
        }
        match self.token() {
            Ok(byte) => Err(Wrong::Byte(byte, "after top-level value")),
            Err(_) => Ok(()),
        }
    }

    /// One scalar, or the way down to the first scalar of a container; opened containers are pushed.
    fn value(&mut self, open: &mut Vec<u8>) -> Result<(), Wrong> {
        loop {
            match self.token()? {
                b'{' => match self.peek_token()? {
                    b'}' => return self.token().map(drop),
                    _ => {
                        open.push(b'{');
                        self.key()?;
                    }
                },
                b'[' => match self.peek_token()? {
                    b']' => return self.token().map(drop),
                    _ => open.push(b'['),
                },
                b'"' => return self.string(),
                b't' => return self.literal("true"),
                b'f' => return self.literal("false"),
                b'n' => return self.literal("null"),
                byte @ (b'-' | b'0'..=b'9') => return self.number(byte),
                byte => return Err(Wrong::Byte(byte, BEGIN_VALUE)),
            }
        }
    }

    fn key(&mut self) -> Result<(), Wrong> {
        match self.token()? {
            b'"' => self.string()?,
            byte => return Err(Wrong::Byte(byte, "looking for beginning of object key string")),
        }
        match self.token()? {
            b':' => Ok(()),
            byte => Err(Wrong::Byte(byte, "after object key")),
        }
    }

    /// The rest of a string whose opening quote is read.
    fn string(&mut self) -> Result<(), Wrong> {
        loop {
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => match self.byte()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.byte()?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(Wrong::Byte(digit, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err(Wrong::Byte(byte, "in string escape code")),
                },
                byte if byte < 0x20 => return Err(Wrong::Byte(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &'static str) -> Result<(), Wrong> {
        for expected in word.bytes().skip(1) {
            let byte = self.byte()?;
            if byte != expected {
                return Err(Wrong::Byte(byte, literal_context(word, expected)));
            }
        }
        Ok(())
    }

    /// The rest of a number whose first byte is read.
    fn number(&mut self, first: u8) -> Result<(), Wrong> {
        let first = if first == b'-' { self.digit("in numeric literal")? } else { first };
        if first != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, context: &'static str) -> Result<u8, Wrong> {
        match self.byte()? {
            byte if byte.is_ascii_digit() => Ok(byte),
            byte => Err(Wrong::Byte(byte, context)),
        }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn byte(&mut self) -> Result<u8, Wrong> {
        let byte = self.peek().ok_or(Wrong::End)?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte that is not white space.
    fn token(&mut self) -> Result<u8, Wrong> {
        self.peek_token()?;
        self.byte()
    }

    fn peek_token(&mut self) -> Result<u8, Wrong> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.peek().ok_or(Wrong::End)
    }
}

fn literal_context(word: &'static str, expected: u8) -> &'static str {
    match (word, expected) {
        ("true", b'r') => "in literal true (expecting 'r')",
        ("true", b'u') => "in literal true (expecting 'u')",
        ("true", _) => "in literal true (expecting 'e')",
        ("false", b'a') => "in literal false (expecting 'a')",
        ("false", b'l') => "in literal false (expecting 'l')",
        ("false", b's') => "in literal false (expecting 's')",
        ("false", _) => "in literal false (expecting 'e')",
        (_, b'u') => "in literal null (expecting 'u')",
        _ => "in literal null (expecting 'l')",
    }
}

/// A byte as Go quotes it: `'x'`, `'\''`, `'"'`, `'\x01'`.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        0x07 => "'\\a'".to_owned(),
        0x08 => "'\\b'".to_owned(),
        0x0c => "'\\f'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        0x0b => "'\\v'".to_owned(),
        0x00..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0x9f | 0xad => format!("'\\u{byte:04x}'"),
        0xa0 => "'\\u00a0'".to_owned(),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_worded_as_go_words_them() {
        let cases: &[(&str, &str)] = &[
            ("", "unexpected end of JSON input"),
            ("  ", "unexpected end of JSON input"),
            (r#"{"a":{"b":"c""#, "unexpected end of JSON input"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
            (r#"{"a":1}{"b":2}"#, "invalid character '{' after top-level value"),
            (r#"{"a":1} tail"#, "invalid character 't' after top-level value"),
            (r#"{"a":"\x"}"#, "invalid character 'x' in string escape code"),
            (r#"{"a":"\u12g4"}"#, "invalid character 'g' in \\u hexadecimal character escape"),
            ("{/*c*/\"a\":1}", "invalid character '/' looking for beginning of object key string"),
            (r#"{"a":NaN}"#, "invalid character 'N' looking for beginning of value"),
            ("{\"a\":\"\u{1}\"}", "invalid character '\\x01' in string literal"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b":2}"#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("01", "invalid character '1' after top-level value"),
        ];
        for (text, message) in cases {
            assert_eq!(syntax_error(text.as_bytes()).as_deref(), Some(*message), "{text}");
        }
    }

    #[test]
    fn what_go_reads_is_no_error() {
        for text in ["null", " {} ", r#"{"a":[{},[],{"b":[1,-2.5e+3,true,false,null,"x\u00e9\n"]}]}"#, r#""\ud800""#] {
            assert_eq!(syntax_error(text.as_bytes()), None, "{text}");
        }
    }
}
