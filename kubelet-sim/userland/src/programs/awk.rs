//! `awk`, as far as it prints fields: `awk -F: '/x/ {print $1, "text", $NF}'`. Other programs are refused.

use super::input::Input;
use crate::options;
use crate::pattern::regular::compile;
use crate::process::proc::{Outcome, Proc};
use regex::bytes::Regex;

/// A part of what is printed for a line.
enum Part {
    Text(String),
    /// `$3`; `$0` is the line.
    Field(usize),
    LastField,
    LineNumber,
    FieldCount,
    Space,
}

/// Which lines are printed.
enum Condition {
    Always,
    Matches(Regex),
    Line(usize),
}

pub async fn awk(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "F:v:"; 2);
    let refused = "awk: this simulated awk knows only programs of the form [/regex/|NR==N] {print $N, ...}";
    let Some((program, operands)) = options.operands.split_first() else { return proc.fail(refused, 2).await };
    let Some((condition, parts)) = read(program) else { return proc.fail(refused, 2).await };
    let separator = options.value('F').unwrap_or(" ");
    let splitter = match separator {
        " " => None,
        separator if separator.chars().count() == 1 => compile(&regex::escape(separator), true, false).ok(),
        separator => compile(&separator.replace("\\t", "\t"), true, false).ok(),
    };
    let mut input = Input::new("awk", operands);
    let mut number = 0;
    while let Some(mut line) = input.line(proc).await? {
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        number += 1;
        let is_printed = match &condition {
            Condition::Always => true,
            Condition::Matches(regex) => regex.is_match(&line),
            Condition::Line(wanted) => *wanted == number,
        };
        if !is_printed {
            continue;
        }
        let fields: Vec<&[u8]> = match &splitter {
            None => line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).collect(),
            Some(regex) => regex.split(&line).collect(),
        };
        let mut out = Vec::new();
        for part in &parts {
            match part {
                Part::Text(text) => out.extend(text.bytes()),
                Part::Field(0) => out.extend(&line),
                Part::Field(number) => out.extend(fields.get(number - 1).copied().unwrap_or_default()),
                Part::LastField => out.extend(fields.last().copied().unwrap_or_default()),
                Part::LineNumber => out.extend(number.to_string().bytes()),
                Part::FieldCount => out.extend(fields.len().to_string().bytes()),
                Part::Space => out.push(b' '),
            }
        }
        out.push(b'\n');
        proc.write(1, &out).await?;
    }
    Ok(input.code())
}

fn read(program: &str) -> Option<(Condition, Vec<Part>)> {
    let program = program.trim();
    let open = program.find('{')?;
    let condition = match program[..open].trim() {
        "" => Condition::Always,
        text if text.starts_with('/') => {
            Condition::Matches(compile(text.strip_prefix('/')?.strip_suffix('/')?, true, false).ok()?)
        }
        text => Condition::Line(text.strip_prefix("NR")?.trim().strip_prefix("==")?.trim().parse().ok()?),
    };
    let body = program[open + 1..].strip_suffix('}')?.trim().trim_end_matches(';');
    let mut rest = body.strip_prefix("print")?.trim();
    let mut parts = Vec::new();
    if rest.is_empty() {
        parts.push(Part::Field(0));
    }
    while !rest.is_empty() {
        let (part, length) = if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"')?;
            (Part::Text(quoted[..end].replace("\\n", "\n").replace("\\t", "\t")), end + 2)
        } else if rest.starts_with("$NF") {
            (Part::LastField, 3)
        } else if rest.starts_with("NF") {
            (Part::FieldCount, 2)
        } else if rest.starts_with("NR") {
            (Part::LineNumber, 2)
        } else {
            let digits = rest.strip_prefix('$')?.bytes().take_while(u8::is_ascii_digit).count();
            (Part::Field(rest[1..=digits].parse().ok()?), digits + 1)
        };
        parts.push(part);
        rest = rest[length..].trim_start();
        if let Some(after) = rest.strip_prefix(',') {
            parts.push(Part::Space);
            rest = after.trim_start();
            if rest.is_empty() {
                return None;
            }
        }
    }
    Some((condition, parts))
}
