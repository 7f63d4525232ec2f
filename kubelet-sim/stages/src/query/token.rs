//! Splits a query into tokens.

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A function or keyword.
    Name(String),
    /// `.name` or `."name"`
    Field(String),
    Number(f64),
    Text(String),
    /// An operator or bracket.
    Sign(&'static str),
}

/// Signs, each before those that it begins with.
const SIGNS: &[&str] = &[
    "//", "==", "!=", "<=", ">=", "..", "|", ",", ".", "[", "]", "(", ")", "?", "<", ">", "+", "-", "*", "/", "%", ":",
    ";",
];

pub fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut found, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let token_end = if first.is_ascii_digit() {
            let end = number_end(rest);
            let number = rest[..end].parse().map_err(|_| format!("invalid number {:?}", &rest[..end]))?;
            found.push(Token::Number(number));
            end
        } else if is_name_start(first) {
            let end = name_end(rest);
            found.push(Token::Name(rest[..end].to_owned()));
            end
        } else if let Some(name) = rest.strip_prefix('.').filter(|name| name.starts_with(is_name_start)) {
            let end = name_end(name);
            found.push(Token::Field(name[..end].to_owned()));
            end + 1
        } else if let Some(quoted) = rest.strip_prefix('.').filter(|name| name.starts_with('"')) {
            let (name, end) = text_at(quoted)?;
            found.push(Token::Field(name));
            end + 1
        } else if first == '"' {
            let (text, end) = text_at(rest)?;
            found.push(Token::Text(text));
            end
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| format!("unexpected {first:?}"))?;
            found.push(Token::Sign(sign));
            sign.len()
        };
        rest = rest[token_end..].trim_start();
    }
    Ok(found)
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn name_end(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

fn number_end(text: &str) -> usize {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    match text[digits..].strip_prefix('.') {
        Some(fraction) if fraction.starts_with(|c: char| c.is_ascii_digit()) => {
            digits + 1 + fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len())
        }
        _ => digits,
    }
}

/// Reads a text in double quotes; returns it and the place behind it.
fn text_at(rest: &str) -> Result<(String, usize), String> {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped && c == '(' => return Err("texts with \\( ) are not supported".to_owned()),
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => {
                let text = serde_json::from_str(&rest[..=at]).map_err(|_| format!("invalid text {}", &rest[..=at]))?;
                return Ok((text, at + 1));
            }
            _ => {}
        }
    }
    Err("a text has no end".to_owned())
}
