//! `SyntaxError`: an error with its place in the expression.

/// An error and the index of its character.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntaxError {
    pub at: usize,
    pub message: String,
}

impl SyntaxError {
    /// Formats the error as `ERROR: <input>:1:6: why`, with the line and a mark below the place.
    pub fn shown(&self, text: &str) -> String {
        let before: String = text.chars().take(self.at).collect();
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
        let snippet = text.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
        let is_wide = |c: char| c.len_utf8() > 1;
        let dots: String = snippet.chars().take(column).map(|c| if is_wide(c) { '．' } else { '.' }).collect();
        let mark = if snippet.chars().nth(column).is_some_and(is_wide) { '＾' } else { '^' };
        let (line, column) = (line + 1, column + 1);
        format!("ERROR: <input>:{line}:{column}: {}\n | {snippet}\n | {dots}{mark}", self.message)
    }
}

/// Formats all errors, separated by line breaks.
pub fn shown(errors: &[SyntaxError], text: &str) -> String {
    let shown: Vec<String> = errors.iter().map(|error| error.shown(text)).collect();
    shown.join("\n")
}
