//! Programs that pass text on: `cat`, `head`, `tail`, `tee`, `wc`.

use super::input::Input;
use super::options::size;
use crate::options;
use crate::process::proc::{CHUNK_BYTES, Outcome, Proc};
use file_tree::actor::OpenOptions;
use std::time::Duration;

/// How often `tail -f` looks for more.
const FOLLOW_PERIOD: Duration = Duration::from_secs(1);
/// The descriptor that `tail -f` reads.
const FOLLOWED: u8 = 101;

pub async fn cat(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "unvetA");
    let mut input = Input::new(&argv[0], &options.operands);
    let mut number = 0;
    while input.next_file(proc).await? {
        if !options.has('n') {
            while let Some(chunk) = input.chunk(proc).await {
                proc.write(1, &chunk).await?;
            }
            continue;
        }
        while let Some(line) = input.file_line(proc).await {
            number += 1;
            let mut numbered = format!("{number:6}\t").into_bytes();
            numbered.extend(line);
            proc.write(1, &numbered).await?;
        }
    }
    Ok(input.code())
}

/// Rewrites `-5` to `-n 5`.
fn with_count(argv: &[String]) -> Vec<String> {
    let is_count =
        |word: &str| word.len() > 1 && word.starts_with('-') && word[1..].bytes().all(|b| b.is_ascii_digit());
    let words = argv.iter().flat_map(|word| match is_count(word) {
        true => vec!["-n".to_owned(), word[1..].to_owned()],
        false => vec![word.clone()],
    });
    words.collect()
}

pub async fn head(proc: &mut Proc, argv: &[String]) -> Outcome {
    let argv = with_count(argv);
    let options = options!(proc, argv, "n:c:qv", "lines" => 'n', "bytes" => 'c');
    let text = options.value('c').or(options.value('n')).unwrap_or("10");
    let Some(count) = size(text.trim_start_matches('-')) else {
        return proc.fail(&format!("head: invalid number '{text}'"), 1).await;
    };
    let mut input = Input::new(&argv[0], &options.operands);
    let mut is_first = true;
    while input.next_file(proc).await? {
        if options.operands.len() > 1 && !options.has('q') {
            let space = if is_first { "" } else { "\n" };
            let title = format!("{space}==> {} <==\n", input.path);
            proc.print(&title).await?;
        }
        is_first = false;
        let mut left = count as usize;
        if text.starts_with('-') {
            let whole = input.rest_of_file(proc).await;
            let parts: Vec<&[u8]> = match options.has('c') {
                true => whole.chunks(1).collect(),
                false => whole.split_inclusive(|byte| *byte == b'\n').collect(),
            };
            proc.write(1, &parts[..parts.len().saturating_sub(left)].concat()).await?;
            continue;
        }
        while left > 0 {
            let part = if options.has('c') { input.chunk(proc).await } else { input.file_line(proc).await };
            let Some(part) = part else { break };
            let length = if options.has('c') { part.len().min(left) } else { part.len() };
            proc.write(1, &part[..length]).await?;
            left -= if options.has('c') { length } else { 1 };
        }
    }
    Ok(input.code())
}

