//! Expands words: parameters, command substitutions, arithmetic, tildes.
//!
//! Corresponds to POSIX.1-2017, XCU chapter 2.6.

use super::arithmetic;
use super::fields::{self, Piece};
use super::state::{Boxed, Flow, Shell};
use super::syntax::{Condition, Operation, Parameter, Part, Word};
use crate::pattern::glob::Glob;

/// Bytes that one expansion may have.
const MAX_BYTES: usize = 4 << 20;

impl<'p> Shell<'p> {
    /// Expands words to fields.
    pub fn fields<'a>(&'a mut self, words: &'a [Word]) -> Boxed<'a, Vec<String>> {
        Box::pin(async move {
            let mut found = Vec::new();
            for word in words {
                let pieces = self.pieces(word, true).await?;
                let ifs = self.state.variables.get("IFS").unwrap_or(" \t\n");
                for field in fields::split(&pieces, ifs) {
                    match self.state.options.without_globs {
                        true => found.push(fields::text(&field)),
                        false => found.extend(fields::matches(&field, self.proc.tree(), &self.proc.actor())),
                    }
                }
            }
            Ok(found)
        })
    }

    /// Expands a word to one text, without splitting.
    pub fn text<'a>(&'a mut self, word: &'a Word) -> Boxed<'a, String> {
        Box::pin(async move {
            let pieces = self.pieces(word, false).await?;
            let text = |piece: Piece| match piece {
                Piece::Text { text, .. } => text,
                Piece::Break => " ".to_owned(),
            };
            Ok(pieces.into_iter().map(text).collect())
        })
    }

    /// Expands a word to a glob, whose quoted characters mean themselves.
    pub async fn glob(&mut self, word: &Word) -> Result<Glob, Flow> {
        let mut chars = Vec::new();
        for piece in self.pieces(word, false).await? {
            if let Piece::Text { text, is_quoted, .. } = piece {
                // Outside of quotes a backslash in a value quotes the next character.
                let mut escaped = false;
                for next in text.chars() {
                    if next == '\\' && !is_quoted && !escaped {
                        escaped = true;
                        continue;
                    }
                    chars.push((next, is_quoted || escaped));
                    escaped = false;
                }
            }
        }
        Ok(Glob::of(&chars))
    }

    /// Expands a word to pieces; `splits` tells whether unquoted values are to be split.
    fn pieces<'a>(&'a mut self, word: &'a Word, splits: bool) -> Boxed<'a, Vec<Piece>> {
        Box::pin(async move {
            let mut pieces = Vec::new();
            for (number, part) in word.0.iter().enumerate() {
                match part {
                    Part::Text(text) => {
                        let text = if number == 0 { self.tilde(text) } else { text.clone() };
                        pieces.push(Piece::Text { text, is_quoted: false, is_split: false });
                    }
                    Part::Quoted(text) => {
                        pieces.push(Piece::Text { text: text.clone(), is_quoted: true, is_split: false });
                    }
                    Part::Parameter { parameter, is_quoted } => {
                        pieces.extend(self.parameter_pieces(parameter, *is_quoted, splits).await?);
                    }
                    Part::Command { list, is_quoted } => {
                        let text = self.substitute(list.clone()).await?;
                        pieces.push(Piece::Text { text, is_quoted: *is_quoted, is_split: splits && !is_quoted });
                    }
                    Part::Arithmetic { expression, is_quoted } => {
                        let text = self.text(expression).await?;
                        let value = match arithmetic::evaluate(&text, &mut self.state.variables) {
                            Ok(value) => value.to_string(),
                            Err(message) => return self.give_up(&message).await,
                        };
                        pieces.push(Piece::Text { text: value, is_quoted: *is_quoted, is_split: splits && !is_quoted });
                    }
                }
            }
            Ok(pieces)
        })
    }

    fn tilde(&self, text: &str) -> String {
        let home = || self.state.variables.get("HOME").unwrap_or("~").to_owned();
        match text.strip_prefix('~') {
            Some("") => home(),
            Some(rest) if rest.starts_with('/') => home() + rest,
            _ => text.to_owned(),
        }
    }

