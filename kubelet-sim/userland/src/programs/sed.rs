//! `sed`: `s`, `d`, `p`, `q`, `a`, `i`, `c`, `y` and `=` with line numbers, `$` and expressions as addresses.

use super::input::Input;
use crate::options;
use crate::pattern::regular::compile;
use crate::process::proc::{Outcome, Proc, Stop};
use regex::bytes::{Captures, Regex};

enum Address {
    Line(usize),
    Last,
    Matches(Regex),
}

enum Edit {
    Substitute { regex: Regex, text: String, replaces_all: bool, which: usize, prints: bool },
    Delete,
    Print,
    Quit,
    Append(String),
    Insert(String),
    Change(String),
    LineNumber,
    Transliterate(Vec<char>, Vec<char>),
}

struct Rule {
    from: Option<Address>,
    to: Option<Address>,
    is_negated: bool,
    edit: Edit,
    /// True between the first and the last line of a range.
    is_inside: bool,
}

pub async fn sed(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "nrEie:f:", "in-place" => 'i', "quiet" => 'n', "regexp-extended" => 'E');
    let mut operands = options.operands.clone();
    let mut script: Vec<String> = options.values('e').map(str::to_owned).collect();
    if let Some(path) = options.value('f') {
        match proc.tree().read(&proc.actor(), path) {
            Ok(bytes) => script.push(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => return proc.fail(&format!("sed: {path}: {error}"), 1).await,
        }
    }
    if script.is_empty() {
        if operands.is_empty() {
            return proc.fail("usage: sed [-nrEi] SCRIPT [FILE]...", 1).await;
        }
        script.push(operands.remove(0));
    }
    let is_extended = options.has('E') || options.has('r');
    let mut rules = match read(&script.join("\n"), is_extended) {
        Ok(rules) => rules,
        Err(why) => return proc.fail(&format!("sed: {why}"), 1).await,
    };
    if !options.has('i') {
        let mut input = Input::new("sed", &operands);
        let mut next = input.line(proc).await?;
        let mut number = 0;
        while let Some(line) = next {
            next = input.line(proc).await?;
            number += 1;
            let (out, quits) = edit(&mut rules, line, number, next.is_none(), options.has('n'));
            proc.write(1, &out).await?;
            if quits {
                break;
            }
        }
        return Ok(input.code());
    }
    for path in &operands {
        if let Err(error) = in_place(proc, path, &mut rules, options.has('n')).await? {
            return proc.fail(&format!("sed: {path}: {error}"), 1).await;
        }
    }
    Ok(0)
}

async fn in_place(
    proc: &mut Proc,
    path: &str,
    rules: &mut [Rule],
    is_quiet: bool,
) -> Result<Result<(), file_tree::error::FileError>, Stop> {
    let actor = proc.actor();
    let content = match proc.tree().read(&actor, path) {
        Ok(content) => content,
        Err(error) => return Ok(Err(error)),
    };
    let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    let mut out = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let (text, quits) = edit(rules, line.to_vec(), at + 1, at + 1 == lines.len(), is_quiet);
        out.extend(text);
        if quits {
            out.extend(lines[at + 1..].concat());
            break;
        }
    }
    Ok(proc.tree().write(&actor, path, &out))
}

