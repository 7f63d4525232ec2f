//! The tokenizer: splits a text into tokens with their places.

use super::source::SyntaxError;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Ident(String),
    /// A field's name in backquotes.
    Escaped(String),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// An operator, a bracket, or another keyword.
    Sign(&'static str),
    End,
}

/// A token, the index of its first character, and its text.
#[derive(Clone, Debug)]
pub struct PlacedToken {
    pub token: Token,
    pub at: usize,
    pub written: String,
}

const SIGNS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*", "/", "%",
    "<", ">", "in", "null",
];

/// Returns all tokens of a text; the last one marks the end.
pub fn tokens(text: &str) -> Result<Vec<PlacedToken>, SyntaxError> {
    let characters: Vec<char> = text.chars().collect();
    let mut reader = Reader { characters: &characters, at: 0 };
    let mut tokens = Vec::new();
    loop {
        reader.skip_blanks();
        let at = reader.at;
        let token = reader.token()?;
        let is_end = token == Token::End;
        let written = if is_end { "<EOF>".to_owned() } else { characters[at..reader.at].iter().collect() };
        tokens.push(PlacedToken { token, at, written });
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Reader<'t> {
    characters: &'t [char],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn starts_with(&self, wanted: &str) -> bool {
        wanted.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let from = self.at;
        while self.peek(0).is_some_and(&wanted) {
            self.at += 1;
        }
        self.characters[from..self.at].iter().collect()
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}'));
            if !self.starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn unknown<T>(&self, from: usize, to: usize) -> Result<T, SyntaxError> {
        let text: String = self.characters[from..to.min(self.characters.len())].iter().collect();
        Err(SyntaxError { at: from, message: format!("Syntax error: token recognition error at: '{text}'") })
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        let Some(first) = self.peek(0) else { return Ok(Token::End) };
        if let Some(found) = self.quoted()? {
            return Ok(found);
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return self.number();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            return Ok(match SIGNS.into_iter().find(|sign| *sign == word) {
                Some(sign) => Token::Sign(sign),
                None => Token::Ident(word),
            });
        }
        if first == '`' {
            return self.escaped();
        }
        if let Some(sign) = SIGNS.into_iter().find(|sign| self.starts_with(sign)) {
            self.at += sign.len();
            return Ok(Token::Sign(sign));
        }
        self.unknown(self.at, self.at + 1)
    }

    fn escaped(&mut self) -> Result<Token, SyntaxError> {
        let from = self.at;
        self.at += 1;
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '));
        if name.is_empty() || self.peek(0) != Some('`') {
            return self.unknown(from, self.at);
        }
        self.at += 1;
        Ok(Token::Escaped(name))
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        let at = self.at;
        let invalid = |what: &str| SyntaxError { at, message: format!("invalid {what} literal") };
        if self.starts_with("0x") && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit()) {
            self.at += 2;
            let digits = self.take_while(|c| c.is_ascii_hexdigit());
            if matches!(self.peek(0), Some('u' | 'U')) {
                self.at += 1;
                return u64::from_str_radix(&digits, 16).map(Token::Uint).map_err(|_| invalid("uint"));
            }
            return int(u64::from_str_radix(&digits, 16).ok()).ok_or_else(|| invalid("int"));
        }
        let mut text = self.take_while(|c| c.is_ascii_digit());
        let mut is_double = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            is_double = true;
            text = format!("{text}.{}", self.take_while(|c| c.is_ascii_digit()));
        }
        let signed = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + signed).is_some_and(|c| c.is_ascii_digit()) {
            is_double = true;
            text.push('e');
            text.extend(self.peek(1).filter(|_| signed == 1));
            self.at += 1 + signed;
            text.push_str(&self.take_while(|c| c.is_ascii_digit()));
        }
        if is_double {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            return number.map(Token::Double).ok_or_else(|| invalid("double"));
        }
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return text.parse().map(Token::Uint).map_err(|_| invalid("uint"));
        }
        int(text.parse().ok()).ok_or_else(|| invalid("int"))
    }

    /// Reads a text or bytes, if one begins here: `'a'`, `"""a"""`, `r'\d'`, `b'a'`.
    fn quoted(&mut self) -> Result<Option<Token>, SyntaxError> {
        let from = self.at;
        let mut prefix = 0;
        let (mut is_raw, mut is_bytes) = (false, false);
        while let Some(c) = self.peek(prefix).filter(|_| prefix < 2) {
            match c {
                'r' | 'R' if !is_raw => is_raw = true,
                'b' | 'B' if !is_bytes && !is_raw => is_bytes = true,
                _ => break,
            }
            prefix += 1;
        }
        let Some(quote) = self.peek(prefix).filter(|c| matches!(c, '"' | '\'')) else { return Ok(None) };
        self.at += prefix;
        let triple: String = [quote; 3].iter().collect();
        let mark = if self.starts_with(&triple) { triple } else { quote.to_string() };
        self.at += mark.len();
        let mut content = Content::default();
        loop {
            if self.starts_with(&mark) {
                self.at += mark.len();
                return Ok(Some(content.token(is_bytes)));
            }
            match self.peek(0) {
                Some('\\') if !is_raw => {
                    if is_bytes && matches!(self.peek(1), Some('u' | 'U')) {
                        return Err(SyntaxError { at: from, message: "unable to unescape string".to_owned() });
                    }
                    self.escape(from, &mut content)?;
                }
                Some(c) if mark.len() == 3 || !matches!(c, '\n' | '\r') => {
                    self.at += 1;
                    content.push(c);
                }
                _ => return self.unknown(from, self.at),
            }
        }
    }

    fn escape(&mut self, from: usize, content: &mut Content) -> Result<(), SyntaxError> {
        let Some(kind) = self.peek(1) else { return self.unknown(from, self.at + 1) };
        self.at += 2;
        let plain = match kind {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' | '\'' | '"' | '`' | '?' => kind,
            'x' | 'X' | 'u' | 'U' | '0'..='3' => return self.coded(from, kind, content),
            _ => return self.unknown(from, self.at),
        };
        content.push(plain);
        Ok(())
    }

    /// Reads `\x41`, `\u0041`, `\U00000041` or `\101`.
    fn coded(&mut self, from: usize, kind: char, content: &mut Content) -> Result<(), SyntaxError> {
        let (digits, radix) = match kind {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            _ => {
                self.at -= 1;
                (3, 8)
            }
        };
        let text: String = (0..digits).filter_map(|ahead| self.peek(ahead)).collect();
        let code = u32::from_str_radix(&text, radix).ok().filter(|_| text.len() == digits);
        let Some(code) = code else { return self.unknown(from, self.at + 1) };
        self.at += digits;
        // In bytes, `\x` and octal escapes stand for a byte; otherwise all stand for a character.
        if matches!(kind, 'x' | 'X' | '0'..='3') {
            content.push_code(u8::try_from(code).unwrap_or(u8::MAX));
            return Ok(());
        }
        match char::from_u32(code) {
            Some(c) => content.push(c),
            None => return Err(SyntaxError { at: from, message: "invalid unicode code point".to_owned() }),
        }
        Ok(())
    }
}

/// Returns an int token; the smallest number's digits are allowed, since its minus is an operator.
fn int(number: Option<u64>) -> Option<Token> {
    match number? {
        number if number == i64::MIN.unsigned_abs() => Some(Token::Int(i64::MIN)),
        number => i64::try_from(number).ok().map(Token::Int),
    }
}

/// The content between quotes, as a text and as bytes.
#[derive(Default)]
struct Content {
    text: String,
    bytes: Vec<u8>,
}

impl Content {
    fn push(&mut self, c: char) {
        self.text.push(c);
        self.bytes.extend(c.to_string().bytes());
    }

    fn push_code(&mut self, code: u8) {
        self.text.push(char::from(code));
        self.bytes.push(code);
    }

    fn token(self, is_bytes: bool) -> Token {
        if is_bytes { Token::Bytes(self.bytes) } else { Token::Text(self.text) }
    }
}
