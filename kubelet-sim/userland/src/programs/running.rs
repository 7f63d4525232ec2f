//! Programs about processes: `sleep`, `timeout`, `kill`, `ps`, `nohup`, `xargs`.

use crate::options;
use crate::process::kernel::Pid;
use crate::process::proc::{Outcome, Proc};
use crate::process::signal::Signal;
use std::time::Duration;

/// The exit code of `timeout` when the time is over.
const EXIT_TIMED_OUT: i32 = 143;
/// Bytes of the words that `xargs` gives to one command.
const MAX_WORDS_BYTES: usize = 32 << 10;

/// Reads `5`, `0.5`, `2m`, `infinity`.
pub fn duration(text: &str) -> Option<Duration> {
    if matches!(text, "infinity" | "inf") {
        return Some(Duration::MAX);
    }
    let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
    let factor = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let seconds: f64 = digits.parse().ok()?;
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    Some(Duration::try_from_secs_f64(seconds * factor).unwrap_or(Duration::MAX))
}

pub async fn sleep(proc: &mut Proc, argv: &[String]) -> Outcome {
    if argv.len() == 1 {
        return proc.fail("sleep: missing operand", 1).await;
    }
    let mut whole = Duration::ZERO;
    for text in &argv[1..] {
        match duration(text) {
            Some(time) => whole = whole.saturating_add(time),
            None => return proc.fail(&format!("sleep: invalid number '{text}'"), 1).await,
        }
    }
    proc.sleep(whole).await;
    Ok(0)
}

pub async fn timeout(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut words = &argv[1..];
    let (mut signal, mut kill_after) = (Signal::Terminate, None);
    loop {
        match words {
            [flag, name, rest @ ..] if flag == "-s" => {
                match Signal::parse(name) {
                    Some(named) => signal = named,
                    None => return proc.fail(&format!("timeout: invalid signal '{name}'"), 1).await,
                }
                words = rest;
            }
            [flag, time, rest @ ..] if flag == "-k" => {
                kill_after = duration(time);
                words = rest;
            }
            _ => break,
        }
    }
    let [time, command @ ..] = words else { return proc.fail("timeout: missing operand", 1).await };
    let Some(time) = duration(time) else { return proc.fail(&format!("timeout: invalid number '{time}'"), 1).await };
    let Some(pid) = proc.spawn(command.to_vec()) else { return proc.fail("timeout: can't fork", 1).await };
    let until = proc.now().checked_add(time).ok();
    if let Some(status) = proc.wait_until(pid, until, false).await {
        return Ok(status.code());
    }
    proc.kernel.signal(pid, signal);
    if let Some(after) = kill_after {
        let until = proc.now().checked_add(after).ok();
        if proc.wait_until(pid, until, false).await.is_none() {
            proc.kernel.signal(pid, Signal::Kill);
            return Ok(proc.wait(pid).await.code());
        }
        return Ok(EXIT_TIMED_OUT);
    }
    proc.wait(pid).await;
    Ok(EXIT_TIMED_OUT)
}

pub async fn nohup(proc: &mut Proc, argv: &[String]) -> Outcome {
    proc.kernel.entry(proc.pid, |entry| entry.ignored.insert(Signal::Hangup));
    proc.launch(&argv[1..]).await
}

pub async fn kill(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut words = &argv[1..];
    let mut signal = Some(Signal::Terminate);
    match words {
        [flag, ..] if flag == "-l" => {
            let lines: String =
                Signal::all().map(|signal| format!("{:2}) {}\n", signal.number(), signal.name())).collect();
            proc.print(&lines).await?;
            return Ok(0);
        }
        [flag, name, rest @ ..] if flag == "-s" || flag == "-n" => {
            signal = Signal::parse(name);
            words = rest;
        }
        [flag, rest @ ..] if flag.len() > 1 && flag.starts_with('-') && flag != "--" => {
            // `kill -0` only asks whether the process exists.
            signal = if flag == "-0" { None } else { Signal::parse(&flag[1..]) };
            if signal.is_none() && flag != "-0" {
                return proc.fail(&format!("kill: bad signal name '{}'", &flag[1..]), 1).await;
            }
            words = rest;
        }
        _ => {}
    }
    if words.first().is_some_and(|word| word == "--") {
        words = &words[1..];
    }
    if words.is_empty() {
        return proc.fail("kill: you need to specify whom to kill", 1).await;
    }
    let mut code = 0;
    for text in words {
        let Ok(pid) = text.parse::<Pid>() else {
            code = proc.fail(&format!("kill: invalid number '{text}'"), 1).await?;
            continue;
        };
        let owner = proc.kernel.entry(pid, |entry| entry.status.is_none().then_some(entry.uid)).flatten();
        let error = match owner {
            None => Some("No such process"),
            Some(owner) if proc.user.uid != 0 && proc.user.uid != owner => Some("Operation not permitted"),
            Some(_) => None,
        };
        match (error, signal) {
            (Some(error), _) => code = proc.fail(&format!("kill: can't kill pid {pid}: {error}"), 1).await?,
            (None, Some(signal)) => drop(proc.kernel.signal(pid, signal)),
            (None, None) => {}
        }
    }
    // A process that has killed itself does not go on.
    proc.tick().await;
    Ok(code)
}