/// Edits one line; returns what is printed, and whether `q` ends the program.
fn edit(rules: &mut [Rule], line: Vec<u8>, number: usize, is_last: bool, is_quiet: bool) -> (Vec<u8>, bool) {
    let has_break = line.last() == Some(&b'\n');
    let mut line = if has_break { line[..line.len() - 1].to_vec() } else { line };
    let (mut out, mut after) = (Vec::new(), Vec::new());
    let (mut is_deleted, mut quits) = (false, false);
    let put = |out: &mut Vec<u8>, line: &[u8], with_break: bool| {
        out.extend(line);
        if with_break {
            out.push(b'\n');
        }
    };
    for rule in rules {
        if !rule.applies(&line, number, is_last) {
            continue;
        }
        match &rule.edit {
            Edit::Substitute { regex, text, replaces_all, which, prints } => {
                let mut count = 0;
                let mut changed = false;
                let replaced = regex.replace_all(&line, |found: &Captures<'_>| {
                    count += 1;
                    if count < *which || count > *which && !replaces_all {
                        return found[0].to_vec();
                    }
                    changed = true;
                    expand(text, found)
                });
                line = replaced.into_owned();
                if changed && *prints {
                    put(&mut out, &line, true);
                }
            }
            Edit::Delete => {
                is_deleted = true;
                break;
            }
            Edit::Print => put(&mut out, &line, has_break || !is_quiet),
            Edit::Quit => {
                quits = true;
                break;
            }
            Edit::Append(text) => put(&mut after, text.as_bytes(), true),
            Edit::Insert(text) => put(&mut out, text.as_bytes(), true),
            Edit::Change(text) => {
                put(&mut out, text.as_bytes(), true);
                is_deleted = true;
                break;
            }
            Edit::LineNumber => put(&mut out, number.to_string().as_bytes(), true),
            Edit::Transliterate(from, to) => {
                let text = String::from_utf8_lossy(&line).into_owned();
                let changed = text.chars().map(|c| from.iter().position(|known| *known == c).map_or(c, |at| to[at]));
                line = changed.collect::<String>().into_bytes();
            }
        }
    }
    if !is_deleted && !is_quiet {
        put(&mut out, &line, has_break || !after.is_empty());
    }
    out.extend(after);
    (out, quits)
}

/// Returns the replacement with `&` and `\1` filled in.
fn expand(text: &str, found: &Captures<'_>) -> Vec<u8> {
    let (mut out, mut chars) = (Vec::new(), text.chars());
    while let Some(next) = chars.next() {
        match next {
            '&' => out.extend(&found[0]),
            '\\' => match chars.next() {
                Some(digit @ '0'..='9') => {
                    let group = found.get(digit as usize - '0' as usize);
                    out.extend(group.map(|group| group.as_bytes()).unwrap_or_default());
                }
                Some('n') => out.push(b'\n'),
                Some('t') => out.push(b'\t'),
                Some(other) => out.extend(other.to_string().bytes()),
                None => {}
            },
            other => out.extend(other.to_string().bytes()),
        }
    }
    out
}

impl Rule {
    fn applies(&mut self, line: &[u8], number: usize, is_last: bool) -> bool {
        let fits = |address: &Address| match address {
            Address::Line(wanted) => *wanted == number,
            Address::Last => is_last,
            Address::Matches(regex) => regex.is_match(line),
        };
        let found = match (&self.from, &self.to) {
            (None, _) => true,
            (Some(from), None) => fits(from),
            (Some(from), Some(to)) => {
                let was_inside = self.is_inside;
                let begins = !was_inside && fits(from);
                if was_inside {
                    self.is_inside = !fits(to);
                } else if begins {
                    self.is_inside = !matches!(to, Address::Line(last) if *last <= number);
                }
                was_inside && !matches!(to, Address::Line(last) if *last < number) || begins
            }
        };
        found != self.is_negated
    }
}

