//! The pieces of the pages about attempts: colours, titles, and numbers with their nouns.

use std::fmt::Write;

/// Most nodes, or pods, with a line of their own.
pub const MAX_LINES: usize = 20;
/// Most names in a row.
const MAX_NAMES: usize = 5;

/// Colours for a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    pub on: bool,
}

impl Paint {
    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn title(self, text: &str) -> String {
        self.paint("1", text)
    }
}

/// Returns a number with its noun.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Begins a section.
pub fn section(page: &mut String, paint: Paint, title: &str) {
    let _ = writeln!(page, "\n{}", paint.title(title));
}

/// Returns a time in microseconds with its unit.
pub fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

/// Joins the first names, and says how many more there are.
pub fn shortened(names: &[String]) -> String {
    match names.get(..MAX_NAMES) {
        Some(first) if names.len() > MAX_NAMES => {
            format!("{} and {} more", first.join(", "), names.len() - MAX_NAMES)
        }
        _ => names.join(", "),
    }
}
