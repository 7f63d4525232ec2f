//! Programs that make, copy, move and remove files.

use super::attributes::parse_mode;
use super::options::Options;
use crate::options;
use crate::process::proc::{Outcome, Proc, Stop};
use file_tree::actor::Actor;
use file_tree::error::FileError;
use file_tree::mounts::FileTree;
use file_tree::node::{AttributeChange, FileType};
use file_tree::place::join;

/// Levels to which folders are copied and removed.
const MAX_DEPTH: u32 = 200;

/// Returns the last part of a path.
pub fn base(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() { "/" } else { trimmed.rsplit('/').next().unwrap_or_default() }
}

pub async fn touch(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "acmd:t:r:h");
    let mut code = 0;
    let mut at = proc.now();
    if let Some(text) = options.value('d') {
        let seconds = text.strip_prefix('@').and_then(|seconds| seconds.parse().ok());
        let given = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        match given.or_else(|| text.parse().ok()) {
            Some(given) => at = given,
            None => return proc.fail(&format!("touch: invalid date '{text}'"), 1).await,
        }
    }
    for path in &options.operands {
        let (tree, actor) = (proc.tree(), proc.actor());
        let made = match tree.metadata(&actor, path, true) {
            Err(FileError::NotFound) if options.has('c') => Ok(()),
            Err(FileError::NotFound) => tree.open(&actor, path, file_tree::actor::OpenOptions::APPEND).map(drop),
            Err(error) => Err(error),
            Ok(_) if tree.allows(&actor, path, file_tree::place::Access::Write) && !options.has('d') => {
                let change = AttributeChange { modified_at: Some(at), ..AttributeChange::default() };
                tree.find(&actor, path, true).and_then(|place| place.node.change(change, actor.now))
            }
            Ok(_) => tree.set_modified(&actor, path, at),
        };
        if let Err(error) = made {
            code = proc.fail(&format!("touch: {path}: {error}"), 1).await?;
        }
    }
    Ok(code)
}

pub async fn mkdir(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "pm:v");
    let mode = options.value('m').map(|text| parse_mode(text, 0o777, true));
    if mode == Some(None) {
        return proc.fail(&format!("mkdir: invalid mode '{}'", options.value('m').unwrap_or_default()), 1).await;
    }
    let mut code = 0;
    for path in &options.operands {
        let (tree, actor) = (proc.tree().clone(), proc.actor());
        let made =
            if options.has('p') { make_all(&tree, &actor, path) } else { tree.create_folder(&actor, path, 0o777) };
        let made = made.and_then(|()| match mode.flatten() {
            Some(mode) => tree.set_mode(&actor, path, mode),
            None => Ok(()),
        });
        if let Err(error) = made {
            code = proc.fail(&format!("mkdir: can't create directory '{path}': {error}"), 1).await?;
        }
    }
    Ok(code)
}

/// Makes a folder and those above it.
pub fn make_all(tree: &FileTree, actor: &Actor, path: &str) -> Result<(), FileError> {
    let mut at = if path.starts_with('/') { "/".to_owned() } else { String::new() };
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = if at.is_empty() { name.to_owned() } else { join(&at, name) };
        match tree.metadata(actor, &at, true) {
            Ok(metadata) if metadata.file_type == FileType::Folder => {}
            Ok(_) => return Err(FileError::Exists),
            Err(_) => tree.create_folder(actor, &at, 0o777)?,
        }
    }
    Ok(())
}

pub async fn rmdir(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "p", "ignore-fail-on-non-empty" => 'p');
    let mut code = 0;
    for path in &options.operands {
        if let Err(error) = proc.tree().remove_folder(&proc.actor(), path) {
            code = proc.fail(&format!("rmdir: '{path}': {error}"), 1).await?;
        }
    }
    Ok(code)
}

