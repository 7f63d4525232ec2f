//! Programs that work on lines: `sort`, `uniq`, `cut`.

use super::input::Input;
use crate::options;
use crate::process::proc::{Outcome, Proc};
use std::cmp::Ordering;

pub async fn sort(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "nrufk:t:o:hVsbdi");
    let mut input = Input::new(&argv[0], &options.operands);
    let mut lines = input.all_lines(proc).await?;
    let separator = options.value('t').and_then(|text| text.bytes().next());
    let keys: Vec<Key> = options.values('k').filter_map(Key::parse).collect();
    let is_numeric = options.has('n') || options.has('h') || options.has('V');
    let order = |a: &[u8], b: &[u8], numeric: bool| match numeric {
        true => number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal),
        false if options.has('f') => a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()),
        false => a.cmp(b),
    };
    let by_keys = |a: &[u8], b: &[u8]| {
        if keys.is_empty() {
            return order(a, b, is_numeric);
        }
        let compared = keys.iter().map(|key| {
            let found = order(&key.of(a, separator), &key.of(b, separator), is_numeric || key.is_numeric);
            if key.is_reversed { found.reverse() } else { found }
        });
        compared.fold(Ordering::Equal, Ordering::then)
    };
    lines.sort_by(|a, b| {
        let found =
            by_keys(a, b).then_with(|| if options.has('s') || options.has('u') { Ordering::Equal } else { a.cmp(b) });
        if options.has('r') { found.reverse() } else { found }
    });
    if options.has('u') {
        lines.dedup_by(|a, b| by_keys(a, b) == Ordering::Equal);
    }
    let mut out = Vec::new();
    for line in lines {
        out.extend(line);
        out.push(b'\n');
    }
    match options.value('o') {
        Some(path) => match proc.tree().write(&proc.actor(), path, &out) {
            Ok(()) => {}
            Err(error) => return proc.fail(&format!("sort: {path}: {error}"), 1).await,
        },
        None => proc.write(1, &out).await?,
    }
    Ok(input.code())
}

/// `-k 2,3n`
struct Key {
    first: usize,
    last: Option<usize>,
    is_numeric: bool,
    is_reversed: bool,
}

impl Key {
    fn parse(text: &str) -> Option<Self> {
        let number = |part: &str| part.split('.').next()?.trim_end_matches(char::is_alphabetic).parse::<usize>().ok();
        let (first, last) = text.split_once(',').map_or((text, None), |(first, last)| (first, Some(last)));
        let first = number(first).filter(|first| *first > 0)?;
        let (is_numeric, is_reversed) = (text.contains('n'), text.contains('r'));
        Some(Self { first, last: last.and_then(number), is_numeric, is_reversed })
    }

    /// Returns the part of a line by which it is sorted.
    fn of(&self, line: &[u8], separator: Option<u8>) -> Vec<u8> {
        let fields = fields(line, separator);
        let last = self.last.unwrap_or(usize::MAX).min(fields.len());
        let joint = [separator.unwrap_or(b' ')];
        fields.get(self.first - 1..last).map(|fields| fields.join(&joint[..])).unwrap_or_default()
    }
}

fn fields(line: &[u8], separator: Option<u8>) -> Vec<&[u8]> {
    match separator {
        Some(separator) => line.split(|byte| *byte == separator).collect(),
        None => line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).collect(),
    }
}

/// Returns the number at the beginning of a text.
fn number(text: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start();
    let end = text.char_indices().find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || *at == 0 && *c == '-'));
    text[..end.map_or(text.len(), |(at, _)| at)].parse().unwrap_or(0.0)
}

pub async fn uniq(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "cdui");
    let mut input = Input::new(&argv[0], &options.operands[..options.operands.len().min(1)]);
    let lines = input.all_lines(proc).await?;
    let same = |a: &Vec<u8>, b: &Vec<u8>| if options.has('i') { a.eq_ignore_ascii_case(b) } else { a == b };
    let mut out = Vec::new();
    for group in lines.chunk_by(same) {
        if options.has('d') && group.len() < 2 || options.has('u') && group.len() > 1 {
            continue;
        }
        if options.has('c') {
            out.extend(format!("{:7} ", group.len()).bytes());
        }
        out.extend(&group[0]);
        out.push(b'\n');
    }
    proc.write(1, &out).await?;
    Ok(input.code())
}

pub async fn cut(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "d:f:c:b:sn");
    let list = options.value('f').or(options.value('c')).or(options.value('b')).unwrap_or_default();
    let Some(ranges) = ranges(list) else { return proc.fail(&format!("cut: invalid list '{list}'"), 1).await };
    let is_wanted = |number: usize| ranges.iter().any(|(from, to)| (*from..=*to).contains(&number));
    let delimiter = options.value('d').and_then(|text| text.bytes().next()).unwrap_or(b'\t');
    let mut input = Input::new(&argv[0], &options.operands);
    while let Some(mut line) = input.line(proc).await? {
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let mut out: Vec<u8> = if options.has('f') {
            if !line.contains(&delimiter) {
                if options.has('s') {
                    continue;
                }
                line
            } else {
                let parts = line.split(|byte| *byte == delimiter).enumerate();
                let parts: Vec<&[u8]> = parts.filter(|(at, _)| is_wanted(at + 1)).map(|(_, part)| part).collect();
                parts.join(&[delimiter][..])
            }
        } else if options.has('c') {
            let text = String::from_utf8_lossy(&line).into_owned();
            let chars = text.chars().enumerate().filter(|(at, _)| is_wanted(at + 1)).map(|(_, c)| c);
            chars.collect::<String>().into_bytes()
        } else {
            line.iter().enumerate().filter(|(at, _)| is_wanted(at + 1)).map(|(_, byte)| *byte).collect()
        };
        out.push(b'\n');
        proc.write(1, &out).await?;
    }
    Ok(input.code())
}

/// Reads `1,3-5,7-`.
fn ranges(text: &str) -> Option<Vec<(usize, usize)>> {
    let range = |part: &str| match part.split_once('-') {
        None => part.parse().ok().map(|number| (number, number)),
        Some((from, to)) => {
            let from = if from.is_empty() { 1 } else { from.parse().ok()? };
            let to = if to.is_empty() { usize::MAX } else { to.parse().ok()? };
            Some((from, to))
        }
    };
    text.split(',').map(range).collect::<Option<Vec<_>>>().filter(|ranges| ranges.iter().all(|(from, _)| *from > 0))
}
