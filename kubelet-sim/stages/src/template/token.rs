//! Splits a template into text and actions, and actions into tokens.

use std::borrow::Cow;

/// A part of a template.
#[derive(Debug, PartialEq)]
pub enum Part {
    Text(String),
    Action(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A keyword or function.
    Word(String),
    /// `.name`; `follows` when no blank stands before it, as in `$x.name`.
    Field {
        name: String,
        follows: bool,
    },
    Dot,
    /// `$name`; the name is empty for `$`.
    Variable(String),
    Text(String),
    Int(i64),
    Float(f64),
    Sign(&'static str),
}

/// Signs, each before those that it begins with.
const SIGNS: &[&str] = &[":=", "=", "|", "(", ")", ","];

pub fn parts(text: &str) -> Result<Vec<Part>, String> {
    let (mut parts, mut rest, mut trims) = (Vec::new(), text, false);
    loop {
        let start = rest.find("{{");
        let mut before = Cow::from(&rest[..start.unwrap_or(rest.len())]);
        if trims {
            before = Cow::from(before.trim_start().to_owned());
        }
        let Some(start) = start else {
            push_text(&mut parts, &before);
            return Ok(parts);
        };
        let mut inner = &rest[start + 2..];
        if let Some(after) = inner.strip_prefix('-').filter(|after| after.starts_with(char::is_whitespace)) {
            before = Cow::from(before.trim_end().to_owned());
            inner = after;
        }
        push_text(&mut parts, &before);
        let end = if inner.trim_start().starts_with("/*") {
            comment_end(inner)?
        } else {
            let (tokens, end) = action(inner)?;
            parts.push(Part::Action(tokens));
            end
        };
        trims = inner[..end].ends_with("-}}");
        rest = &inner[end..];
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

/// Returns the place behind a comment and its braces.
fn comment_end(inner: &str) -> Result<usize, String> {
    let close = inner.find("*/").ok_or("unclosed comment")? + 2;
    let after = inner[close..].trim_start().trim_start_matches('-');
    if !after.starts_with("}}") {
        return Err("comment ends before closing delimiter".to_owned());
    }
    Ok(inner.len() - after.len() + 2)
}

/// Reads the tokens of an action; returns them and the place behind its braces.
fn action(inner: &str) -> Result<(Vec<Token>, usize), String> {
    let (mut tokens, mut rest) = (Vec::new(), inner);
    loop {
        let before = rest.len();
        rest = rest.trim_start();
        let follows = rest.len() == before;
        let at = inner.len() - rest.len();
        if rest.starts_with("}}") {
            return Ok((tokens, at + 2));
        }
        if rest.starts_with("-}}") && !follows {
            return Ok((tokens, at + 3));
        }
        let first = rest.chars().next().ok_or("unclosed action")?;
        let (token, length) = match first {
            '"' => quoted(rest)?,
            '`' => raw(rest)?,
            '\'' => character(rest)?,
            '$' => {
                let length = 1 + name_length(&rest[1..]);
                (Token::Variable(rest[1..length].to_owned()), length)
            }
            '.' if name_length(&rest[1..]) > 0 && !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let length = 1 + name_length(&rest[1..]);
                (Token::Field { name: rest[1..length].to_owned(), follows }, length)
            }
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => (Token::Dot, 1),
            c if c.is_ascii_digit() || matches!(c, '.' | '+' | '-') => number(rest)?,
            c if c.is_alphabetic() || c == '_' => {
                let length = name_length(rest);
                (Token::Word(rest[..length].to_owned()), length)
            }
            c => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len()),
                None => return Err(format!("unexpected {c:?} in an action")),
            },
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Reads a text in double quotes with Go's escapes.
fn quoted(rest: &str) -> Result<(Token, usize), String> {
    let (mut text, mut chars) = (String::new(), rest.char_indices().skip(1));
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Token::Text(text), at + 1)),
            '\n' => break,
            '\\' => {
                let (_, escape) = chars.next().ok_or("unterminated quoted string")?;
                let digits = match escape {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => 0,
                };
                let code: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
                text.push(escaped(escape, &code).ok_or_else(|| format!("invalid escape \\{escape}{code}"))?);
            }
            c => text.push(c),
        }
    }
    Err("unterminated quoted string".to_owned())
}

fn escaped(escape: char, code: &str) -> Option<char> {
    Some(match escape {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' | '"' | '\'' => escape,
        'x' | 'u' | 'U' => char::from_u32(u32::from_str_radix(code, 16).ok()?)?,
        _ => return None,
    })
}

fn raw(rest: &str) -> Result<(Token, usize), String> {
    let end = rest[1..].find('`').ok_or("unterminated raw quoted string")? + 1;
    Ok((Token::Text(rest[1..end].to_owned()), end + 1))
}

fn character(rest: &str) -> Result<(Token, usize), String> {
    let mut chars = rest[1..].chars();
    let first = chars.next().ok_or("unterminated character constant")?;
    let (value, length) = match first {
        '\\' => {
            let escape = chars.next().and_then(|escape| escaped(escape, ""));
            (escape.ok_or("malformed character constant")?, 4)
        }
        c => (c, 2 + c.len_utf8()),
    };
    if rest[..length.min(rest.len())].ends_with('\'') {
        Ok((Token::Int(i64::from(u32::from(value))), length))
    } else {
        Err("unterminated character constant".to_owned())
    }
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let sign = usize::from(rest.starts_with(['+', '-']));
    let length = sign + rest[sign..].find(|c| !is_part(c)).unwrap_or(rest.len() - sign);
    let bad = || format!("bad number syntax: {:?}", &rest[..length]);
    let text = rest[..length].replace('_', "").to_ascii_lowercase();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.trim_start_matches('+')),
    };
    let radix = [("0x", 16), ("0b", 2), ("0o", 8)].into_iter().find(|(prefix, _)| digits.starts_with(prefix));
    let parsed = match radix {
        Some((_, radix)) => i64::from_str_radix(&format!("{sign}{}", &digits[2..]), radix).ok().map(Token::Int),
        None if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            let whole = text.trim_start_matches('+').parse().ok().map(Token::Int);
            whole.or_else(|| text.parse().ok().map(Token::Float))
        }
        None => None,
    };
    Ok((parsed.ok_or_else(bad)?, length))
}
