//! Regular expressions of `grep`, `sed` and `expr`: the basic form is rewritten to the extended one.

use regex::bytes::{Regex, RegexBuilder};

/// Bytes that a compiled expression may take.
const LIMIT_BYTES: usize = 1 << 20;

/// Compiles a basic or an extended expression; the error names what is wrong with it.
pub fn compile(text: &str, is_extended: bool, ignores_case: bool) -> Result<Regex, String> {
    let rewritten = rewrite(text, is_extended);
    let compiled = RegexBuilder::new(&rewritten).case_insensitive(ignores_case).size_limit(LIMIT_BYTES).build();
    compiled.map_err(|_| format!("bad regex '{text}'"))
}

/// Rewrites an expression to the syntax of the crate `regex`.
fn rewrite(text: &str, is_extended: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (String::new(), 0);
    while let Some(next) = chars.get(at).copied() {
        at += 1;
        let begins = out.is_empty() || out.ends_with('(') || out.ends_with('|');
        match next {
            '\\' => {
                let Some(escaped) = chars.get(at).copied() else {
                    out.push_str("\\\\");
                    break;
                };
                at += 1;
                match escaped {
                    '(' | ')' | '{' | '}' | '|' | '+' | '?' if !is_extended => out.push(escaped),
                    'w' | 'W' | 's' | 'S' | 'b' | 'B' => out.extend(['\\', escaped]),
                    '<' => out.push_str("\\b{start}"),
                    '>' => out.push_str("\\b{end}"),
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    escaped => out.push_str(&regex::escape(&escaped.to_string())),
                }
            }
            '[' => at = bracket(&chars, at, &mut out),
            '(' | ')' | '{' | '}' | '|' | '+' | '?' if !is_extended => out.push_str(&regex::escape(&next.to_string())),
            '*' if begins => out.push_str("\\*"),
            '{' if !chars.get(at).is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            '^' if !is_extended && !begins => out.push_str("\\^"),
            '$' if !is_extended && at < chars.len() && chars[at..] != ['\\', ')'] && chars[at] != '\\' => {
                out.push_str("\\$");
            }
            next => out.push(next),
        }
    }
    out
}

/// Copies a bracket expression from behind its `[`; returns the place behind it.
fn bracket(chars: &[char], from: usize, out: &mut String) -> usize {
    let mut at = from;
    let mut text = "[".to_owned();
    if chars.get(at) == Some(&'^') {
        text.push('^');
        at += 1;
    }
    let first = at;
    while let Some(next) = chars.get(at).copied() {
        if next == ']' && at > first {
            text.push(']');
            out.push_str(&text);
            return at + 1;
        }
        if next == '[' && chars.get(at + 1) == Some(&':') {
            let length = chars[at..].windows(2).position(|two| two == [':', ']']);
            if let Some(length) = length.map(|length| length + 2) {
                text.extend(&chars[at..at + length]);
                at += length;
                continue;
            }
        }
        match next {
            '\\' | '[' | ']' | '&' | '~' => text.extend(['\\', next]),
            next => text.push(next),
        }
        at += 1;
    }
    // A bracket that is never closed: the compiler refuses it.
    out.push('[');
    from
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn basic_and_extended_expressions_differ() {
        for (text, is_extended, line, expected) in [
            ("a+", false, "a+", true),
            ("a+b", true, "aab", true),
            ("a\\+b", false, "aab", true),
            ("^a.c$", false, "abc", true),
            ("a|b", false, "b", false),
            ("a\\|b", false, "b", true),
            ("[[:digit:]]\\{2\\}", false, "x12", true),
            ("x{2}", true, "xx", true),
            ("*a", false, "*a", true),
            ("a$b", false, "a$b", true),
            ("\\.", false, "a", false),
            ("[]x]", false, "]", true),
            ("[\\n]", false, "\\", true),
        ] {
            let regex = compile(text, is_extended, false).unwrap();
            assert_eq!(regex.is_match(line.as_bytes()), expected, "{text} {line}");
        }
        assert!(compile("a(", true, false).is_err());
        assert!(compile("[", false, false).is_err());
    }
}
