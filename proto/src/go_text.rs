//! Text as messages of Go's standard library show it.
//!
//! Corresponds to strconv.Quote, unicode.IsPrint and the escapes of encoding/json.

use std::fmt::Write;

/// Returns whether a character is printable (unicode.IsPrint): a letter, mark, number, punctuation, symbol or a space.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // A mark behind another character is never escaped. An unprintable character always is.
    let behind = ['a', c];
    !String::from_iter(behind).escape_debug().any(|shown| shown == '\\')
}

/// Returns the letter behind the backslash, for a character that has an escape of its own.
pub fn escape_letter(c: char) -> Option<char> {
    Some(match c {
        '"' | '\\' => c,
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{b}' => 'v',
        _ => return None,
    })
}

/// Quotes a text and escapes its unprintable characters, as strconv.Quote does.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match escape_letter(c) {
            Some(letter) => out.extend(['\\', letter]),
            None if is_printable(c) => out.push(c),
            None => {
                let code = u32::from(c);
                let written = match code {
                    0..0x80 => write!(out, "\\x{code:02x}"),
                    0x80..0x10000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
                written.expect("writing to memory cannot fail");
            }
        }
    }
    out.push('"');
    out
}

/// Escapes the characters of HTML in a JSON text, as json.Marshal does.
pub fn html_escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to memory cannot fail");
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_in_go() {
        let cases = [
            ("plain é 网", r#""plain é 网""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}\0\u{7f}", r#""\a\b\f\n\r\t\v\x00\x7f""#),
            ("\u{85}\u{a0}\u{ad}\u{200b}\u{2028}", r#""\u0085\u00a0\u00ad\u200b\u2028""#),
            ("e\u{301}\u{e000}\u{f0000}", "\"e\u{301}\\ue000\\U000f0000\""),
            ("it's <b>", r#""it's <b>""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn json_in_messages_has_no_markup() {
        assert_eq!(html_escaped(r#"{"a":"<&>"}"#), r#"{"a":"\u003c\u0026\u003e"}"#);
    }
}