pub async fn rm(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "rRfiv");
    let recurses = options.has('r') || options.has('R');
    let mut errors = Vec::new();
    let (tree, actor) = (proc.tree().clone(), proc.actor());
    for path in &options.operands {
        match base(path) {
            "." | ".." | "/" => errors.push(format!("rm: can't remove '{path}': Invalid argument")),
            _ => remove(&tree, &actor, path, recurses, options.has('f'), &mut errors, 0),
        }
    }
    for error in &errors {
        proc.error(&format!("{error}\n")).await?;
    }
    Ok(i32::from(!errors.is_empty()))
}

fn remove(
    tree: &FileTree,
    actor: &Actor,
    path: &str,
    recurses: bool,
    is_forced: bool,
    errors: &mut Vec<String>,
    depth: u32,
) {
    let found = tree.metadata(actor, path, false);
    let removed = match found {
        Err(FileError::NotFound) if is_forced => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.file_type != FileType::Folder => tree.remove_file(actor, path),
        Ok(_) if !recurses => {
            errors.push(format!("rm: '{path}' is a directory"));
            return;
        }
        Ok(_) if depth > MAX_DEPTH => Err(FileError::NameTooLong),
        Ok(_) => {
            for name in tree.read_folder(actor, path).unwrap_or_default() {
                remove(tree, actor, &join(path.trim_end_matches('/'), &name), recurses, is_forced, errors, depth + 1);
            }
            tree.remove_folder(actor, path)
        }
    };
    if let Err(error) = removed {
        errors.push(format!("rm: can't remove '{path}': {error}"));
    }
}

/// Returns the path to which a file goes: into the target when it is a folder.
fn target_of(tree: &FileTree, actor: &Actor, from: &str, to: &str, is_folder: bool) -> String {
    if is_folder && tree.is_folder(actor, to) { join(to.trim_end_matches('/'), base(from)) } else { to.to_owned() }
}

/// Splits the operands into sources and target.
async fn sources<'a>(
    proc: &mut Proc,
    name: &str,
    options: &'a Options,
) -> Result<Result<(&'a [String], &'a str), i32>, Stop> {
    match options.operands.split_last() {
        Some((target, sources)) if !sources.is_empty() => {
            if sources.len() > 1 && !proc.tree().is_folder(&proc.actor(), target) {
                return proc.fail(&format!("{name}: target '{target}' is not a directory"), 1).await.map(Err);
            }
            Ok(Ok((sources, target)))
        }
        _ => proc.fail(&format!("{name}: missing operand"), 1).await.map(Err),
    }
}

pub async fn cp(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "rRafpdLPTuvn");
    let (sources, target) = match sources(proc, "cp", &options).await? {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let mut code = 0;
    for from in sources {
        let (tree, actor) = (proc.tree().clone(), proc.actor());
        let to = target_of(&tree, &actor, from, target, !options.has('T'));
        if let Err((path, error)) = copy(&tree, &actor, from, &to, &options, 0) {
            let message = match error {
                None => format!("cp: omitting directory '{path}'"),
                Some(FileError::NotFound) if path == *from => {
                    format!("cp: can't stat '{path}': {}", FileError::NotFound)
                }
                Some(error) => format!("cp: can't create '{path}': {error}"),
            };
            code = proc.fail(&message, 1).await?;
        }
    }
    Ok(code)
}

