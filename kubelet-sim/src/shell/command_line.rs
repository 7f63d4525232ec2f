//! The parser of command lines: quotes, variables, separators, pipes and redirections.
//!
//! It reads a small part of the language of a POSIX shell. It refuses the rest by name and never misreads it.

use std::collections::BTreeMap;

/// When a pipeline runs, as the separator before it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunIf {
    /// After `;`, after a new line, or at the beginning.
    Always,
    /// After `&&`.
    Success,
    /// After `||`.
    Failure,
}

/// Commands joined by pipes: each one reads what the one before it prints.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    pub run_if: RunIf,
    pub commands: Vec<Command>,
}

/// A command as it was written. The values of its variables are filled in when it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    words: Vec<Word>,
    pub redirections: Vec<Redirection>,
}

/// `2>&1`, `>/dev/null`, `<file`.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirection {
    /// The file descriptor that is redirected: 0, 1 or 2.
    pub descriptor: u8,
    pub target: RedirectTarget,
}

/// The target of a redirection.
#[derive(Clone, Debug, PartialEq)]
pub enum RedirectTarget {
    /// The place to which this descriptor leads at that moment.
    Number(u8),
    File(Word),
}

/// A word of a command: pieces of text and variables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Word(Vec<Piece>);

impl Word {
    pub fn text(&self, variables: &BTreeMap<String, String>) -> String {
        self.0.iter().map(|piece| piece.text(variables)).collect()
    }
}

impl Piece {
    fn text(&self, variables: &BTreeMap<String, String>) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Variable(name) => variables.get(name).cloned().unwrap_or_default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// Something in a command line that this shell does not support.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("syntax error: {0} is more than this simulated shell knows")]
pub struct Unsupported(String);

const KEYWORDS: [&str; 10] = ["if", "for", "while", "until", "case", "function", "{", "do", "then", "!"];

impl Command {
    /// Returns the words, with the values of the variables filled in.
    pub fn words(&self, variables: &BTreeMap<String, String>) -> Vec<String> {
        self.words
            .iter()
            .map(|word| (word, word.text(variables)))
            // A word that consists only of empty variables is dropped.
            .filter(|(Word(pieces), text)| {
                !text.is_empty() || pieces.iter().any(|piece| matches!(piece, Piece::Text(_)))
            })
            .map(|(_, text)| text)
            .collect()
    }

    /// True when the command reads no file and writes none.
    pub fn uses_no_files(&self) -> bool {
        self.redirections.iter().all(|redirection| matches!(redirection.target, RedirectTarget::Number(_)))
    }

    /// Returns the first word; `None` when it contains a variable, so that only a run decides it.
    pub fn name(&self) -> Option<&str> {
        match self.words.first()?.0.as_slice() {
            [Piece::Text(name)] => Some(name),
            _ => None,
        }
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.redirections.is_empty()
    }
}

/// Parses a command line.
pub fn parse(line: &str) -> Result<Vec<Pipeline>, Unsupported> {
    let mut lexer = Lexer { rest: line.chars().collect(), at: 0 };
    let mut lines = Vec::new();
    let (mut commands, mut command, mut run_if) = (Vec::new(), Command::default(), RunIf::Always);
    while let Some(next) = lexer.peek() {
        let second = lexer.rest.get(lexer.at + 1);
        let joined = match (next, second) {
            ('&', Some('&')) => Some((2, RunIf::Success)),
            ('|', Some('|')) => Some((2, RunIf::Failure)),
            (';' | '\n', _) => Some((1, RunIf::Always)),
            ('&' | '(' | ')' | '`', _) => return Err(Unsupported(format!("{next:?}"))),
            _ => None,
        };
        match (joined, next) {
            (Some((length, next)), _) => {
                finish(&mut lines, &mut commands, &mut command, run_if)?;
                run_if = next;
                lexer.at += length;
            }
            (None, '|') if command.is_empty() => return Err(Unsupported("a pipe without a command".to_owned())),
            (None, '|') => {
                commands.push(std::mem::take(&mut command));
                lexer.at += 1;
            }
            (None, '<' | '>') => command.redirections.push(lexer.redirection(None)?),
            (None, '0'..='2') if matches!(second, Some('<' | '>')) => {
                lexer.at += 1;
                command.redirections.push(lexer.redirection(Some(next as u8 - b'0'))?);
            }
            (None, next) if next.is_whitespace() => lexer.at += 1,
            (None, '#') => lexer.skip_line(),
            (None, _) => {
                let word = lexer.word()?;
                match word.0.as_slice() {
                    [Piece::Text(text)] if command.words.is_empty() && KEYWORDS.contains(&text.as_str()) => {
                        return Err(Unsupported(format!("{text:?}")));
                    }
                    _ => command.words.push(word),
                }
            }
        }
    }
    finish(&mut lines, &mut commands, &mut command, run_if)?;
    Ok(lines)
}

/// Ends the pipeline that is being read, if there is one.
fn finish(
    lines: &mut Vec<Pipeline>,
    commands: &mut Vec<Command>,
    command: &mut Command,
    run_if: RunIf,
) -> Result<(), Unsupported> {
    match (command.is_empty(), commands.is_empty()) {
        (true, true) => return Ok(()),
        (true, false) => return Err(Unsupported("a pipe without a command".to_owned())),
        (false, _) => commands.push(std::mem::take(command)),
    }
    lines.push(Pipeline { run_if, commands: std::mem::take(commands) });
    Ok(())
}

/// Reads the characters of a line.
struct Lexer {
    rest: Vec<char>,
    at: usize,
}

impl Lexer {
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

