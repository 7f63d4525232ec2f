//! Reads words: quotes, parameters, substitutions.

use super::scanner::Parser;
use super::syntax::{Condition, Operation, Parameter, Part, SyntaxError, Word, is_name};
use std::sync::Arc;

/// The characters that end a word.
const ENDS: &str = " \t\n;&|<>()";

/// Where a word ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At a blank or an operator.
    Blank,
    /// At `}`, as in `${A:-word}`; `/` and `:` end parts of some operations.
    Brace,
    BraceOr(char),
    /// At the end of the text: a here-document.
    Text,
}

fn unterminated(what: &str) -> SyntaxError {
    SyntaxError::Incomplete(format!("unterminated {what}"))
}

/// Adds text to the last part when it is of the same kind.
fn push_text(parts: &mut Vec<Part>, text: &str, is_quoted: bool) {
    match (parts.last_mut(), is_quoted) {
        (Some(Part::Text(last)), false) | (Some(Part::Quoted(last)), true) => last.push_str(text),
        (_, true) => parts.push(Part::Quoted(text.to_owned())),
        (_, false) => parts.push(Part::Text(text.to_owned())),
    }
}

impl Parser {
    /// Reads a word. `in_quotes` is true inside of double quotes, where single quotes mean themselves.
    pub(super) fn word(&mut self, end: End, in_quotes: bool) -> Result<Word, SyntaxError> {
        self.nested(|parser| parser.word_parts(end, in_quotes))
    }