/// Copies a file or folder. The error names the path; without a reason a folder was left out.
fn copy(
    tree: &FileTree,
    actor: &Actor,
    from: &str,
    to: &str,
    options: &Options,
    depth: u32,
) -> Result<(), (String, Option<FileError>)> {
    let keeps = options.has('a') || options.has('p');
    let recurses = options.has('r') || options.has('R') || options.has('a');
    let follows = !(options.has('a') || options.has('d') || options.has('P') || recurses && !options.has('L'));
    let of = |path: &str| {
        let path = path.to_owned();
        move |error: FileError| (path, Some(error))
    };
    let metadata = tree.metadata(actor, from, follows).map_err(of(from))?;
    match metadata.file_type {
        FileType::Folder if !recurses => return Err((from.to_owned(), None)),
        FileType::Folder if depth > MAX_DEPTH => return Err((from.to_owned(), Some(FileError::NameTooLong))),
        FileType::Folder => {
            if !tree.is_folder(actor, to) {
                tree.create_folder(actor, to, metadata.mode | 0o700).map_err(of(to))?;
            }
            for name in tree.read_folder(actor, from).map_err(of(from))? {
                copy(tree, actor, &join(from, &name), &join(to, &name), options, depth + 1)?;
            }
        }
        FileType::Symlink => {
            let target = tree.read_link(actor, from).map_err(of(from))?;
            let _ = tree.remove_file(actor, to);
            tree.create_link(actor, to, &target).map_err(of(to))?;
        }
        FileType::File | FileType::Device => {
            let content = tree.read(actor, from).map_err(of(from))?;
            let is_new = tree.metadata(actor, to, true).is_err();
            if options.has('n') && !is_new {
                return Ok(());
            }
            if options.has('f') && !tree.allows(actor, to, file_tree::place::Access::Write) {
                let _ = tree.remove_file(actor, to);
            }
            tree.write(actor, to, &content).map_err(of(to))?;
            if is_new {
                let _ = tree.set_mode(actor, to, metadata.mode & !actor.umask);
            }
        }
    }
    if keeps && metadata.file_type != FileType::Symlink {
        let _ = tree.set_mode(actor, to, metadata.mode);
        let _ = tree.set_owner(actor, to, Some(metadata.owner.uid), Some(metadata.owner.gid), true);
        let _ = tree.set_modified(actor, to, metadata.modified_at);
    }
    Ok(())
}

pub async fn mv(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "finvT");
    let (sources, target) = match sources(proc, "mv", &options).await? {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let mut code = 0;
    for from in sources {
        let (tree, actor) = (proc.tree().clone(), proc.actor());
        let to = target_of(&tree, &actor, from, target, !options.has('T'));
        if options.has('n') && tree.metadata(&actor, &to, false).is_ok() {
            continue;
        }
        let mut errors = Vec::new();
        match tree.rename(&actor, from, &to) {
            Ok(()) => {}
            Err(FileError::CrossDevice) => {
                let all = Options::parse(&["-a".to_owned()], "a", &[]).unwrap_or_default();
                match copy(&tree, &actor, from, &to, &all, 0) {
                    Ok(()) => remove(&tree, &actor, from, true, true, &mut errors, 0),
                    Err((path, error)) => {
                        errors.push(format!("mv: can't create '{path}': {}", error.unwrap_or(FileError::IsFolder)));
                    }
                }
            }
            Err(error) => errors.push(format!("mv: can't rename '{from}': {error}")),
        }
        for error in errors {
            code = proc.fail(&error, 1).await?;
        }
    }
    Ok(code)
}

pub async fn ln(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "sfnvT");
    let (sources, target) = match options.operands.as_slice() {
        [only] => (std::slice::from_ref(only), "."),
        _ => match sources(proc, "ln", &options).await? {
            Ok(found) => found,
            Err(code) => return Ok(code),
        },
    };
    let mut code = 0;
    for from in sources {
        let (tree, actor) = (proc.tree().clone(), proc.actor());
        let is_link = tree.metadata(&actor, target, false).is_ok_and(|found| found.file_type == FileType::Symlink);
        let to = target_of(&tree, &actor, from, target, !(options.has('T') || options.has('n') && is_link));
        if options.has('f') {
            let _ = tree.remove_file(&actor, &to);
        }
        let made =
            if options.has('s') { tree.create_link(&actor, &to, from) } else { tree.hard_link(&actor, from, &to) };
        if let Err(error) = made {
            code = proc.fail(&format!("ln: {to}: {error}"), 1).await?;
        }
    }
    Ok(code)
}