    /// Reads a redirection from its `<` or `>` on; `given` is the descriptor that stood before the sign.
    fn redirection(&mut self, given: Option<u8>) -> Result<Redirection, Unsupported> {
        let sign = self.next();
        let descriptor = given.unwrap_or(u8::from(sign == Some('>')));
        match (sign, self.peek()) {
            (Some('<'), Some('<' | '&' | '>')) => return Err(Unsupported("this use of '<'".to_owned())),
            (Some('>'), Some('>')) => self.at += 1,
            (Some('>'), Some('&')) => {
                self.at += 1;
                return match self.next() {
                    Some(number @ '1'..='2') => {
                        Ok(Redirection { descriptor, target: RedirectTarget::Number(number as u8 - b'0') })
                    }
                    _ => Err(Unsupported("this use of \">&\"".to_owned())),
                };
            }
            _ => {}
        }
        while self.peek().is_some_and(|next| next == ' ' || next == '\t') {
            self.at += 1;
        }
        let word = self.word()?;
        if word.0.is_empty() {
            return Err(Unsupported("a redirection to nothing".to_owned()));
        }
        Ok(Redirection { descriptor, target: RedirectTarget::File(word) })
    }

    fn word(&mut self) -> Result<Word, Unsupported> {
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
                            None => return Err(Unsupported("an open quote".to_owned())),
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
        Ok(Word(pieces))
    }

    fn double_quoted(&mut self, pieces: &mut Vec<Piece>, text: &mut String) -> Result<(), Unsupported> {
        loop {
            match self.next() {
                Some('"') => return Ok(()),
                Some('\\') => match self.next() {
                    Some(escaped @ ('"' | '\\' | '$' | '`')) => text.push(escaped),
                    Some(other) => text.extend(['\\', other]),
                    None => return Err(Unsupported("an open quote".to_owned())),
                },
                Some('$') => self.variable(pieces, text)?,
                Some('`') => return Err(Unsupported("'`'".to_owned())),
                Some(other) => text.push(other),
                None => return Err(Unsupported("an open quote".to_owned())),
            }
        }
    }

    fn variable(&mut self, pieces: &mut Vec<Piece>, text: &mut String) -> Result<(), Unsupported> {
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
                    return Err(Unsupported("this use of \"${\"".to_owned()));
                }
            }
            Some('(') => return Err(Unsupported("\"$(\"".to_owned())),
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

    /// Shows each command behind its separator: its words in brackets, then its redirections.
    fn read(line: &str) -> String {
        let variables: BTreeMap<String, String> =
            [("A", "x y"), ("?", "3")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let command = |command: &Command| {
            let mut text = format!("[{}]", command.words(&variables).join("]["));
            for Redirection { descriptor, target } in &command.redirections {
                let sign = if *descriptor == 0 { '<' } else { '>' };
                text += &match target {
                    RedirectTarget::Number(number) => format!("{descriptor}{sign}&{number}"),
                    RedirectTarget::File(word) => format!("{descriptor}{sign}{}", word.text(&variables)),
                };
            }
            text
        };
        let pipeline = |pipeline: &Pipeline| {
            let sign = match pipeline.run_if {
                RunIf::Always => ";",
                RunIf::Success => "&&",
                RunIf::Failure => "||",
            };
            let commands: Vec<String> = pipeline.commands.iter().map(command).collect();
            format!("{sign}{}", commands.join("|"))
        };
        match parse(line) {
            Ok(lines) => lines.iter().map(pipeline).collect(),
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
            ("a | b c|d; e", ";[a]|[b][c]|[d];[e]".to_owned()),
            ("a >b 2>&1 | c 2> /dev/null", ";[a]1>b2>&1|[c]2>/dev/null".to_owned()),
            ("a 1>&2 2>>$A <f", ";[a]1>&22>x y0<f".to_owned()),
            ("echo 2 >x", ";[echo][2]1>x".to_owned()),
            ("a |", more("a pipe without a command")),
            ("a | | b", more("a pipe without a command")),
            ("| a", more("a pipe without a command")),
            ("a >", more("a redirection to nothing")),
            ("a >&x", more("this use of \">&\"")),
            ("a <<END", more("this use of '<'")),
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