    fn word_parts(&mut self, end: End, in_quotes: bool) -> Result<Word, SyntaxError> {
        let mut parts = Vec::new();
        while let Some(next) = self.peek() {
            let is_end = match end {
                End::Blank => ENDS.contains(next),
                End::Brace => next == '}',
                End::BraceOr(other) => next == '}' || next == other,
                End::Text => false,
            };
            if is_end {
                break;
            }
            self.at += 1;
            match next {
                '\'' if !in_quotes => {
                    let text = self.until('\'').ok_or_else(|| unterminated("quoted string"))?;
                    parts.push(Part::Quoted(text));
                }
                '"' if end != End::Text => {
                    if in_quotes {
                        // `"${A:-"b"}"`: the inner quotes only group.
                        continue;
                    }
                    let before = parts.len();
                    self.double_quoted(&mut parts)?;
                    if parts.len() == before {
                        parts.push(Part::Quoted(String::new()));
                    }
                }
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(escaped) if in_quotes && !matches!(escaped, '$' | '`' | '\\' | '"' | '}') => {
                        push_text(&mut parts, &format!("\\{escaped}"), true);
                    }
                    Some(escaped) => push_text(&mut parts, &escaped.to_string(), true),
                    None => push_text(&mut parts, "\\", true),
                },
                '$' => self.dollar(&mut parts, in_quotes)?,
                '`' => self.backquoted(&mut parts, in_quotes)?,
                other => push_text(&mut parts, &other.to_string(), in_quotes),
            }
        }
        Ok(Word(parts))
    }

    fn double_quoted(&mut self, parts: &mut Vec<Part>) -> Result<(), SyntaxError> {
        loop {
            match self.next().ok_or_else(|| unterminated("quoted string"))? {
                '"' => return Ok(()),
                '\\' => match self.next().ok_or_else(|| unterminated("quoted string"))? {
                    '\n' => {}
                    escaped @ ('"' | '\\' | '$' | '`') => push_text(parts, &escaped.to_string(), true),
                    other => push_text(parts, &format!("\\{other}"), true),
                },
                '$' => self.dollar(parts, true)?,
                '`' => self.backquoted(parts, true)?,
                other => push_text(parts, &other.to_string(), true),
            }
        }
    }

    /// Reads what follows a `$`.
    fn dollar(&mut self, parts: &mut Vec<Part>, is_quoted: bool) -> Result<(), SyntaxError> {
        let Some(next) = self.peek() else {
            push_text(parts, "$", is_quoted);
            return Ok(());
        };
        let simple = |name: String| Part::Parameter {
            parameter: Box::new(Parameter { name, operation: Operation::Value }),
            is_quoted,
        };
        match next {
            '(' if self.ahead(1) == Some('(') => {
                self.at += 2;
                let expression = self.arithmetic_text()?;
                parts.push(Part::Arithmetic { expression, is_quoted });
            }
            '(' => {
                self.at += 1;
                let list = self.nested(|parser| parser.list(&[]))?;
                self.expect(')')?;
                parts.push(Part::Command { list, is_quoted });
            }
            '{' => {
                self.at += 1;
                let parameter = Box::new(self.nested(|parser| parser.braced(is_quoted))?);
                parts.push(Part::Parameter { parameter, is_quoted });
            }
            '\'' if !is_quoted => return Err(SyntaxError::Unsupported("\"$'\"".to_owned())),
            '@' | '*' | '#' | '?' | '-' | '$' | '!' | '0'..='9' => {
                self.at += 1;
                parts.push(simple(next.to_string()));
            }
            next if next.is_ascii_alphabetic() || next == '_' => parts.push(simple(self.name())),
            _ => push_text(parts, "$", is_quoted),
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(next) = self.peek().filter(|next| next.is_ascii_alphanumeric() || *next == '_') {
            self.at += 1;
            name.push(next);
        }
        name
    }

    /// Reads `${…}` from behind its brace.
    fn braced(&mut self, is_quoted: bool) -> Result<Parameter, SyntaxError> {
        let has_length = self.peek() == Some('#') && !matches!(self.ahead(1), Some('}') | None);
        if has_length {
            self.at += 1;
        }
        let name = match self.peek() {
            Some(special @ ('@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                self.at += 1;
                special.to_string()
            }
            _ => self.name(),
        };
        let is_known = is_name(&name) || name.chars().all(|c| c.is_ascii_digit()) || name.len() == 1;
        if name.is_empty() || !is_known {
            return Err(match self.peek() {
                None => unterminated("\"${\""),
                _ => SyntaxError::Wrong("bad substitution".to_owned()),
            });
        }
        let operation = match has_length {
            true => Operation::Length,
            false => self.operation(is_quoted)?,
        };
        match self.next() {
            Some('}') => Ok(Parameter { name, operation }),
            None => Err(unterminated("\"${\"")),
            Some(_) => Err(SyntaxError::Wrong("bad substitution".to_owned())),
        }
    }

    fn operation(&mut self, is_quoted: bool) -> Result<Operation, SyntaxError> {
        let condition = |next| match next {
            Some('-') => Some(Condition::Default),
            Some('=') => Some(Condition::Assign),
            Some('?') => Some(Condition::Error),
            Some('+') => Some(Condition::Alternative),
            _ => None,
        };
        let with_colon = self.peek() == Some(':');
        if let Some(condition) = condition(if with_colon { self.ahead(1) } else { self.peek() }) {
            self.at += 1 + usize::from(with_colon);
            let word = self.word(End::Brace, is_quoted)?;
            return Ok(Operation::Conditional { condition, with_colon, word });
        }
        match self.peek() {
            Some(':') => {
                self.at += 1;
                let offset = self.word(End::BraceOr(':'), is_quoted)?;
                let has_length = self.peek() == Some(':');
                self.at += usize::from(has_length);
                let length = if has_length { Some(self.word(End::Brace, is_quoted)?) } else { None };
                Ok(Operation::Slice { offset, length })
            }
            Some(sign @ ('#' | '%')) => {
                self.at += 1;
                let is_longest = self.peek() == Some(sign);
                self.at += usize::from(is_longest);
                Ok(Operation::Remove { is_suffix: sign == '%', is_longest, glob: self.word(End::Brace, false)? })
            }
            Some('/') => {
                self.at += 1;
                let replaces_all = self.peek() == Some('/');
                self.at += usize::from(replaces_all);
                let glob = self.word(End::BraceOr('/'), false)?;
                let has_text = self.peek() == Some('/');
                self.at += usize::from(has_text);
                let text = if has_text { self.word(End::Brace, is_quoted)? } else { Word::default() };
                Ok(Operation::Replace { replaces_all, glob, text })
            }
            _ => Ok(Operation::Value),
        }
    }

    /// Reads an arithmetic expression up to its `))`.
    fn arithmetic_text(&mut self) -> Result<Word, SyntaxError> {
        let (mut text, mut open) = (String::new(), 0_u32);
        loop {
            match self.next().ok_or_else(|| unterminated("\"$((\""))? {
                ')' if open == 0 && self.peek() == Some(')') => {
                    self.at += 1;
                    break;
                }
                ')' if open == 0 => return Err(SyntaxError::Wrong("missing '))'".to_owned())),
                next => {
                    open = match next {
                        '(' => open + 1,
                        ')' => open - 1,
                        _ => open,
                    };
                    text.push(next);
                }
            }
        }
        self.inner(&text)?.word(End::Text, false)
    }

    fn backquoted(&mut self, parts: &mut Vec<Part>, is_quoted: bool) -> Result<(), SyntaxError> {
        let mut text = String::new();
        loop {
            match self.next().ok_or_else(|| unterminated("\"`\""))? {
                '`' => break,
                '\\' => match self.next() {
                    Some(escaped @ ('`' | '\\' | '$')) => text.push(escaped),
                    Some('"') if is_quoted => text.push('"'),
                    Some(other) => text.extend(['\\', other]),
                    None => return Err(unterminated("\"`\"")),
                },
                other => text.push(other),
            }
        }
        let list = self.inner(&text)?.script()?;
        parts.push(Part::Command { list: Arc::clone(&list), is_quoted });
        Ok(())
    }

    /// Returns the text up to a character, which is skipped.
    fn until(&mut self, end: char) -> Option<String> {
        let length = self.rest().iter().position(|next| *next == end)?;
        let text = self.rest()[..length].iter().collect();
        self.at += length + 1;
        Some(text)
    }
}
