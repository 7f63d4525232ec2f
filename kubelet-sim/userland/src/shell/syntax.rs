//! The language of the shell as a tree.
//!
//! Corresponds to the grammar of POSIX.1-2017, XCU chapter 2.10.

use std::sync::{Arc, OnceLock};

/// Commands in order. Parts of a script are shared with the subshells that run them.
pub type List = Arc<Vec<Item>>;

/// Pipelines that are joined by `&&` and `||`.
#[derive(Clone, Debug)]
pub struct Item {
    pub first: Pipeline,
    pub rest: Vec<(Connector, Pipeline)>,
    /// True before `&`.
    pub is_background: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connector {
    And,
    Or,
}

/// Commands that are joined by pipes.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// True behind `!`.
    pub is_negated: bool,
    pub commands: Vec<Arc<Command>>,
}

#[derive(Clone, Debug)]
pub struct Command {
    pub kind: CommandKind,
    pub redirections: Vec<Redirection>,
}

#[derive(Clone, Debug)]
pub enum CommandKind {
    Simple { assignments: Vec<(String, Word)>, words: Vec<Word> },
    Group(List),
    Subshell(List),
    If { branches: Vec<(List, List)>, otherwise: Option<List> },
    Loop { is_until: bool, condition: List, body: List },
    For { name: String, words: Option<Vec<Word>>, body: List },
    Case { word: Word, arms: Vec<(Vec<Word>, List)> },
    Function { name: String, body: Arc<Command> },
}

#[derive(Clone, Debug)]
pub struct Redirection {
    pub descriptor: u8,
    pub target: Target,
}

#[derive(Clone, Debug)]
pub enum Target {
    /// `<`
    Read(Word),
    /// `>`
    Create(Word),
    /// `>>`
    Append(Word),
    /// `<>`
    Update(Word),
    /// `>&2`, `<&3`, `>&-`
    Copy(Word),
    /// `<<`: the text is known once the lines behind the command are read.
    Document(Arc<OnceLock<Word>>),
}

/// A word: its parts are joined and then split into fields.
#[derive(Clone, Debug, Default)]
pub struct Word(pub Vec<Part>);

#[derive(Clone, Debug)]
pub enum Part {
    Text(String),
    Quoted(String),
    Parameter { parameter: Box<Parameter>, is_quoted: bool },
    Command { list: List, is_quoted: bool },
    Arithmetic { expression: Word, is_quoted: bool },
}

/// `$NAME` and `${NAME…}`.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub operation: Operation,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Value,
    /// `${#NAME}`
    Length,
    /// `${NAME:-word}` and its like. With a colon, an empty value counts as unset.
    Conditional {
        condition: Condition,
        with_colon: bool,
        word: Word,
    },
    /// `${NAME#glob}`, `${NAME%glob}`
    Remove {
        is_suffix: bool,
        is_longest: bool,
        glob: Word,
    },
    /// `${NAME/glob/text}`
    Replace {
        replaces_all: bool,
        glob: Word,
        text: Word,
    },
    /// `${NAME:offset:length}`
    Slice {
        offset: Word,
        length: Option<Word>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Default,
    Assign,
    Error,
    Alternative,
}

/// The reason why a script cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SyntaxError {
    /// The script ends too early: more input may complete it.
    #[error("syntax error: {0}")]
    Incomplete(String),
    #[error("syntax error: {0}")]
    Wrong(String),
    #[error("syntax error: {0} is more than this simulated shell knows")]
    Unsupported(String),
}

/// True for the name of a variable.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
