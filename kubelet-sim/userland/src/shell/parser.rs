//! Reads a script: lists, pipelines, compound commands, redirections.

use super::scanner::{OpenDocument, Parser};
use super::syntax::{
    Command, CommandKind, Connector, Item, List, Part, Pipeline, Redirection, SyntaxError, Target, Word, is_name,
};
use super::words::End;
use std::sync::{Arc, OnceLock};

/// Bytes of a script.
const MAX_BYTES: usize = 1 << 20;
/// Words that are commands only at the beginning.
const RESERVED: [&str; 16] =
    ["if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "{", "}", "!"];
/// Words of other shells.
const UNSUPPORTED: [&str; 4] = ["[[", "function", "select", "time"];

/// Reads a whole script.
pub fn parse(text: &str) -> Result<List, SyntaxError> {
    if text.len() > MAX_BYTES {
        return Err(SyntaxError::Unsupported("a script of this length".to_owned()));
    }
    Parser::new(text, 0).script()
}

impl Parser {
    pub(super) fn expect(&mut self, wanted: char) -> Result<(), SyntaxError> {
        self.blanks();
        match self.next() {
            Some(next) if next == wanted => Ok(()),
            None => Err(unexpected_end(&wanted.to_string())),
            Some(_) => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    /// Returns the error about the token that stands here.
    fn unexpected(&self) -> SyntaxError {
        match (self.peek(), self.operator()) {
            (None, _) => SyntaxError::Incomplete("unexpected end of file".to_owned()),
            (Some('\n'), _) => SyntaxError::Wrong("unexpected newline".to_owned()),
            (_, Some(operator)) => SyntaxError::Wrong(format!("unexpected \"{operator}\"")),
            _ => SyntaxError::Wrong(format!("unexpected \"{}\"", self.plain_word())),
        }
    }

    fn operator(&self) -> Option<&'static str> {
        const OPERATORS: [&str; 12] = ["&&", "||", ";;", "<<", ">>", ";", "&", "|", "(", ")", "<", ">"];
        OPERATORS.into_iter().find(|operator| operator.chars().enumerate().all(|(by, c)| self.ahead(by) == Some(c)))
    }

    /// Skips blanks, comments and continued lines.
    fn blanks(&mut self) {
        loop {
            match (self.peek(), self.ahead(1)) {
                (Some(' ' | '\t' | '\r'), _) => self.at += 1,
                (Some('\\'), Some('\n')) => self.at += 2,
                (Some('#'), _) => {
                    while self.peek().is_some_and(|next| next != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips a line break, and reads the here-documents that begin behind it.
    fn line_break(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        for document in std::mem::take(&mut self.documents) {
            let text = self.document(&document)?;
            let word = match document.is_quoted {
                true => Word(vec![Part::Quoted(text)]),
                false => self.inner(&text)?.word(End::Text, true)?,
            };
            let _ = document.text.set(word);
        }
        Ok(())
    }

    fn document(&mut self, document: &OpenDocument) -> Result<String, SyntaxError> {
        let mut text = String::new();
        while self.peek().is_some() {
            let length = self.rest().iter().position(|next| *next == '\n').unwrap_or(self.rest().len());
            let line: String = self.rest()[..length].iter().collect();
            self.at = (self.at + length + 1).min(self.chars.len());
            let line = if document.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if line == document.delimiter {
                return Ok(text);
            }
            text.push_str(line);
            text.push('\n');
        }
        Err(SyntaxError::Incomplete(format!("here-document without \"{}\"", document.delimiter)))
    }

    fn line_breaks(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.blanks();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.line_break()?;
        }
    }

    /// Returns the characters up to the next blank or operator.
    fn plain_word(&self) -> String {
        self.rest().iter().take_while(|next| !" \t\r\n;&|<>()".contains(**next)).collect()
    }

    /// Returns the reserved word that stands here.
    fn reserved(&mut self) -> Option<&'static str> {
        self.blanks();
        let word = self.plain_word();
        RESERVED.into_iter().find(|reserved| *reserved == word)
    }

    fn keyword(&mut self, wanted: &'static str) -> Result<(), SyntaxError> {
        self.line_breaks()?;
        if self.reserved() != Some(wanted) {
            return Err(if self.peek().is_none() { unexpected_end(wanted) } else { self.unexpected() });
        }
        self.at += wanted.len();
        Ok(())
    }

    /// Reads the whole script.
    pub(super) fn script(&mut self) -> Result<List, SyntaxError> {
        let list = self.list(&[])?;
        if self.peek().is_some() {
            return Err(self.unexpected());
        }
        match self.documents.first() {
            Some(open) => Err(SyntaxError::Incomplete(format!("here-document without \"{}\"", open.delimiter))),
            None => Ok(list),
        }
    }

    /// Reads commands up to one of the reserved words, `)`, `;;` or the end.
    pub(super) fn list(&mut self, ends: &[&str]) -> Result<List, SyntaxError> {
        let mut items = Vec::new();
        loop {
            self.line_breaks()?;
            let is_end = match self.peek() {
                None | Some(')') => true,
                Some(';') => self.ahead(1) == Some(';'),
                _ => self.reserved().is_some_and(|word| ends.contains(&word)),
            };
            if is_end {
                return Ok(Arc::new(items));
            }
            let mut item = self.item()?;
            self.blanks();
            match (self.peek(), self.ahead(1)) {
                (Some(';'), second) if second != Some(';') => self.at += 1,
                (Some('&'), _) => {
                    self.at += 1;
                    item.is_background = true;
                }
                (Some('\n' | ')' | ';') | None, _) => {}
                _ => return Err(self.unexpected()),
            }
            items.push(item);
        }
    }

    /// Reads a list that must not be empty, and the reserved word behind it.
    fn body(&mut self, end: &'static str) -> Result<List, SyntaxError> {
        let list = self.list(&[end])?;
        if list.is_empty() && self.peek().is_some() {
            return Err(self.unexpected());
        }
        self.keyword(end)?;
        Ok(list)
    }

    fn item(&mut self) -> Result<Item, SyntaxError> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.blanks();
            let connector = match (self.peek(), self.ahead(1)) {
                (Some('&'), Some('&')) => Connector::And,
                (Some('|'), Some('|')) => Connector::Or,
                _ => return Ok(Item { first, rest, is_background: false }),
            };
            self.at += 2;
            self.line_breaks()?;
            rest.push((connector, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline, SyntaxError> {
        let mut is_negated = false;
        while self.reserved() == Some("!") {
            self.at += 1;
            is_negated = !is_negated;
        }
        let mut commands = vec![Arc::new(self.command()?)];
        loop {
            self.blanks();
            if self.peek() != Some('|') || self.ahead(1) == Some('|') {
                return Ok(Pipeline { is_negated, commands });
            }
            self.at += 1;
            if self.peek() == Some('&') {
                return Err(SyntaxError::Unsupported("\"|&\"".to_owned()));
            }
            self.line_breaks()?;
            commands.push(Arc::new(self.command()?));
        }
    }

    fn command(&mut self) -> Result<Command, SyntaxError> {
        self.nested(Self::command_here)
    }

    fn command_here(&mut self) -> Result<Command, SyntaxError> {
        let word = self.reserved();
        let skip = word.map_or(1, str::len);
        let kind = match word {
            None if self.peek() == Some('(') && self.ahead(1) == Some('(') => {
                return Err(SyntaxError::Unsupported("\"((\"".to_owned()));
            }
            None if self.peek() == Some('(') => {
                self.at += skip;
                let list = self.list(&[])?;
                if list.is_empty() && self.peek().is_some() {
                    return Err(self.unexpected());
                }
                self.expect(')')?;
                CommandKind::Subshell(list)
            }
            Some("{") => {
                self.at += skip;
                CommandKind::Group(self.body("}")?)
            }
            Some("if") => self.conditional()?,
            Some(word @ ("while" | "until")) => {
                self.at += skip;
                let condition = self.body("do")?;
                CommandKind::Loop { is_until: word == "until", condition, body: self.body("done")? }
            }
            Some("for") => self.for_loop()?,
            Some("case") => self.case()?,
            Some(_) => return Err(self.unexpected()),
            None => return self.simple(),
        };
        let mut redirections = Vec::new();
        while let Some(redirection) = self.redirection()? {
            redirections.push(redirection);
        }
        Ok(Command { kind, redirections })
    }

    fn conditional(&mut self) -> Result<CommandKind, SyntaxError> {
        let (mut branches, mut otherwise) = (Vec::new(), None);
        self.keyword("if")?;
        loop {
            let condition = self.body("then")?;
            let body = self.list(&["elif", "else", "fi"])?;
            if body.is_empty() && self.peek().is_some() {
                return Err(self.unexpected());
            }
            branches.push((condition, body));
            match self.reserved() {
                Some("elif") => self.at += 4,
                Some("else") => {
                    self.at += 4;
                    otherwise = Some(self.body("fi")?);
                    break;
                }
                _ => {
                    self.keyword("fi")?;
                    break;
                }
            }
        }
        Ok(CommandKind::If { branches, otherwise })
    }

    fn for_loop(&mut self) -> Result<CommandKind, SyntaxError> {
        self.keyword("for")?;
        self.blanks();
        if self.peek() == Some('(') {
            return Err(SyntaxError::Unsupported("\"for ((\"".to_owned()));
        }
        let name = self.plain_word();
        if !is_name(&name) {
            return Err(self.unexpected());
        }
        self.at += name.len();
        self.line_breaks()?;
        let mut words = None;
        if self.reserved() == Some("in") {
            self.at += 2;
            let found = words.insert(Vec::new());
            self.blanks();
            while self.peek().is_some_and(|next| !";\n&|<>()".contains(next)) {
                found.push(self.word(End::Blank, false)?);
                self.blanks();
            }
        }
        self.blanks();
        if self.peek() == Some(';') {
            self.at += 1;
        }
        self.keyword("do")?;
        Ok(CommandKind::For { name, words, body: self.body("done")? })
    }

    fn case(&mut self) -> Result<CommandKind, SyntaxError> {
        self.keyword("case")?;
        self.blanks();
        let word = self.word(End::Blank, false)?;
        self.keyword("in")?;
        let mut arms = Vec::new();
        loop {
            self.line_breaks()?;
            if self.reserved() == Some("esac") {
                self.at += 4;
                return Ok(CommandKind::Case { word, arms });
            }
            if self.peek() == Some('(') {
                self.at += 1;
            }
            let mut globs = Vec::new();
            loop {
                self.blanks();
                let glob = self.word(End::Blank, false)?;
                if glob.0.is_empty() {
                    return Err(if self.peek().is_none() { unexpected_end("esac") } else { self.unexpected() });
                }
                globs.push(glob);
                self.blanks();
                if self.peek() != Some('|') {
                    break;
                }
                self.at += 1;
            }
            self.expect(')')?;
            let body = self.list(&["esac"])?;
            arms.push((globs, body));
            match (self.peek(), self.ahead(1)) {
                (Some(';'), Some(';')) => self.at += 2,
                (None, _) => return Err(unexpected_end("esac")),
                _ if self.reserved() == Some("esac") => {}
                _ => return Err(self.unexpected()),
            }
        }
    }

    /// Reads a simple command, or the definition of a function.
    fn simple(&mut self) -> Result<Command, SyntaxError> {
        let plain = self.plain_word();
        if UNSUPPORTED.contains(&plain.as_str()) {
            return Err(SyntaxError::Unsupported(format!("\"{plain}\"")));
        }
        let (mut assignments, mut words, mut redirections) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.blanks();
            if let Some(redirection) = self.redirection()? {
                redirections.push(redirection);
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => {
                    let is_definition = words.len() == 1 && assignments.is_empty() && is_function_name(&plain);
                    if !is_definition {
                        return Err(self.unexpected());
                    }
                    self.at += 1;
                    self.expect(')')?;
                    self.line_breaks()?;
                    let body = Arc::new(self.command()?);
                    return Ok(Command { kind: CommandKind::Function { name: plain, body }, redirections });
                }
                Some(_) => {}
            }
            let start = self.plain_word();
            let name = start.split_once('=').map(|(name, _)| name).filter(|name| words.is_empty() && is_name(name));
            match name {
                Some(name) => {
                    self.at += name.len() + 1;
                    if self.peek() == Some('(') {
                        return Err(SyntaxError::Unsupported("an array".to_owned()));
                    }
                    assignments.push((name.to_owned(), self.word(End::Blank, false)?));
                }
                None => words.push(self.word(End::Blank, false)?),
            }
        }
        if assignments.is_empty() && words.is_empty() && redirections.is_empty() {
            return Err(self.unexpected());
        }
        Ok(Command { kind: CommandKind::Simple { assignments, words }, redirections })
    }

    /// Reads a redirection; `None` when there is none here.
    fn redirection(&mut self) -> Result<Option<Redirection>, SyntaxError> {
        self.blanks();
        let digits = self.rest().iter().take_while(|next| next.is_ascii_digit()).count();
        let Some(sign) = self.ahead(digits).filter(|next| matches!(next, '<' | '>')) else { return Ok(None) };
        let number: String = self.rest()[..digits].iter().collect();
        let number = match digits {
            0 => None,
            _ => Some(number.parse().map_err(|_| SyntaxError::Wrong(format!("bad fd number {number}")))?),
        };
        self.at += digits + 1;
        let (second, third) = (self.peek(), self.ahead(1));
        let (length, make): (_, fn(Word) -> Target) = match (sign, second, third) {
            ('<', Some('<'), Some('<')) => return Err(SyntaxError::Unsupported("\"<<<\"".to_owned())),
            ('<', Some('<'), third) => {
                self.at += 1 + usize::from(third == Some('-'));
                let text = self.open_document(third == Some('-'))?;
                let descriptor = number.unwrap_or(0);
                return Ok(Some(Redirection { descriptor, target: Target::Document(text) }));
            }
            (_, Some('('), _) => return Err(SyntaxError::Unsupported(format!("\"{sign}(\""))),
            (_, Some('&'), _) => (1, Target::Copy),
            ('<', Some('>'), _) => (1, Target::Update),
            ('<', ..) => (0, Target::Read),
            (_, Some('>'), _) => (1, Target::Append),
            (_, Some('|'), _) => (1, Target::Create),
            _ => (0, Target::Create),
        };
        self.at += length;
        self.blanks();
        let word = self.word(End::Blank, false)?;
        if word.0.is_empty() {
            return Err(self.unexpected());
        }
        let descriptor = number.unwrap_or(u8::from(sign == '>'));
        Ok(Some(Redirection { descriptor, target: make(word) }))
    }

    fn open_document(&mut self, strips_tabs: bool) -> Result<Arc<OnceLock<Word>>, SyntaxError> {
        self.blanks();
        let Word(parts) = self.word(End::Blank, false)?;
        let (mut delimiter, mut is_quoted) = (String::new(), false);
        for part in parts {
            match part {
                Part::Text(text) => delimiter.push_str(&text),
                Part::Quoted(text) => {
                    is_quoted = true;
                    delimiter.push_str(&text);
                }
                _ => return Err(SyntaxError::Unsupported("this delimiter of a here-document".to_owned())),
            }
        }
        if delimiter.is_empty() && !is_quoted {
            return Err(self.unexpected());
        }
        let text = Arc::new(OnceLock::new());
        self.documents.push(OpenDocument { delimiter, strips_tabs, is_quoted, text: text.clone() });
        Ok(text)
    }
}

fn unexpected_end(expected: &str) -> SyntaxError {
    SyntaxError::Incomplete(format!("unexpected end of file (expecting \"{expected}\")"))
}

fn is_function_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c))
}