/// Reads a script.
fn read(script: &str, is_extended: bool) -> Result<Vec<Rule>, String> {
    let mut reader = Reader { chars: script.chars().collect(), at: 0, is_extended };
    let mut rules = Vec::new();
    loop {
        reader.skip(|c| c.is_whitespace() || c == ';');
        if reader.peek().is_none() {
            return Ok(rules);
        }
        if reader.peek() == Some('#') {
            reader.skip(|c| c != '\n');
            continue;
        }
        rules.push(reader.rule()?);
        reader.skip(|c| c == ' ');
        if !matches!(reader.peek(), None | Some(';' | '\n' | '#')) {
            return Err(format!("unknown option or command at '{}'", reader.rest()));
        }
    }
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    is_extended: bool,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    fn rest(&self) -> String {
        self.chars[self.at..].iter().collect()
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    fn address(&mut self) -> Result<Option<Address>, String> {
        match self.peek() {
            Some('$') => {
                self.at += 1;
                Ok(Some(Address::Last))
            }
            Some('/') => {
                self.at += 1;
                let text = self.until('/')?;
                Ok(Some(Address::Matches(compile(&text, self.is_extended, false)?)))
            }
            Some(digit) if digit.is_ascii_digit() => {
                let start = self.at;
                self.skip(|c| c.is_ascii_digit());
                let digits: String = self.chars[start..self.at].iter().collect();
                Ok(Some(Address::Line(digits.parse().map_err(|_| "bad line number".to_owned())?)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the text up to a delimiter; an escaped delimiter loses its backslash.
    fn until(&mut self, end: char) -> Result<String, String> {
        let (mut text, mut in_bracket) = (String::new(), false);
        while let Some(next) = self.next() {
            match next {
                '\\' => match self.next() {
                    Some(escaped) if escaped == end => text.push(escaped),
                    Some(escaped) => text.extend(['\\', escaped]),
                    None => break,
                },
                next if next == end && !in_bracket => return Ok(text),
                next => {
                    in_bracket = match next {
                        '[' => end == '/',
                        ']' => false,
                        _ => in_bracket,
                    };
                    text.push(next);
                }
            }
        }
        Err("unmatched delimiter".to_owned())
    }

    fn rule(&mut self) -> Result<Rule, String> {
        let from = self.address()?;
        let to = match self.peek() {
            Some(',') => {
                self.at += 1;
                Some(self.address()?.ok_or("no address after comma")?)
            }
            _ => None,
        };
        self.skip(|c| c == ' ');
        let is_negated = self.peek() == Some('!');
        self.at += usize::from(is_negated);
        self.skip(|c| c == ' ');
        let command = self.next().ok_or("missing command")?;
        let edit = match command {
            's' => self.substitution()?,
            'd' => Edit::Delete,
            'p' => Edit::Print,
            'q' => Edit::Quit,
            '=' => Edit::LineNumber,
            'a' => Edit::Append(self.line()),
            'i' => Edit::Insert(self.line()),
            'c' => Edit::Change(self.line()),
            'y' => {
                let end = self.next().ok_or("unmatched delimiter")?;
                let (from, to) = (self.until(end)?, self.until(end)?);
                let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
                if from.len() != to.len() {
                    return Err("y command strings have different lengths".to_owned());
                }
                Edit::Transliterate(from, to)
            }
            other => return Err(format!("command '{other}' is more than this simulated sed knows")),
        };
        Ok(Rule { from, to, is_negated, edit, is_inside: false })
    }

    fn substitution(&mut self) -> Result<Edit, String> {
        let end = self.next().ok_or("unmatched delimiter")?;
        let pattern = self.until(end)?;
        let text = self.until(end)?;
        let (mut replaces_all, mut prints, mut ignores_case, mut which) = (false, false, false, 1);
        while let Some(flag) = self.peek().filter(|flag| !matches!(flag, ';' | '\n' | ' ' | '}')) {
            self.at += 1;
            match flag {
                'g' => replaces_all = true,
                'p' => prints = true,
                'i' | 'I' => ignores_case = true,
                digit @ '1'..='9' => which = digit as usize - '0' as usize,
                other => return Err(format!("unknown option to s: '{other}'")),
            }
        }
        let regex = compile(&pattern, self.is_extended, ignores_case)?;
        Ok(Edit::Substitute { regex, text, replaces_all, which, prints })
    }

    /// Returns the text of `a`, `i` and `c`.
    fn line(&mut self) -> String {
        self.skip(|c| c == ' ' || c == '\\');
        if self.peek() == Some('\n') {
            self.at += 1;
        }
        let start = self.at;
        self.skip(|c| c != '\n');
        self.chars[start..self.at].iter().collect()
    }
}
