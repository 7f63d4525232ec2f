//! `tr`: replaces and deletes characters.

use crate::options;
use crate::pattern::glob::named_class;
use crate::process::proc::{CHUNK_BYTES, Outcome, Proc};

pub async fn tr(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "cCds");
    let mut first = options.operands.first().map(|text| set(text)).unwrap_or_default();
    let second = options.operands.get(1).map(|text| set(text));
    if first.is_empty() || second.is_none() && !options.has('d') && !options.has('s') {
        return proc.fail("tr: missing operand", 1).await;
    }
    if options.has('c') || options.has('C') {
        first = (0..=255).filter(|byte| !first.contains(byte)).collect();
    }
    let squeezed = match (&second, options.has('s')) {
        (_, false) => Vec::new(),
        (Some(second), true) => second.clone(),
        (None, true) => first.clone(),
    };
    let replaced = |byte: u8| -> Option<u8> {
        let Some(at) = first.iter().position(|from| *from == byte) else { return Some(byte) };
        match (&second, options.has('d')) {
            (_, true) => None,
            (Some(second), false) => second.get(at).or(second.last()).copied().or(Some(byte)),
            (None, false) => Some(byte),
        }
    };
    let mut last = None;
    loop {
        let part = proc.read(0, CHUNK_BYTES).await.unwrap_or_default();
        if part.is_empty() {
            return Ok(0);
        }
        let mut out = Vec::new();
        for byte in part.into_iter().filter_map(replaced) {
            if last != Some(byte) || !squeezed.contains(&byte) {
                out.push(byte);
            }
            last = Some(byte);
        }
        proc.write(1, &out).await?;
    }
}

/// Returns the bytes of a set: `a-z`, `[:digit:]`, `\n`.
fn set(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    let char_at = |at: usize| -> Option<(u8, usize)> {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b'\\', Some(b'n')) => Some((b'\n', 2)),
            (b'\\', Some(b't')) => Some((b'\t', 2)),
            (b'\\', Some(b'r')) => Some((b'\r', 2)),
            (b'\\', Some(b'0')) => Some((0, 2)),
            (b'\\', Some(other)) => Some((*other, 2)),
            (byte, _) => Some((byte, 1)),
        }
    };
    while let Some((byte, length)) = char_at(at) {
        if let Some(rest) = text.get(at..).and_then(|rest| rest.strip_prefix("[:"))
            && let Some((name, _)) = rest.split_once(":]")
            && let Some(ranges) = named_class(name)
        {
            out.extend(ranges.into_iter().flat_map(|(from, to)| from as u8..=to as u8));
            at += name.len() + 4;
            continue;
        }
        at += length;
        if bytes.get(at) == Some(&b'-')
            && let Some((last, length)) = char_at(at + 1)
        {
            out.extend(byte..=last);
            at += 1 + length;
        } else {
            out.push(byte);
        }
    }
    out
}
