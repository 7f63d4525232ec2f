//! Programs that print their words: `echo`, `printf`, `seq`, `yes`; and `true` and `false`.

use crate::process::proc::{Outcome, Proc};

pub async fn yes_quietly(_proc: &mut Proc, _argv: &[String]) -> Outcome {
    Ok(0)
}

pub async fn no(_proc: &mut Proc, _argv: &[String]) -> Outcome {
    Ok(1)
}

pub async fn echo(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut words = &argv[1..];
    let (mut breaks, mut escapes) = (true, false);
    while let Some(flag) = words.first() {
        let letters = flag.strip_prefix('-').filter(|l| !l.is_empty() && l.chars().all(|c| "neE".contains(c)));
        let Some(letters) = letters else { break };
        for letter in letters.chars() {
            match letter {
                'n' => breaks = false,
                letter => escapes = letter == 'e',
            }
        }
        words = &words[1..];
    }
    let mut text = words.join(" ").into_bytes();
    if escapes {
        let (unescaped, stops) = unescape(&text);
        text = unescaped;
        breaks &= !stops;
    }
    if breaks {
        text.push(b'\n');
    }
    proc.write(1, &text).await?;
    Ok(0)
}

/// Replaces the escapes of `echo -e` and `printf`; true when `\c` ends the output.
fn unescape(text: &[u8]) -> (Vec<u8>, bool) {
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(next) = text.get(at).copied() {
        at += 1;
        if next != b'\\' {
            out.push(next);
            continue;
        }
        let Some(escaped) = text.get(at).copied() else {
            out.push(b'\\');
            break;
        };
        at += 1;
        match escaped {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'e' => out.push(27),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'\\' => out.push(b'\\'),
            b'c' => return (out, true),
            b'x' => {
                let digits = text[at..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
                let value = std::str::from_utf8(&text[at..at + digits]).ok();
                match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    Some(value) => out.push(value),
                    None => out.extend(b"\\x"),
                }
                at += digits;
            }
            b'0'..=b'7' => {
                let start = if escaped == b'0' { at } else { at - 1 };
                let digits = text[start..].iter().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
                let value = text[start..start + digits].iter().fold(0_u32, |value, b| value * 8 + u32::from(b - b'0'));
                out.push((value & 0xff) as u8);
                at = start + digits;
            }
            other => out.extend([b'\\', other]),
        }
    }
    (out, false)
}

pub async fn printf(proc: &mut Proc, argv: &[String]) -> Outcome {
    let Some(format) = argv.get(1) else { return proc.fail("printf: usage: printf FORMAT [ARG]...", 2).await };
    let mut arguments = &argv[2..];
    let mut code = 0;
    loop {
        let before = arguments.len();
        let (text, stops, error) = formatted(format, &mut arguments);
        proc.write(1, &text).await?;
        if let Some(error) = error {
            code = proc.fail(&format!("printf: {error}"), 1).await?;
        }
        // The format is used again as long as it consumes arguments.
        if stops || arguments.is_empty() || arguments.len() == before {
            return Ok(code);
        }
    }
}

/// Formats once; takes the arguments that it needs.
fn formatted(format: &str, arguments: &mut &[String]) -> (Vec<u8>, bool, Option<String>) {
    let mut take = || match arguments.split_first() {
        Some((first, rest)) => {
            *arguments = rest;
            first.as_str()
        }
        None => "",
    };
    let (mut out, mut error) = (Vec::new(), None);
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let (text, stops) = unescape(&rest.as_bytes()[..at]);
        out.extend(text);
        if stops {
            return (out, true, error);
        }
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push(b'%');
            rest = after;
            continue;
        }
        let length = rest.find(|c: char| !"-+ #0123456789.*".contains(c)).unwrap_or(rest.len());
        let flags = rest[..length].to_owned();
        let Some(kind) = rest[length..].chars().next() else {
            out.push(b'%');
            out.extend(flags.bytes());
            rest = "";
            break;
        };
        rest = &rest[length + kind.len_utf8()..];
        let stars = flags.replacen('*', if flags.contains('*') { take() } else { "" }, 1);
        let (width, precision) = stars.split_once('.').map_or((stars.as_str(), None), |(w, p)| (w, Some(p)));
        let precision = precision.map(|digits| digits.parse::<usize>().unwrap_or(0).min(4096));
        let mut number = |text: &str| {
            let value = integer(text);
            if value.is_none() && !text.is_empty() {
                error = Some(format!("invalid number '{text}'"));
            }
            value.unwrap_or(0)
        };
        let text: Vec<u8> = match kind {
            's' => {
                let text = take();
                let cut: String = text.chars().take(precision.unwrap_or(usize::MAX)).collect();
                cut.into_bytes()
            }
            'b' => {
                let (text, stops) = unescape(take().as_bytes());
                if stops {
                    out.extend(text);
                    return (out, true, error);
                }
                text
            }
            'c' => take().chars().take(1).collect::<String>().into_bytes(),
            'd' | 'i' => {
                let value = number(take());
                let digits = format!("{:0>1$}", value.unsigned_abs(), precision.unwrap_or(1));
                let sign = if value < 0 {
                    "-"
                } else if flags.contains('+') {
                    "+"
                } else {
                    ""
                };
                format!("{sign}{digits}").into_bytes()
            }
            'u' => format!("{}", number(take()) as u64).into_bytes(),
            'x' => format!("{:x}", number(take())).into_bytes(),
            'X' => format!("{:X}", number(take())).into_bytes(),
            'o' => format!("{:o}", number(take())).into_bytes(),
            'f' | 'F' | 'g' | 'e' => {
                let value: f64 = take().parse().unwrap_or(0.0);
                format!("{value:.*}", precision.unwrap_or(6)).into_bytes()
            }
            other => {
                error = Some(format!("%{other}: invalid format"));
                return (out, true, error);
            }
        };
        out.extend(padded(text, width, kind));
    }
    let (text, stops) = unescape(rest.as_bytes());
    out.extend(text);
    (out, stops, error)
}

