//! Syntax errors of a JSON text, worded as Kubernetes words them, and the repairs that Go makes to such a text.
//!
//! Corresponds to the scanner of Go's encoding/json. Only bodies that the fast parser refused come here.

use super::json;
use super::path::Segment;
use crate::go_text;
use std::borrow::Cow;

/// Limit on the nesting of values, as in Go.
pub const MAX_NESTING: usize = 10_000;

/// Returns the first syntax error, or `None` if the text is JSON by Go's rules. Unlike serde's rules, Go's accept lone
/// surrogates and broken UTF-8.
pub fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.document().err().map(|error| match error {
        SyntaxError::End => "unexpected end of JSON input".to_owned(),
        SyntaxError::Byte(byte, context) => format!("invalid character {} {context}", quoted(byte)),
    })
}

/// Replaces lone surrogate escapes and broken UTF-8 by the replacement character, as Go does when it reads.
pub fn repair(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let bytes = text.as_bytes();
    let mut repaired = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'\\' {
            repaired.push(byte);
            at += 1;
            continue;
        }
        let length = match (surrogate(bytes, at), surrogate(bytes, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(_), _) => {
                repaired.extend_from_slice("\u{fffd}".as_bytes());
                at += 6;
                continue;
            }
            (None, _) => 2,
        };
        let end = (at + length).min(bytes.len());
        repaired.extend_from_slice(&bytes[at..end]);
        at = end;
    }
    repaired
}

/// Limit on the number of cuts, because each of them keeps its path in memory.
const MAX_CUTS: usize = 100;
/// Limit on the size of all these paths together.
const MAX_PATH_BYTES: usize = 64 << 10;

/// Replaces the containers below `max_depth` by `null`. Returns the new text and the paths of the cuts, or `None` if
/// there are too many cuts. The text must be JSON.
pub fn cut_below(bytes: &[u8], max_depth: usize) -> Option<(Vec<u8>, Vec<String>)> {
    let mut cut = Cut { kept: Vec::with_capacity(bytes.len()), paths: Vec::new(), open: Vec::new() };
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b'"' => json::string_end(bytes, at),
            b'{' | b'[' if cut.open.len() >= max_depth => {
                cut.leave_out();
                let path_bytes: usize = cut.paths.iter().map(String::len).sum();
                if cut.paths.len() > MAX_CUTS || path_bytes > MAX_PATH_BYTES {
                    return None;
                }
                at = json::value_end(bytes, at);
                continue;
            }
            _ => at + 1,
        };
        cut.pass(byte, &bytes[at..end]);
        at = end;
    }
    Some((cut.kept, cut.paths))
}

/// The state of `cut_below`.
struct Cut {
    kept: Vec<u8>,
    paths: Vec<String>,
    open: Vec<Container>,
}

/// An open container, and the place in it.
enum Container {
    /// The last key as it is spelt, with its quotes, and whether its value is next.
    Object(Vec<u8>, bool),
    Array(usize),
}

impl Cut {
    fn pass(&mut self, first: u8, token: &[u8]) {
        match (first, self.open.last_mut()) {
            (b'"', Some(Container::Object(key, false))) => *key = token.to_vec(),
            (b':', Some(Container::Object(_, is_value))) => *is_value = true,
            (b',', Some(Container::Object(_, is_value))) => *is_value = false,
            (b',', Some(Container::Array(index))) => *index += 1,
            (b'{', _) => self.open.push(Container::Object(Vec::new(), false)),
            (b'[', _) => self.open.push(Container::Array(0)),
            (b'}' | b']', _) => drop(self.open.pop()),
            _ => {}
        }
        self.kept.extend_from_slice(token);
    }

    fn leave_out(&mut self) {
        self.kept.extend_from_slice(b"null");
        let mut path = String::new();
        for container in &self.open {
            match container {
                Container::Array(index) => Segment::Index(*index).push_to(&mut path),
                Container::Object(key, _) => {
                    Segment::Key(&serde_json::from_slice::<String>(key).unwrap_or_default()).push_to(&mut path);
                }
            }
        }
        self.paths.push(path);
    }
}

/// Returns the surrogate that an escape `\uD800` to `\uDFFF` at this place names.
fn surrogate(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let code = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..=0xdfff).contains(&code).then_some(code)
}

