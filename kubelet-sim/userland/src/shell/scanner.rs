//! The characters of a script, and the place up to which they are read.

use super::syntax::{SyntaxError, Word};
use std::sync::{Arc, OnceLock};

/// Levels to which commands and words may be nested.
const MAX_DEPTH: u32 = 60;

/// A here-document whose text has not been read yet.
pub struct OpenDocument {
    pub delimiter: String,
    pub strips_tabs: bool,
    pub is_quoted: bool,
    pub text: Arc<OnceLock<Word>>,
}

/// Reads the characters of a script.
pub struct Parser {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    depth: u32,
    pub(super) documents: Vec<OpenDocument>,
}

impl Parser {
    pub(super) fn new(text: &str, depth: u32) -> Self {
        Self { chars: text.chars().collect(), at: 0, depth, documents: Vec::new() }
    }

    /// Returns a parser for a text inside of this one.
    pub(super) fn inner(&self, text: &str) -> Result<Self, SyntaxError> {
        match self.depth < MAX_DEPTH {
            true => Ok(Self::new(text, self.depth + 1)),
            false => Err(SyntaxError::Unsupported("such deep nesting".to_owned())),
        }
    }

    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.depth >= MAX_DEPTH {
            return Err(SyntaxError::Unsupported("such deep nesting".to_owned()));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.ahead(0)
    }

    pub(super) fn ahead(&self, by: usize) -> Option<char> {
        self.chars.get(self.at + by).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    pub(super) fn rest(&self) -> &[char] {
        &self.chars[self.at..]
    }
}