    async fn parameter_pieces(
        &mut self,
        parameter: &Parameter,
        is_quoted: bool,
        splits: bool,
    ) -> Result<Vec<Piece>, Flow> {
        let Parameter { name, operation } = parameter;
        let piece = |text: String| Piece::Text { text, is_quoted, is_split: splits && !is_quoted };
        let value = self.parameter(name);
        if let Operation::Conditional { condition, with_colon, word } = operation {
            let is_set = value.as_ref().is_some_and(|value| !*with_colon || !value.is_empty());
            return match (condition, is_set) {
                (Condition::Alternative, false) => Ok(if is_quoted { vec![piece(String::new())] } else { Vec::new() }),
                (Condition::Alternative, true) | (Condition::Default, false) => {
                    let mut pieces = self.pieces(word, splits).await?;
                    for inner in &mut pieces {
                        if let Piece::Text { is_quoted: inner, is_split, .. } = inner {
                            *inner |= is_quoted;
                            *is_split = splits && !*inner;
                        }
                    }
                    if is_quoted && pieces.is_empty() {
                        pieces.push(piece(String::new()));
                    }
                    Ok(pieces)
                }
                (Condition::Assign, false) => {
                    let text = self.text(word).await?;
                    self.assign(name, text.clone()).await?;
                    Ok(vec![piece(text)])
                }
                (Condition::Error, false) => {
                    let text = self.text(word).await?;
                    let default = if *with_colon { "parameter null or not set" } else { "parameter not set" };
                    let text = if text.is_empty() { default.to_owned() } else { text };
                    self.give_up(&format!("{name}: {text}")).await
                }
                (_, true) => Ok(self.value_pieces(name, value, is_quoted, splits)),
            };
        }
        if value.is_none() && self.state.options.refuses_unset && !matches!(name.as_str(), "@" | "*" | "!") {
            return self.give_up(&format!("{name}: parameter not set")).await;
        }
        let text = match operation {
            Operation::Value | Operation::Conditional { .. } => {
                return Ok(self.value_pieces(name, value, is_quoted, splits));
            }
            Operation::Length if matches!(name.as_str(), "@" | "*") => self.state.positional.len().to_string(),
            Operation::Length => value.unwrap_or_default().chars().count().to_string(),
            Operation::Remove { is_suffix, is_longest, glob } => {
                let glob = self.glob(glob).await?;
                remove(&value.unwrap_or_default(), &glob, *is_suffix, *is_longest)
            }
            Operation::Replace { replaces_all, glob, text } => {
                let (glob, text) = (self.glob(glob).await?, self.text(text).await?);
                replace(&value.unwrap_or_default(), &glob, &text, *replaces_all)
            }
            Operation::Slice { offset, length } => {
                let offset = self.number(offset).await?;
                let length = match length {
                    Some(length) => Some(self.number(length).await?),
                    None => None,
                };
                slice(&value.unwrap_or_default(), offset, length)
            }
        };
        Ok(vec![piece(text)])
    }

    async fn number(&mut self, word: &Word) -> Result<i64, Flow> {
        let text = self.text(word).await?;
        match arithmetic::evaluate(&text, &mut self.state.variables) {
            Ok(value) => Ok(value),
            Err(message) => self.give_up(&message).await,
        }
    }

    /// Returns the pieces of a plain value. `"$@"` has a field for each positional parameter.
    fn value_pieces(&self, name: &str, value: Option<String>, is_quoted: bool, splits: bool) -> Vec<Piece> {
        let piece = |text: String| Piece::Text { text, is_quoted, is_split: splits && !is_quoted };
        let positional = &self.state.positional;
        match name {
            "*" if is_quoted || !splits => {
                let ifs = self.state.variables.get("IFS").map_or(Some(' '), |ifs| ifs.chars().next());
                let joint = ifs.map(String::from).unwrap_or_default();
                vec![piece(positional.join(&joint))]
            }
            "@" | "*" => {
                let pieces = positional.iter().map(|text| piece(text.clone()));
                let mut joined = Vec::new();
                for (number, piece) in pieces.enumerate() {
                    if number > 0 {
                        joined.push(Piece::Break);
                    }
                    joined.push(piece);
                }
                joined
            }
            _ => vec![piece(value.unwrap_or_default())],
        }
    }
}

/// Removes a prefix or suffix that a glob matches.
fn remove(value: &str, glob: &Glob, is_suffix: bool, is_longest: bool) -> String {
    let chars: Vec<char> = value.chars().collect();
    let length = chars.len();
    let fits = |cut: usize| match is_suffix {
        true => glob.matches_chars(&chars[length - cut..]),
        false => glob.matches_chars(&chars[..cut]),
    };
    let found =
        if is_longest { (0..=length).rev().find(|cut| fits(*cut)) } else { (0..=length).find(|cut| fits(*cut)) };
    let cut = found.unwrap_or(0);
    if is_suffix { chars[..length - cut].iter().collect() } else { chars[cut..].iter().collect() }
}

/// Replaces the longest matches of a glob.
fn replace(value: &str, glob: &Glob, text: &str, replaces_all: bool) -> String {
    let chars: Vec<char> = value.chars().collect();
    let (mut out, mut at, mut is_done) = (String::new(), 0, false);
    while at < chars.len() {
        let found =
            if is_done { None } else { (at + 1..=chars.len()).rev().find(|to| glob.matches_chars(&chars[at..*to])) };
        match found {
            Some(to) if out.len() < MAX_BYTES => {
                out.push_str(text);
                at = to;
                is_done = !replaces_all;
            }
            _ => {
                out.push(chars[at]);
                at += 1;
            }
        }
    }
    out
}

/// Returns characters from an offset; negative numbers count from the end.
fn slice(value: &str, offset: i64, length: Option<i64>) -> String {
    let chars: Vec<char> = value.chars().collect();
    let count = i64::try_from(chars.len()).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { count.saturating_add(at) } else { at }.clamp(0, count);
    let start = if offset < -count { count } else { from_end(offset) };
    let end = match length {
        None => count,
        Some(length) if length < 0 => count.saturating_add(length).max(start),
        Some(length) => start.saturating_add(length).min(count),
    };
    let at = |number: i64| usize::try_from(number).unwrap_or(0);
    chars[at(start)..at(end)].iter().collect()
}