fn padded(text: Vec<u8>, flags: &str, kind: char) -> Vec<u8> {
    let digits = flags.trim_start_matches(['-', '+', ' ', '#', '0']);
    let width = digits.parse::<usize>().unwrap_or(0).min(4096);
    let fill = width.saturating_sub(String::from_utf8_lossy(&text).chars().count());
    if flags.contains('-') {
        let mut text = text;
        text.extend(vec![b' '; fill]);
        return text;
    }
    let zeros = flags.trim_start_matches(['+', ' ', '#']).starts_with('0') && !matches!(kind, 's' | 'b' | 'c');
    let sign = usize::from(zeros && text.first().is_some_and(|first| matches!(first, b'-' | b'+')));
    let mut out = text[..sign].to_vec();
    out.extend(vec![if zeros { b'0' } else { b' ' }; fill]);
    out.extend(&text[sign..]);
    out
}

/// Reads a number of `printf`: decimal, octal, hexadecimal, or `'c` for a character.
fn integer(text: &str) -> Option<i64> {
    if let Some(quoted) = text.strip_prefix(['\'', '"']) {
        return quoted.chars().next().map(|c| i64::from(u32::from(c)));
    }
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(&digits[1..], 8).ok()?,
        None => digits.parse().ok()?,
    };
    Some(value.wrapping_mul(sign))
}

pub async fn seq(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut separator = "\n".to_owned();
    let mut words = &argv[1..];
    let mut is_wide = false;
    loop {
        match words {
            [flag, value, rest @ ..] if flag == "-s" => {
                separator.clone_from(value);
                words = rest;
            }
            [flag, rest @ ..] if flag == "-w" => {
                is_wide = true;
                words = rest;
            }
            _ => break,
        }
    }
    let numbers: Option<Vec<f64>> = words.iter().map(|word| word.parse().ok()).collect();
    let (first, step, last) = match numbers.as_deref() {
        Some([last]) => (1.0, 1.0, *last),
        Some([first, last]) => (*first, 1.0, *last),
        Some([first, step, last]) if *step != 0.0 => (*first, *step, *last),
        _ => return proc.fail("seq: invalid arguments", 1).await,
    };
    let decimals = words.iter().map(|word| word.split_once('.').map_or(0, |(_, part)| part.len())).max().unwrap_or(0);
    let width = if is_wide { words.iter().map(String::len).max().unwrap_or(0) } else { 0 };
    let (mut out, mut turn) = (String::new(), 0.0);
    loop {
        let value = first + step * turn;
        if step > 0.0 && value > last + 1e-9 || step < 0.0 && value < last - 1e-9 || !value.is_finite() {
            break;
        }
        if turn > 0.0 {
            out.push_str(&separator);
        }
        out.push_str(&format!("{value:0width$.decimals$}"));
        turn += 1.0;
        if out.len() > 16 << 10 {
            proc.print(&out).await?;
            proc.tick().await;
            out.clear();
        }
    }
    if turn > 0.0 {
        out.push('\n');
    }
    proc.print(&out).await?;
    Ok(0)
}

pub async fn yes(proc: &mut Proc, argv: &[String]) -> Outcome {
    let line = if argv.len() > 1 { argv[1..].join(" ") } else { "y".to_owned() };
    let block = format!("{line}\n").repeat((1024 / (line.len() + 1)).max(1));
    loop {
        proc.print(&block).await?;
        proc.tick().await;
    }
}
