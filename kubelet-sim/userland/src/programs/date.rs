//! Prints the virtual time.

use crate::options;
use crate::process::proc::{Outcome, Proc};
use jiff::Timestamp;

pub async fn date(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "ud:r:RI", "iso-8601" => 'I', "utc" => 'u', "date" => 'd');
    let mut at = proc.now();
    if let Some(text) = options.value('d') {
        let seconds = text.strip_prefix('@').and_then(|seconds| seconds.parse().ok());
        let given = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).or_else(|| text.parse().ok());
        match given {
            Some(given) => at = given,
            None => return proc.fail(&format!("date: invalid date '{text}'"), 1).await,
        }
    }
    if let Some(path) = options.value('r') {
        match proc.tree().metadata(&proc.actor(), path, true) {
            Ok(metadata) => at = metadata.modified_at,
            Err(error) => return proc.fail(&format!("date: {path}: {error}"), 1).await,
        }
    }
    let format = match options.operands.first() {
        Some(format) if format.starts_with('+') => &format[1..],
        Some(other) => return proc.fail(&format!("date: invalid date '{other}'"), 1).await,
        None if options.has('R') => "%a, %d %b %Y %H:%M:%S +0000",
        None if options.has('I') => "%Y-%m-%d",
        None => "%a %b %e %H:%M:%S UTC %Y",
    };
    let format = format.replace("%N", "%9f").replace("%Z", "UTC").replace("%z", "+0000").replace("%3N", "%3f");
    let text = jiff::fmt::strtime::format(&format, at);
    match text {
        Ok(text) => proc.print(&format!("{text}\n")).await?,
        Err(_) => return proc.fail(&format!("date: bad format '{format}'"), 1).await,
    }
    Ok(0)
}