enum SyntaxError {
    End,
    Byte(u8, Cow<'static, str>),
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn unexpected(byte: u8, context: impl Into<Cow<'static, str>>) -> SyntaxError {
    SyntaxError::Byte(byte, context.into())
}

const BEGIN_VALUE: &str = "looking for beginning of value";

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), SyntaxError> {
        // A loop, because recursion over deep nesting would exhaust the stack.
        let mut open: Vec<u8> = Vec::new();
        self.value(&mut open)?;
        while let Some(container) = open.last().copied() {
            match (container, self.token()?) {
                (b'{', b',') => self.key()?,
                (b'[', b',') => {}
                (b'{', b'}') | (b'[', b']') => {
                    open.pop();
                    continue;
                }
                (b'{', byte) => return Err(unexpected(byte, "after object key:value pair")),
                (_, byte) => return Err(unexpected(byte, "after array element")),
            }
            self.value(&mut open)?;
        }
        match self.token() {
            Ok(byte) => Err(unexpected(byte, "after top-level value")),
            Err(_) => Ok(()),
        }
    }

    /// Reads one scalar, or a container down to its first scalar. Pushes the containers that it opens.
    fn value(&mut self, open: &mut Vec<u8>) -> Result<(), SyntaxError> {
        loop {
            match self.token()? {
                byte @ (b'{' | b'[') if open.len() >= MAX_NESTING => {
                    return Err(unexpected(byte, "exceeded max depth"));
                }
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
                byte => return Err(unexpected(byte, BEGIN_VALUE)),
            }
        }
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        match self.token()? {
            b'"' => self.string()?,
            byte => return Err(unexpected(byte, "looking for beginning of object key string")),
        }
        match self.token()? {
            b':' => Ok(()),
            byte => Err(unexpected(byte, "after object key")),
        }
    }

    /// Reads the rest of a string behind its opening quote.
    fn string(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => match self.byte()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.byte()?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(unexpected(digit, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err(unexpected(byte, "in string escape code")),
                },
                byte if byte < 0x20 => return Err(unexpected(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &'static str) -> Result<(), SyntaxError> {
        for expected in word.bytes().skip(1) {
            let byte = self.byte()?;
            if byte != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(unexpected(byte, context));
            }
        }
        Ok(())
    }

    /// Reads the rest of a number behind its first byte.
    fn number(&mut self, first: u8) -> Result<(), SyntaxError> {
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

    fn digit(&mut self, context: &'static str) -> Result<u8, SyntaxError> {
        match self.byte()? {
            byte if byte.is_ascii_digit() => Ok(byte),
            byte => Err(unexpected(byte, context)),
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

    fn byte(&mut self) -> Result<u8, SyntaxError> {
        let byte = self.peek().ok_or(SyntaxError::End)?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads the next byte that is not white space.
    fn token(&mut self) -> Result<u8, SyntaxError> {
        self.peek_token()?;
        self.byte()
    }

    fn peek_token(&mut self) -> Result<u8, SyntaxError> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.peek().ok_or(SyntaxError::End)
    }
}

/// Quotes a byte as Go does: `'x'`, `'\''`, `'"'`, `'\x01'`.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => format!("'{}'", go_text::quoted(&char::from(byte).to_string()).trim_matches('"')),
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
    fn nesting_is_limited_as_in_go() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(syntax_error(nested(MAX_NESTING).as_bytes()), None);
        let error = syntax_error(nested(MAX_NESTING + 1).as_bytes());
        assert_eq!(error.as_deref(), Some("invalid character '[' exceeded max depth"));
    }

    #[test]
    fn what_is_too_deep_is_cut_and_told() {
        let text = br#"{"a,[": {"b":[ {"c":1}, "}", [2], 3 ] }, "d":[{"\u00e9":{"x":"]"}}], "e":{}}"#;
        let (kept, paths) = cut_below(text, 3).unwrap();
        assert_eq!(
            String::from_utf8(kept).unwrap(),
            r#"{"a,[": {"b":[ null, "}", null, 3 ] }, "d":[{"\u00e9":null}], "e":{}}"#
        );
        assert_eq!(paths, ["a,[.b[0]", "a,[.b[2]", "d[0].\u{e9}"]);
        assert_eq!(cut_below(text, 4), Some((text.to_vec(), vec![])));
        let many = format!("[{}1]", "[[]],".repeat(MAX_CUTS));
        assert_eq!(cut_below(many.as_bytes(), 2).unwrap().1.len(), MAX_CUTS);
        assert_eq!(cut_below(many.replace("1]", "[[]]]").as_bytes(), 2), None);
    }

    #[test]
    fn what_go_reads_is_no_error() {
        for text in ["null", " {} ", r#"{"a":[{},[],{"b":[1,-2.5e+3,true,false,null,"x\u00e9\n"]}]}"#, r#""\ud800""#] {
            assert_eq!(syntax_error(text.as_bytes()), None, "{text}");
        }
    }
}
