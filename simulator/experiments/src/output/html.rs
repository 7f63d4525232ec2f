//! `Html`, the text of a page while it is written.

use std::fmt::{Arguments, Write};

#[derive(Debug, Default)]
pub struct Html(pub String);

impl Html {
    pub fn add(&mut self, text: Arguments<'_>) {
        self.0.write_fmt(text).expect("a string takes every text");
    }

    pub fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
