//! Reads the options of programs, as `getopt` does.

/// The options and operands of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    given: Vec<(char, String)>,
    pub operands: Vec<String>,
}

impl Options {
    /// Reads the words behind a program's name. `known` lists letters; one with a colon takes a value. `long` gives
    /// the letters of long names. The error is a message without the program's name.
    pub fn parse(words: &[String], known: &str, long: &[(&str, char)]) -> Result<Self, String> {
        let mut found = Self::default();
        let mut words = words.iter();
        let takes_value = |letter: char| known.contains(&format!("{letter}:"));
        while let Some(word) = words.next() {
            if word == "--" {
                found.operands.extend(words.cloned());
                break;
            }
            if let Some(name) = word.strip_prefix("--") {
                let (name, value) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
                let Some((_, letter)) = long.iter().find(|(known, _)| *known == name) else {
                    return Err(format!("unrecognized option '--{name}'"));
                };
                let value = match (value, takes_value(*letter)) {
                    (Some(value), _) => value.to_owned(),
                    (None, true) => words.next().cloned().ok_or(format!("option '--{name}' requires an argument"))?,
                    (None, false) => String::new(),
                };
                found.given.push((*letter, value));
                continue;
            }
            let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                found.operands.push(word.clone());
                continue;
            };
            let mut rest = letters.chars();
            while let Some(letter) = rest.next() {
                if letter == ':' || !known.contains(letter) {
                    return Err(format!("unrecognized option: {letter}"));
                }
                if !takes_value(letter) {
                    found.given.push((letter, String::new()));
                    continue;
                }
                let own: String = rest.by_ref().collect();
                let value = match own.is_empty() {
                    false => own,
                    true => words.next().cloned().ok_or(format!("option requires an argument: {letter}"))?,
                };
                found.given.push((letter, value));
            }
        }
        Ok(found)
    }

    pub fn has(&self, letter: char) -> bool {
        self.given.iter().any(|(given, _)| *given == letter)
    }

    /// Returns the last value of an option.
    pub fn value(&self, letter: char) -> Option<&str> {
        self.values(letter).last()
    }

    pub fn values(&self, letter: char) -> impl Iterator<Item = &str> {
        self.given.iter().filter(move |(given, _)| *given == letter).map(|(_, value)| value.as_str())
    }
}

/// Reads options, or prints the message and leaves the program with this exit code.
#[macro_export]
macro_rules! options {
    ($proc:expr, $argv:expr, $known:literal $(, $long:literal => $letter:literal)* $(; $code:literal)?) => {
        match $crate::programs::options::Options::parse(&$argv[1..], $known, &[$(($long, $letter)),*]) {
            Ok(options) => options,
            Err(message) => {
                #[allow(unused_mut, unused_assignments)]
                let mut code = 1;
                $(code = $code;)?
                return $proc.fail(&format!("{}: {message}", $argv[0]), code).await;
            }
        }
    };
}

/// Reads a size such as `10`, `4k`, `2M`.
pub fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match &text[digits.len()..] {
        "" | "c" => 1,
        "b" => 512,
        "k" | "K" | "kB" | "KiB" => 1 << 10,
        "M" | "MB" | "m" | "MiB" => 1 << 20,
        "G" | "GB" | "g" | "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}
