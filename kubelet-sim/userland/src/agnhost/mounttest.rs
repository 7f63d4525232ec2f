//! `agnhost mounttest`: shows types, modes, owners and contents of files.
//!
//! Corresponds to test/images/agnhost/mounttest.

use crate::process::proc::{Outcome, Proc, Stop};
use crate::programs::attributes::mode_text;
use file_tree::error::FileError;
use file_tree::node::Metadata;
use std::time::Duration;

const CONTENT: &str = "mount-tester new file\n";
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Runs the checks in the order of the original, whatever the order of the flags.
pub async fn mounttest(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut words = argv[1..].iter();
    let mut flags = Vec::new();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else {
            return proc.fail(&format!("Error: unknown command {word:?} for \"app mounttest\""), 1).await;
        };
        match flag.split_once('=') {
            Some((name, value)) => flags.push((name.to_owned(), value.to_owned())),
            None if flag == "break_on_expected_content" => flags.push((flag.to_owned(), "true".to_owned())),
            None => flags.push((flag.to_owned(), words.next().cloned().unwrap_or_default())),
        }
    }
    let value = |name: &str| flags.iter().rev().find(|(flag, _)| flag == name).map(|(_, value)| value.clone());
    proc.user.umask = 0;
    let mut has_failed = false;
    if let Some(path) = value("fs_type") {
        has_failed |= fs_type(proc, &path).await?;
    }
    for (name, mode) in
        [("new_file_0644", 0o644), ("new_file_0666", 0o666), ("new_file_0660", 0o660), ("new_file_0777", 0o777)]
    {
        if let Some(path) = value(name) {
            has_failed |= new_file(proc, &path, mode).await?;
        }
    }
    if let Some(path) = value("file_mode") {
        has_failed |=
            describe(proc, &path, |path, found| format!("mode of file {path:?}: {}\n", go_mode(found))).await?;
    }
    if let Some(path) = value("file_perm") {
        let perms = |path: &str, found: &Metadata| format!("perms of file {path:?}: -{}\n", &plain_mode(found)[1..]);
        has_failed |= describe(proc, &path, perms).await?;
    }
    if let Some(path) = value("file_owner") {
        let owner = |path: &str, found: &Metadata| {
            format!("owner UID of {path:?}: {}\nowner GID of {path:?}: {}\n", found.owner.uid, found.owner.gid)
        };
        has_failed |= describe(proc, &path, owner).await?;
    }
    if let Some(path) = value("file_content") {
        has_failed |= content(proc, &path).await?;
    }
    if let Some(path) = value("file_content_in_loop") {
        let retry_s = value("retry_time").and_then(|text| text.parse().ok()).unwrap_or(180);
        let breaks = value("break_on_expected_content").is_none_or(|text| text == "true");
        has_failed |= content_in_loop(proc, &path, Duration::from_secs(retry_s), breaks).await?;
    }
    Ok(i32::from(has_failed))
}

async fn fs_type(proc: &mut Proc, path: &str) -> Result<bool, Stop> {
    let found = proc.tree().find(&proc.actor(), path, true);
    let line = match &found {
        Ok(place) => {
            let fs_type = proc.tree().mount_of(&place.path).1.fs_type.clone();
            let shown = match fs_type.as_str() {
                "tmpfs" => "tmpfs",
                // The numbers of overlayfs and ext4.
                "overlay" => "2035054128",
                _ => "61267",
            };
            format!("mount type of {path:?}: {shown}\n")
        }
        Err(error) => format!("error from statfs({path:?}): {}\n", error.to_string().to_lowercase()),
    };
    proc.print(&line).await?;
    Ok(found.is_err())
}

/// Returns a message of Go about a file.
fn go_error(operation: &str, path: &str, error: FileError) -> String {
    format!("{operation} {path}: {}", error.to_string().to_lowercase())
}

async fn describe(proc: &mut Proc, path: &str, line: impl Fn(&str, &Metadata) -> String) -> Result<bool, Stop> {
    let found = proc.tree().metadata(&proc.actor(), path, true);
    let text = match &found {
        Ok(found) => line(path, found),
        Err(error) => format!("error from Stat({path:?}): {}\n", go_error("stat", path, *error)),
    };
    proc.print(&text).await?;
    Ok(found.is_err())
}

/// Returns the mode without its special bits.
fn plain_mode(found: &Metadata) -> String {
    mode_text(&Metadata { mode: found.mode & 0o777, ..found.clone() })
}

/// Returns the mode as Go shows it: `dtrwxrwxrwx`, `drwxrwsrwx` as `dgrwxrwxrwx`.
fn go_mode(found: &Metadata) -> String {
    let mut marks = match found.file_type.letter() {
        'l' => "L".to_owned(),
        'c' => "Dc".to_owned(),
        'd' => "d".to_owned(),
        _ => String::new(),
    };
    for (bit, mark) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if found.mode & bit != 0 {
            marks.push(mark);
        }
    }
    let marks = if marks.is_empty() { "-".to_owned() } else { marks };
    format!("{marks}{}", &plain_mode(found)[1..])
}

async fn new_file(proc: &mut Proc, path: &str, mode: u32) -> Result<bool, Stop> {
    use file_tree::actor::OpenOptions;
    let (actor, options) = (proc.actor(), OpenOptions { mode, ..OpenOptions::CREATE });
    let opened = proc.tree().open(&actor, path, options);
    let written = opened.and_then(|place| place.node.write(None, CONTENT.as_bytes(), actor.now));
    if let Err(error) = written {
        let line = format!("error writing new file {path:?}: {}\n", go_error("open", path, error));
        proc.print(&line).await?;
        return Ok(true);
    }
    content(proc, path).await
}

async fn content(proc: &mut Proc, path: &str) -> Result<bool, Stop> {
    match proc.tree().read(&proc.actor(), path) {
        Ok(bytes) => {
            proc.print(&format!("content of file {path:?}: ")).await?;
            proc.write(1, &bytes).await?;
            proc.print("\n").await?;
            Ok(false)
        }
        Err(error) => {
            let line = format!("error reading file content for {path:?}: {}\n", go_error("open", path, error));
            proc.print(&line).await?;
            Ok(true)
        }
    }
}

async fn content_in_loop(proc: &mut Proc, path: &str, retry: Duration, breaks: bool) -> Result<bool, Stop> {
    let until = proc.now().checked_add(retry).unwrap_or(jiff::Timestamp::MAX);
    let mut has_failed = false;
    while proc.now() < until {
        let read = proc.tree().read(&proc.actor(), path);
        has_failed = read.is_err();
        match read {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                proc.print(&format!("content of file {path:?}: {text}\n")).await?;
                if breaks && text == CONTENT {
                    break;
                }
                if breaks {
                    proc.print(&format!("Unexpected content. Expected: {CONTENT}. Retrying")).await?;
                }
            }
            Err(error) => {
                let why = go_error("open", path, error);
                proc.print(&format!("Error reading file {path}: {why}, retrying\n")).await?;
            }
        }
        proc.sleep(RETRY_PERIOD).await;
    }
    Ok(has_failed)
}
