//! The outline of a JSON text: the order of its members, and the spelling of its numbers.
//!
//! A tree sorts its members and normalises its numbers. Errors name fields in the order of the body, and repeat numbers
//! as the client wrote them. So only bodies that have errors are outlined.

use super::json;

/// One member of an object or one element of an array, in document order.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// `spec.containers[0].image`
    pub path: String,
    /// The spelling of the value, if it is a number.
    pub number: Option<String>,
}

/// Returns the members of a valid JSON text in document order, each before the members inside it.
pub fn outline(bytes: &[u8]) -> Vec<Entry> {
    let mut walker = Walker { bytes, at: 0, entries: Vec::new() };
    walker.value("");
    walker.entries
}

struct Walker<'a> {
    bytes: &'a [u8],
    at: usize,
    entries: Vec<Entry>,
}

impl Walker<'_> {
    fn value(&mut self, path: &str) -> Option<()> {
        let start = self.token()?;
        let entry = self.entries.len();
        self.entries.push(Entry { path: path.to_owned(), number: None });
        match start {
            b'{' => self.object(path),
            b'[' => self.array(path),
            b'"' => self.string().map(drop),
            _ => {
                let from = self.at;
                while self.peek().is_some_and(|b| !matches!(b, b',' | b'}' | b']') && !b.is_ascii_whitespace()) {
                    self.at += 1;
                }
                if matches!(start, b'-' | b'0'..=b'9') {
                    self.entries[entry].number = Some(String::from_utf8_lossy(&self.bytes[from..self.at]).into_owned());
                }
                Some(())
            }
        }
    }

    fn object(&mut self, path: &str) -> Option<()> {
        self.at += 1;
        while self.token()? != b'}' {
            let key = self.string()?;
            self.token()?;
            self.at += 1;
            let inner = if path.is_empty() { key } else { format!("{path}.{key}") };
            self.value(&inner)?;
            if self.token()? == b',' {
                self.at += 1;
            }
        }
        self.at += 1;
        Some(())
    }

    fn array(&mut self, path: &str) -> Option<()> {
        self.at += 1;
        let mut index = 0;
        while self.token()? != b']' {
            self.value(&format!("{path}[{index}]"))?;
            index += 1;
            if self.token()? == b',' {
                self.at += 1;
            }
        }
        self.at += 1;
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        let from = self.at;
        self.at = json::string_end(self.bytes, from);
        Some(serde_json::from_slice(&self.bytes[from..self.at]).unwrap_or_default())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space and returns the next byte, which it does not consume.
    fn token(&mut self) -> Option<u8> {
        while self.peek()?.is_ascii_whitespace() {
            self.at += 1;
        }
        self.peek()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_document_order_and_numbers_keep_their_spelling() {
        let text = br#" {"z": {"b":1.50, "a":[80.0, "x\"y"]}, "a" : 1e3} "#;
        let entries = outline(text);
        let seen: Vec<(&str, Option<&str>)> =
            entries.iter().map(|entry| (entry.path.as_str(), entry.number.as_deref())).collect();
        assert_eq!(
            seen,
            [
                ("", None),
                ("z", None),
                ("z.b", Some("1.50")),
                ("z.a", None),
                ("z.a[0]", Some("80.0")),
                ("z.a[1]", None),
                ("a", Some("1e3")),
            ]
        );
    }
}