pub async fn tail(proc: &mut Proc, argv: &[String]) -> Outcome {
    let argv = with_count(argv);
    let options = options!(proc, argv, "n:c:fFqvs:", "lines" => 'n', "follow" => 'f', "retry" => 'F');
    let text = options.value('c').or(options.value('n')).unwrap_or("10");
    let Some(count) = size(text.trim_start_matches(['-', '+'])) else {
        return proc.fail(&format!("tail: invalid number '{text}'"), 1).await;
    };
    let count = count as usize;
    let mut input = Input::new(&argv[0], &options.operands);
    let mut is_first = true;
    while input.next_file(proc).await? {
        if options.operands.len() > 1 && !options.has('q') {
            let space = if is_first { "" } else { "\n" };
            let title = format!("{space}==> {} <==\n", input.path);
            proc.print(&title).await?;
        }
        is_first = false;
        let whole = input.rest_of_file(proc).await;
        let starts: Vec<usize> = match options.has('c') {
            true => (0..whole.len()).collect(),
            false => {
                let ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
                std::iter::once(0).chain(ends).filter(|at| *at < whole.len()).collect()
            }
        };
        let skipped = match text.starts_with('+') {
            true => count.saturating_sub(1),
            false => starts.len().saturating_sub(count),
        };
        let start = starts.get(skipped).copied().unwrap_or(whole.len());
        proc.write(1, &whole[start..]).await?;
    }
    let path = options.operands.last().filter(|_| options.has('f') || options.has('F'));
    let Some(path) = path.filter(|path| *path != "-") else { return Ok(input.code()) };
    let mut read = match proc.tree().metadata(&proc.actor(), path, true) {
        Ok(metadata) => metadata.size as usize,
        Err(_) if options.has('F') => 0,
        Err(_) => return Ok(1),
    };
    if matches!(path.as_str(), "/dev/null") {
        proc.sleep(Duration::MAX).await;
    }
    let mut followed = proc.open(path, OpenOptions::READ).ok();
    loop {
        let wait = options.value('s').and_then(super::running::duration).unwrap_or(FOLLOW_PERIOD);
        proc.sleep(wait.max(Duration::from_millis(100))).await;
        if options.has('F') || followed.is_none() {
            followed = proc.open(path, OpenOptions::READ).ok();
        }
        let Some(crate::process::descriptor::Descriptor::File(file)) = &followed else { continue };
        let length = file.node.metadata().size as usize;
        if length < read {
            // The file was emptied or replaced.
            read = 0;
        }
        *file.offset.lock() = read;
        let descriptor = crate::process::descriptor::Descriptor::File(file.clone());
        proc.descriptors.insert(FOLLOWED, descriptor);
        loop {
            let part = proc.read(FOLLOWED, CHUNK_BYTES).await.unwrap_or_default();
            if part.is_empty() {
                break;
            }
            read += part.len();
            proc.write(1, &part).await?;
        }
    }
}

pub async fn tee(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "ai");
    let mode = if options.has('a') { OpenOptions::APPEND } else { OpenOptions::CREATE };
    let (mut numbers, mut code) = (Vec::new(), 0);
    for (path, number) in options.operands.iter().zip(110..=200) {
        match proc.open(path, mode) {
            Ok(descriptor) => {
                proc.descriptors.insert(number, descriptor);
                numbers.push(number);
            }
            Err(error) => code = proc.fail(&format!("tee: {path}: {error}"), 1).await?,
        }
    }
    loop {
        let part = proc.read(0, CHUNK_BYTES).await.unwrap_or_default();
        if part.is_empty() {
            break;
        }
        proc.write(1, &part).await?;
        for number in &numbers {
            proc.write(*number, &part).await?;
        }
    }
    for number in numbers {
        proc.descriptors.remove(&number);
    }
    Ok(code)
}

pub async fn wc(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "lwcmL");
    let wanted: Vec<char> = "lwc".chars().filter(|letter| options.has(*letter)).collect();
    let wanted = if options.has('m') && wanted.is_empty() { vec!['m'] } else { wanted };
    let is_default = wanted.is_empty();
    let wanted = if is_default { vec!['l', 'w', 'c'] } else { wanted };
    let mut input = Input::new(&argv[0], &options.operands);
    let mut total = [0_usize; 4];
    // Several numbers stand in columns.
    let line = |counts: &[usize; 4], path: &str| {
        let at = |letter: &char| counts["lwcm".find(*letter).unwrap_or(0)];
        let numbers: Vec<String> = match wanted.as_slice() {
            [only] => vec![at(only).to_string()],
            several => several.iter().map(|letter| format!("{:>9}", at(letter))).collect(),
        };
        let name = if path == "-" { String::new() } else { format!(" {path}") };
        format!("{}{name}\n", numbers.join(if wanted.len() == 1 { "" } else { " " }))
    };
    while input.next_file(proc).await? {
        let whole = input.rest_of_file(proc).await;
        let text = String::from_utf8_lossy(&whole);
        let lines = whole.iter().filter(|byte| **byte == b'\n').count();
        let counts = [lines, text.split_whitespace().count(), whole.len(), text.chars().count()];
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
        let path = input.path.clone();
        proc.print(&line(&counts, &path)).await?;
    }
    if options.operands.len() > 1 {
        proc.print(&line(&total, "total")).await?;
    }
    Ok(input.code())
}
