//! Finds the program that words name, and runs it.

use crate::agnhost;
use crate::process::proc::{Proc, Running};
use crate::programs::{self, DEFAULT_PATH, Program, web};
use crate::shell::invocation::sh;
use file_tree::actor::{Actor, OpenOptions};
use file_tree::error::FileError;
use file_tree::mounts::FileTree;
use file_tree::node::{NodeKind, Owner};
use file_tree::place::{Access, join};
use file_tree::volume::Volume;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The beginning of the files that stand for simulated programs.
const MAGIC: &[u8] = b"\x7fELF simulated program: ";
/// The exit codes of a shell for a program that cannot be run.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

const SHELLS: [&str; 4] = ["sh", "ash", "bash", "dash"];

/// Puts the file of a program into an image.
pub fn install(image: &Volume, path: &str, name: &str, now: Timestamp) {
    let content = [MAGIC, name.as_bytes()].concat();
    image.put(path, NodeKind::File(content), 0o755, Owner::default(), now);
}

/// Returns the path of the file that a program's name means, or the reason why it cannot be run.
pub fn find(tree: &FileTree, actor: &Actor, env: &BTreeMap<String, String>, name: &str) -> Result<String, FileError> {
    let check = |path: String| match tree.find(actor, &path, true) {
        Ok(place) if place.node.is_folder() => Err(FileError::IsFolder),
        Ok(_) if !tree.allows(actor, &path, Access::Execute) => Err(FileError::PermissionDenied),
        Ok(_) => Ok(path),
        Err(error) => Err(error),
    };
    if name.contains('/') || name.is_empty() {
        return check(name.to_owned());
    }
    let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let mut last = FileError::NotFound;
    for folder in path.split(':') {
        match check(join(if folder.is_empty() { "." } else { folder }, name)) {
            Ok(path) => return Ok(path),
            Err(FileError::PermissionDenied) => last = FileError::PermissionDenied,
            Err(_) => {}
        }
    }
    Err(last)
}

/// Returns the message of runc when a container's process cannot be started; `None` when it can.
pub fn start_error(tree: &FileTree, actor: &Actor, env: &BTreeMap<String, String>, name: &str) -> Option<String> {
    let why = match find(tree, actor, env, name) {
        Ok(_) => return None,
        Err(FileError::NotFound) if !name.contains('/') => "executable file not found in $PATH".to_owned(),
        Err(error) if name.contains('/') => format!("stat {name}: {}", error.to_string().to_lowercase()),
        Err(error) => error.to_string().to_lowercase(),
    };
    Some(format!("exec: {name:?}: {why}"))
}

fn builtin(name: &str) -> Option<Program> {
    if SHELLS.contains(&name) {
        return Some(sh);
    }
    agnhost::program(name).or_else(|| web::program(name)).or_else(|| programs::program(name))
}

/// Runs the program that words name.
pub fn launch<'a>(proc: &'a mut Proc, argv: &'a [String]) -> Running<'a> {
    Box::pin(async move {
        let name = argv.first().map(String::as_str).unwrap_or_default();
        let path = match find(proc.tree(), &proc.actor(), &proc.env, name) {
            Ok(path) => path,
            Err(FileError::NotFound) => {
                proc.kernel.missing_program.lock().get_or_insert_with(|| name.to_owned());
                return proc.fail(&format!("sh: {name}: not found"), NOT_FOUND).await;
            }
            Err(error) => return proc.fail(&format!("sh: {name}: {error}"), NOT_EXECUTABLE).await,
        };
        let content = match proc.tree().open(&Actor::root(proc.now()), &path, OpenOptions::READ) {
            Ok(place) => place.node.read(0, MAX_SCRIPT_BYTES),
            Err(error) => return proc.fail(&format!("sh: {name}: {error}"), NOT_EXECUTABLE).await,
        };
        if let Some(program) = content.strip_prefix(MAGIC) {
            let program = String::from_utf8_lossy(program).into_owned();
            return match builtin(&program) {
                Some(run) => run(proc, argv).await,
                None => proc.fail(&format!("sh: {name}: Exec format error"), NOT_EXECUTABLE).await,
            };
        }
        let first_line: Vec<u8> = content.iter().copied().take_while(|byte| *byte != b'\n').collect();
        let mut words: Vec<String> = match first_line.strip_prefix(b"#!") {
            Some(line) => String::from_utf8_lossy(line).split_whitespace().map(str::to_owned).collect(),
            None if content.contains(&0) => {
                return proc.fail(&format!("sh: {name}: Exec format error"), NOT_EXECUTABLE).await;
            }
            None => vec!["/bin/sh".to_owned()],
        };
        words.push(path);
        words.extend(argv[1..].iter().cloned());
        proc.launch(&words).await
    })
}

/// Bytes of a program's file that are looked at.
const MAX_SCRIPT_BYTES: usize = 1 << 20;
