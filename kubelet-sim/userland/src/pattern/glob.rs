//! Globs, as the shell, `case` and `find -name` know them: `*`, `?` and `[a-z]`.

/// A part of a glob.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Literal(char),
    AnyChar,
    AnyText,
    Class { is_negated: bool, ranges: Vec<(char, char)> },
}

/// A pattern for whole names.
#[derive(Clone, Debug, PartialEq)]
pub struct Glob(Vec<Item>);

impl Glob {
    /// Reads a glob; a backslash makes the next character literal.
    pub fn parse(text: &str) -> Self {
        let mut marked = Vec::new();
        let mut chars = text.chars();
        while let Some(next) = chars.next() {
            match next {
                '\\' => marked.extend(chars.next().map(|quoted| (quoted, true))),
                next => marked.push((next, false)),
            }
        }
        Self::of(&marked)
    }

    /// Reads a glob from characters and whether each is quoted. Quoted characters mean themselves.
    pub fn of(chars: &[(char, bool)]) -> Self {
        let mut items = Vec::new();
        let mut at = 0;
        while let Some((next, is_quoted)) = chars.get(at).copied() {
            at += 1;
            let item = match (next, is_quoted) {
                ('*', false) => Item::AnyText,
                ('?', false) => Item::AnyChar,
                ('[', false) => match class(&chars[at..]) {
                    Some((item, length)) => {
                        at += length;
                        item
                    }
                    None => Item::Literal('['),
                },
                (next, _) => Item::Literal(next),
            };
            if item != Item::AnyText || items.last() != Some(&Item::AnyText) {
                items.push(item);
            }
        }
        Self(items)
    }

    /// True when the glob has no special character.
    pub fn is_literal(&self) -> bool {
        self.0.iter().all(|item| matches!(item, Item::Literal(_)))
    }

    /// True when the glob begins with this character itself.
    pub fn begins_with(&self, first: char) -> bool {
        self.0.first() == Some(&Item::Literal(first))
    }

    pub fn matches(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        self.matches_chars(&chars)
    }

    pub fn matches_chars(&self, text: &[char]) -> bool {
        // Goes back to the last `*` when a character does not match: linear in practice, quadratic at worst.
        let (mut item, mut at, mut retry) = (0, 0, None);
        loop {
            let fits = match (self.0.get(item), text.get(at)) {
                (None, None) => return true,
                (Some(Item::AnyText), _) => {
                    retry = Some((item, at));
                    item += 1;
                    continue;
                }
                (Some(item), Some(next)) => item.fits(*next),
                _ => false,
            };
            if fits {
                item += 1;
                at += 1;
                continue;
            }
            match retry {
                Some((star, from)) if from < text.len() => {
                    retry = Some((star, from + 1));
                    (item, at) = (star + 1, from + 1);
                }
                _ => return false,
            }
        }
    }
}

impl Item {
    fn fits(&self, next: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == next,
            Self::AnyChar | Self::AnyText => true,
            Self::Class { is_negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&next)) != *is_negated
            }
        }
    }
}

/// Reads a class from behind its `[`; returns the number of characters that belong to it.
fn class(chars: &[(char, bool)]) -> Option<(Item, usize)> {
    let mut at = 0;
    let is_negated = matches!(chars.first(), Some(('!' | '^', false)));
    at += usize::from(is_negated);
    let mut ranges = Vec::new();
    let first = at;
    loop {
        let (next, is_quoted) = *chars.get(at)?;
        if next == ']' && !is_quoted && at > first {
            return Some((Item::Class { is_negated, ranges }, at + 1));
        }
        if next == '[' && chars.get(at + 1).is_some_and(|(second, _)| *second == ':') {
            let name: String = chars[at + 2..].iter().map(|(c, _)| *c).take_while(|c| *c != ':').collect();
            if let Some(named) = named_class(&name) {
                ranges.extend(named);
                at += name.chars().count() + 4;
                continue;
            }
        }
        match (chars.get(at + 1), chars.get(at + 2)) {
            (Some(('-', false)), Some((last, _))) if *last != ']' => {
                ranges.push((next, *last));
                at += 3;
            }
            _ => {
                ranges.push((next, next));
                at += 1;
            }
        }
    }
}

/// Returns the characters of `[:name:]`.
pub fn named_class(name: &str) -> Option<Vec<(char, char)>> {
    Some(match name {
        "alpha" => vec![('a', 'z'), ('A', 'Z')],
        "digit" => vec![('0', '9')],
        "alnum" => vec![('a', 'z'), ('A', 'Z'), ('0', '9')],
        "upper" => vec![('A', 'Z')],
        "lower" => vec![('a', 'z')],
        "space" => vec![(' ', ' '), ('\t', '\r')],
        "blank" => vec![(' ', ' '), ('\t', '\t')],
        "punct" => vec![('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "xdigit" => vec![('0', '9'), ('a', 'f'), ('A', 'F')],
        "print" => vec![(' ', '~')],
        "graph" => vec![('!', '~')],
        "cntrl" => vec![('\0', '\x1f'), ('\x7f', '\x7f')],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn globs_match_whole_names() {
        for (glob, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("?b", "ab", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[[:digit:]]*", "7up", true),
            ("[a", "[a", true),
            ("\\*", "x", false),
            ("*a*b*c", "xaybzc", true),
        ] {
            assert_eq!(Glob::parse(glob).matches(text), expected, "{glob} {text}");
        }
    }
}
