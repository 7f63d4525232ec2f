//! `grep`, `egrep` and `fgrep`.

use super::input::Input;
use super::options::Options;
use crate::options;
use crate::pattern::regular::compile;
use crate::process::proc::{Outcome, Proc, Stop};
use file_tree::place::join;
use regex::bytes::Regex;

pub async fn grep(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(
        proc, argv, "EFGHhivcnlLoqswxrRe:m:A:B:C:f:",
        "color" => 's', "quiet" => 'q', "ignore-case" => 'i', "recursive" => 'r', "invert-match" => 'v';
        2
    );
    let mut operands = options.operands.clone();
    let mut patterns: Vec<String> = options.values('e').flat_map(|text| text.lines().map(str::to_owned)).collect();
    if let Some(path) = options.value('f') {
        match proc.tree().read(&proc.actor(), path) {
            Ok(bytes) => patterns.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned)),
            Err(error) => return proc.fail(&format!("grep: {path}: {error}"), 2).await,
        }
    } else if options.value('e').is_none() {
        if operands.is_empty() {
            return proc.fail("usage: grep [-EFHhivcnlLoqswxr] PATTERN [FILE]...", 2).await;
        }
        let first = operands.remove(0);
        patterns.extend(if first.is_empty() { vec![first] } else { first.lines().map(str::to_owned).collect() });
    }
    let name = argv[0].rsplit('/').next().unwrap_or_default();
    let is_extended = options.has('E') || name == "egrep";
    let is_fixed = options.has('F') || name == "fgrep";
    let mut regexes = Vec::new();
    for pattern in &patterns {
        let text = if is_fixed { regex::escape(pattern) } else { pattern.clone() };
        // The pattern is compiled alone first, so that its mistakes are its own.
        let compiled = compile(&text, is_extended || is_fixed, options.has('i'));
        match compiled {
            Ok(regex) => regexes.push(bounded(&regex, &options)),
            Err(error) => return proc.fail(&format!("grep: {error}"), 2).await,
        }
    }
    let mut paths = operands.clone();
    if options.has('r') || options.has('R') {
        paths = Vec::new();
        let starts = if operands.is_empty() { vec![".".to_owned()] } else { operands.clone() };
        starts.iter().for_each(|start| collect(proc, start, &mut paths, 0));
        if paths.is_empty() {
            return Ok(1);
        }
    }
    let with_name = !options.has('h') && (options.has('H') || paths.len() > 1 || options.has('r'));
    let mut input = Input::new("grep", &paths);
    input.is_silent = options.has('s');
    let mut search = Search { options, regexes, with_name, found: false };
    while input.next_file(proc).await? {
        if search.file(proc, &mut input).await? {
            return Ok(0);
        }
    }
    Ok(match (input.has_failed, search.found) {
        (true, false) => 2,
        (true, true) if !search.options.has('q') => 2,
        (_, found) => i32::from(!found),
    })
}

/// Adds the limits of `-w` and `-x` to a pattern.
fn bounded(regex: &Regex, options: &Options) -> Regex {
    let text = match (options.has('x'), options.has('w')) {
        (true, _) => format!("^(?:{})$", regex.as_str()),
        (false, true) => format!(r"\b(?:{})\b", regex.as_str()),
        (false, false) => return regex.clone(),
    };
    let mut builder = regex::bytes::RegexBuilder::new(&text);
    builder.case_insensitive(options.has('i')).build().unwrap_or_else(|_| regex.clone())
}

/// Collects the files below a folder.
fn collect(proc: &Proc, path: &str, paths: &mut Vec<String>, depth: u32) {
    const MAX_DEPTH: u32 = 100;
    let actor = proc.actor();
    if !proc.tree().is_folder(&actor, path) || depth > MAX_DEPTH {
        paths.push(path.to_owned());
        return;
    }
    for name in proc.tree().read_folder(&actor, path).unwrap_or_default() {
        collect(proc, &join(path, &name), paths, depth + 1);
    }
}

struct Search {
    options: Options,
    regexes: Vec<Regex>,
    with_name: bool,
    found: bool,
}

impl Search {
    /// Searches one file; true when the answer is known without the others.
    async fn file(&mut self, proc: &mut Proc, input: &mut Input) -> Result<bool, Stop> {
        let options = self.options.clone();
        let count = |letter| options.value(letter).and_then(|text| text.parse::<usize>().ok());
        let before = count('B').or(count('C')).unwrap_or(0);
        let after = count('A').or(count('C')).unwrap_or(0);
        let max = count('m').unwrap_or(usize::MAX);
        let path = if input.path == "-" { "(standard input)".to_owned() } else { input.path.clone() };
        let (mut matched, mut number, mut left) = (0, 0, 0);
        let mut earlier: Vec<(usize, Vec<u8>)> = Vec::new();
        while let Some(mut line) = input.file_line(proc).await {
            number += 1;
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            let is_match = self.regexes.iter().any(|regex| regex.is_match(&line)) != options.has('v');
            if !is_match {
                if left > 0 {
                    left -= 1;
                    self.show(proc, &path, number, '-', &line).await?;
                } else if before > 0 {
                    earlier.push((number, line));
                    if earlier.len() > before {
                        earlier.remove(0);
                    }
                }
                continue;
            }
            matched += 1;
            self.found = true;
            if options.has('q') {
                return Ok(true);
            }
            if options.has('l') || options.has('L') {
                break;
            }
            if !options.has('c') {
                for (number, line) in std::mem::take(&mut earlier) {
                    self.show(proc, &path, number, '-', &line).await?;
                }
                if options.has('o') {
                    let parts = self.regexes.iter().flat_map(|regex| regex.find_iter(&line));
                    let parts: Vec<Vec<u8>> = parts.map(|found| found.as_bytes().to_vec()).collect();
                    for part in parts.into_iter().filter(|part| !part.is_empty()) {
                        self.show(proc, &path, number, ':', &part).await?;
                    }
                } else {
                    self.show(proc, &path, number, ':', &line).await?;
                }
                left = after;
            }
            if matched >= max {
                break;
            }
        }
        if options.has('l') && matched > 0 || options.has('L') && matched == 0 {
            proc.print(&format!("{path}\n")).await?;
        }
        if options.has('c') {
            let name = if self.with_name { format!("{path}:") } else { String::new() };
            proc.print(&format!("{name}{matched}\n")).await?;
        }
        Ok(false)
    }

    async fn show(&self, proc: &mut Proc, path: &str, number: usize, mark: char, line: &[u8]) -> Result<(), Stop> {
        let mut out = Vec::new();
        if self.with_name {
            out.extend(format!("{path}{mark}").bytes());
        }
        if self.options.has('n') {
            out.extend(format!("{number}{mark}").bytes());
        }
        out.extend(line);
        out.push(b'\n');
        proc.write(1, &out).await
    }
}
