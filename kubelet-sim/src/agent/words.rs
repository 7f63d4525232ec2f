//! The words of a command line: quotes, variables, and what separates commands.
//!
//! A small part of what a POSIX shell reads; what is more than that is refused by name, never misread.

use std::collections::BTreeMap;

/// What joins a command to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// `;`, a new line, or the beginning.
    Always,
    /// `&&`
    Success,
    /// `||`
    Failure,
}

/// A command as it was written: its variables are looked up when its turn comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub after: After,
    words: Vec<Vec<Piece>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// What this shell does not know.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("syntax error: {0} is more than this simulated shell knows")]
pub struct Unknown(String);

const KEYWORDS: [&str; 10] = ["if", "for", "while", "until", "case", "function", "{", "do", "then", "!"];

impl Command {
    /// The words with the values of variables in them.
    pub fn words(&self, variables: &BTreeMap<String, String>) -> Vec<String> {
        let value = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Variable(name) => variables.get(name).cloned().unwrap_or_default(),
        };
        self.words
            .iter()
            .map(|word| (word, word.iter().map(value).collect::<String>()))
            // A word that is nothing but an empty variable is none.
            .filter(|(word, text)| !text.is_empty() || word.iter().any(|piece| matches!(piece, Piece::Text(_))))
            .map(|(_, text)| text)
            .collect()
    }
}

/// Splits a line into commands.
pub fn parse(line: &str) -> Result<Vec<Command>, Unknown> {
    let mut reader = Reader { rest: line.chars().collect(), at: 0 };
    let (mut commands, mut words, mut after) = (Vec::new(), Vec::new(), After::Always);
    let mut end = |words: &mut Vec<Vec<Piece>>, after: After| {
        if !words.is_empty() {
            commands.push(Command { after, words: std::mem::take(words) });
        }
    };
    while let Some(next) = reader.peek() {
        let joined = match (next, reader.rest.get(reader.at + 1)) {
            ('&', Some('&')) => Some((2, After::Success)),
            ('|', Some('|')) => Some((2, After::Failure)),
            (';' | '\n', _) => Some((1, After::Always)),
            ('|' | '&' | '<' | '>' | '(' | ')' | '`', _) => return Err(Unknown(format!("{next:?}"))),
            _ => None,
        };
        match joined {
            Some((length, next)) => {
                end(&mut words, after);
                after = next;
                reader.at += length;
            }
            None if next.is_whitespace() => reader.at += 1,
            None if next == '#' => reader.skip_line(),
            None => {
                let word = reader.word()?;
                match word.as_slice() {
                    [Piece::Text(text)] if words.is_empty() && KEYWORDS.contains(&text.as_str()) => {
                        return Err(Unknown(format!("{text:?}")));
                    }
                    _ => words.push(word),
                }
            }
        }
    }
    end(&mut words, after);
    Ok(commands)
}

struct Reader {
    rest: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += 1;
        next
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|next| next != '\n') {
            self.at += 1;
        }
    }

    fn word(&mut self) -> Result<Vec<Piece>, Unknown> {
        let (mut pieces, mut text, mut is_quoted) = (Vec::new(), String::new(), false);
        while let Some(next) = self.peek().filter(|next| !next.is_whitespace() && !";&|<>()`".contains(*next)) {
            self.at += 1;
            match next {
                '\'' => {
                    is_quoted = true;
                    loop {
                        match self.next() {
                            Some('\'') => break,
                            Some(inner) => text.push(inner),
                            None => return Err(Unknown("an open quote".to_owned())),
                        }
                    }
                }
                '"' => {
                    is_quoted = true;
                    self.double_quoted(&mut pieces, &mut text)?;
                }
                '\\' => text.extend(self.next()),
                '$' => self.variable(&mut pieces, &mut text)?,
                other => text.push(other),
            }
        }
        if !text.is_empty() || is_quoted {
            pieces.push(Piece::Text(text));
        }
        Ok(pieces)
    }

    fn double_quoted(&mut self, pieces: &mut Vec<Piece>, text: &mut String) -> Result<(), Unknown> {
        loop {
            match self.next() {
                Some('"') => return Ok(()),
                Some('\\') => match self.next() {
                    Some(escaped @ ('"' | '\\' | '$' | '`')) => text.push(escaped),
                    Some(other) => text.extend(['\\', other]),
                    None => return Err(Unknown("an open quote".to_owned())),
                },
                Some('$') => self.variable(pieces, text)?,
                Some('`') => return Err(Unknown("'`'".to_owned())),
                Some(other) => text.push(other),
                None => return Err(Unknown("an open quote".to_owned())),
            }
        }
    }

    fn variable(&mut self, pieces: &mut Vec<Piece>, text: &mut String) -> Result<(), Unknown> {
        let is_part = |next: &char| next.is_ascii_alphanumeric() || *next == '_';
        let mut name = String::new();
        match self.peek() {
            Some('?') => {
                self.at += 1;
                name.push('?');
            }
            Some('{') => {
                self.at += 1;
                while let Some(next) = self.peek().filter(is_part) {
                    self.at += 1;
                    name.push(next);
                }
                if self.next() != Some('}') || name.is_empty() {
                    return Err(Unknown("this use of \"${\"".to_owned()));
                }
            }
            Some('(') => return Err(Unknown("\"$(\"".to_owned())),
            _ => {
                while let Some(next) = self.peek().filter(is_part) {
                    self.at += 1;
                    name.push(next);
                }
            }
        }
        if name.is_empty() {
            text.push('$');
            return Ok(());
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(text)));
        }
        pieces.push(Piece::Variable(name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands behind what joins them, their words in brackets.
    fn read(line: &str) -> String {
        let variables = [("A", "x y"), ("?", "3")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        match parse(line) {
            Ok(commands) => commands
                .iter()
                .map(|command| {
                    let sign = match command.after {
                        After::Always => ";",
                        After::Success => "&&",
                        After::Failure => "||",
                    };
                    format!("{sign}[{}]", command.words(&variables).join("]["))
                })
                .collect(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn lines_are_split_as_a_shell_splits_them() {
        let more = |what: &str| format!("syntax error: {what} is more than this simulated shell knows");
        for (line, expected) in [
            ("echo a  b", ";[echo][a][b]".to_owned()),
            ("echo 'a  $A' \"$A\"z ${A}", ";[echo][a  $A][x yz][x y]".to_owned()),
            ("a; b && c || d", ";[a];[b]&&[c]||[d]".to_owned()),
            ("a\nb # c", ";[a];[b]".to_owned()),
            ("echo $? $ $NONE ''", ";[echo][3][$][]".to_owned()),
            ("echo \\$A \"\\$A \\n\"", ";[echo][$A][$A \\n]".to_owned()),
            ("  ", String::new()),
            ("a | b", more("'|'")),
            ("a > b", more("'>'")),
            ("a &", more("'&'")),
            ("echo $(date)", more("\"$(\"")),
            ("while true; do x; done", more("\"while\"")),
            ("echo 'a", more("an open quote")),
            ("echo ${A:-b}", more("this use of \"${\"")),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