pub async fn ps(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut lines = "PID   USER     TIME  COMMAND\n".to_owned();
    for (pid, _, uid, _, command) in proc.kernel.list() {
        let user = super::identity::user_name(proc, uid).unwrap_or(uid.to_string());
        lines.push_str(&format!("{pid:>5} {user:<8}  0:00 {command}\n"));
    }
    let is_listed = proc.kernel.entry(proc.pid, |entry| entry.command.starts_with("ps")) == Some(true);
    if !is_listed {
        let user = super::identity::user_name(proc, proc.user.uid).unwrap_or(proc.user.uid.to_string());
        let next = proc.kernel.list().last().map_or(1, |(pid, ..)| pid + 1);
        lines.push_str(&format!("{next:>5} {user:<8}  0:00 {}\n", argv.join(" ")));
    }
    proc.print(&lines).await?;
    Ok(0)
}

pub async fn xargs(proc: &mut Proc, argv: &[String]) -> Outcome {
    // The options of the command that is run are not its own.
    let is_value = |word: &str| matches!(word, "-n" | "-I" | "-P" | "-d" | "-s" | "-L");
    let mut at = 1;
    while let Some(word) = argv.get(at).filter(|word| word.starts_with('-') && word.len() > 1) {
        at += 1 + usize::from(is_value(word));
    }
    let own = &argv[..at.min(argv.len())];
    let options = options!(proc, own, "0rtn:I:P:d:s:L:");
    let command: Vec<String> = if at < argv.len() { argv[at..].to_vec() } else { vec!["echo".to_owned()] };
    let bytes = proc.read_all(0).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let words: Vec<String> = match (options.has('0'), options.value('I').is_some() || options.has('L')) {
        (true, _) => text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        (false, true) => text.lines().map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        (false, false) => words_of(&text),
    };
    let count = match (options.value('n').or(options.value('L')), options.value('I')) {
        (_, Some(_)) => 1,
        (Some(text), None) => text.parse().unwrap_or(1).max(1),
        (None, None) => usize::MAX,
    };
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut length = 0;
    for word in words {
        length += word.len() + 1;
        match groups.last_mut() {
            Some(group) if group.len() < count && length < MAX_WORDS_BYTES => group.push(word),
            _ => {
                length = word.len();
                groups.push(vec![word]);
            }
        }
    }
    if groups.is_empty() && !options.has('r') && options.value('I').is_none() {
        groups.push(Vec::new());
    }
    let mut code = 0;
    for group in groups {
        let line: Vec<String> = match options.value('I') {
            Some(mark) => command.iter().map(|word| word.replace(mark, &group[0])).collect(),
            None => command.iter().chain(&group).cloned().collect(),
        };
        if options.has('t') {
            proc.error(&format!("{}\n", line.join(" "))).await?;
        }
        match proc.launch(&line).await {
            Ok(0) => {}
            Ok(127) => return Ok(127),
            Ok(_) | Err(_) => code = 123,
        }
    }
    Ok(code)
}

/// Splits words as `xargs` does: quotes and backslashes count.
fn words_of(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_there, mut quote) = (Vec::new(), String::new(), false, None);
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        match (quote, next) {
            (Some(open), next) if next == open => quote = None,
            (None, '\'' | '"') => (quote, is_there) = (Some(next), true),
            (None, '\\') => {
                word.extend(chars.next());
                is_there = true;
            }
            (None, next) if next.is_whitespace() => {
                if std::mem::take(&mut is_there) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, next) => {
                word.push(next);
                is_there = true;
            }
        }
    }
    if is_there {
        words.push(word);
    }
    words
}
