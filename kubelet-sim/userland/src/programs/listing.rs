//! Programs that list files and mounts: `ls`, `du`, `df`, `mount`.

use super::attributes::mode_text;
use super::identity::{group_name, user_name};
use super::options::Options;
use crate::options;
use crate::process::proc::{Outcome, Proc, Stop};
use file_tree::actor::Actor;
use file_tree::mounts::FileTree;
use file_tree::node::{FileType, Metadata};
use file_tree::place::join;

const MAX_DEPTH: u32 = 200;

pub async fn ls(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(
        proc, argv, "laA1dRhnrtiLFSspgoc",
        "all" => 'a', "color" => '1', "almost-all" => 'A', "full-time" => 'l', "recursive" => 'R'
    );
    let paths = if options.operands.is_empty() { vec![".".to_owned()] } else { options.operands.clone() };
    let (mut files, mut folders, mut code) = (Vec::new(), Vec::new(), 0);
    for path in paths {
        let (tree, actor) = (proc.tree(), proc.actor());
        let follows = !options.has('l') || path.ends_with('/');
        let found = tree.metadata(&actor, &path, follows).or_else(|_| tree.metadata(&actor, &path, false));
        match found {
            Ok(found) if found.file_type == FileType::Folder && !options.has('d') => folders.push(path),
            Ok(_) => files.push(path),
            Err(error) => code = proc.fail(&format!("ls: {path}: {error}"), 1).await?,
        }
    }
    let with_titles = folders.len() + files.len() > 1 || options.has('R');
    let mut is_first = files.is_empty();
    for path in files {
        let line = line(proc, &options, &path, &path);
        proc.print(&line).await?;
    }
    while !folders.is_empty() {
        let folder = folders.remove(0);
        if with_titles {
            proc.print(&format!("{}{folder}:\n", if is_first { "" } else { "\n" })).await?;
        }
        is_first = false;
        match children(proc, &options, &folder).await? {
            Ok(below) => {
                if options.has('R') {
                    folders.splice(0..0, below);
                }
            }
            Err(()) => code = 1,
        }
    }
    Ok(code)
}

/// Lists one folder; returns the folders in it.
async fn children(proc: &mut Proc, options: &Options, folder: &str) -> Result<Result<Vec<String>, ()>, Stop> {
    let (tree, actor) = (proc.tree().clone(), proc.actor());
    let mut names = match tree.read_folder(&actor, folder) {
        Ok(names) => names,
        Err(error) => {
            proc.fail(&format!("ls: can't open '{folder}': {error}"), 1).await?;
            return Ok(Err(()));
        }
    };
    let shows_hidden = options.has('a') || options.has('A');
    names.retain(|name| shows_hidden || !name.starts_with('.'));
    if options.has('a') {
        names.splice(0..0, [".".to_owned(), "..".to_owned()]);
        names.sort();
    }
    let metadata = |name: &String| tree.metadata(&actor, &join(folder, name), false).ok();
    if options.has('t') {
        names.sort_by_key(|name| std::cmp::Reverse(metadata(name).map(|found| found.modified_at)));
    }
    if options.has('S') {
        names.sort_by_key(|name| std::cmp::Reverse(metadata(name).map(|found| found.size)));
    }
    if options.has('r') {
        names.reverse();
    }
    let mut out = String::new();
    if options.has('l') || options.has('s') {
        let blocks: u64 = names.iter().filter_map(metadata).map(|found| found.size.div_ceil(4096) * 4).sum();
        out.push_str(&format!("total {blocks}\n"));
    }
    for name in &names {
        out.push_str(&line(proc, options, &join(folder, name), name));
    }
    proc.print(&out).await?;
    let is_folder = |name: &&String| {
        !matches!(name.as_str(), "." | "..") && metadata(name).is_some_and(|found| found.file_type == FileType::Folder)
    };
    Ok(Ok(names.iter().filter(is_folder).map(|name| join(folder, name)).collect()))
}

fn line(proc: &Proc, options: &Options, path: &str, shown: &str) -> String {
    let (tree, actor) = (proc.tree(), proc.actor());
    let Ok(found) = tree.metadata(&actor, path, options.has('L')) else { return format!("{shown}\n") };
    let mark = match found.file_type {
        FileType::Folder if options.has('F') || options.has('p') => "/",
        FileType::Symlink if options.has('F') => "@",
        FileType::File if options.has('F') && found.mode & 0o111 != 0 => "*",
        _ => "",
    };
    let id = if options.has('i') { format!("{:>7} ", found.id) } else { String::new() };
    if !options.has('l') && !options.has('n') && !options.has('g') && !options.has('o') {
        return format!("{id}{shown}{mark}\n");
    }
    let Metadata { links, owner, size, modified_at, .. } = &found;
    let numeric = options.has('n');
    let user = user_name(proc, owner.uid).filter(|_| !numeric).unwrap_or(owner.uid.to_string());
    let group = group_name(proc, owner.gid).filter(|_| !numeric).unwrap_or(owner.gid.to_string());
    let size = if options.has('h') { human(*size) } else { size.to_string() };
    let is_recent = modified_at.duration_since(proc.now()).abs().as_secs() < 180 * 86_400;
    let time = modified_at.strftime(if is_recent { "%b %e %H:%M" } else { "%b %e  %Y" });
    let target = match tree.read_link(&actor, path) {
        Ok(target) => format!(" -> {target}"),
        Err(_) => String::new(),
    };
    let mode = mode_text(&found);
    format!("{id}{mode} {links:>4} {user:<8} {group:<8} {size:>9} {time} {shown}{mark}{target}\n")
}

/// Returns a size as `1.5K`.
fn human(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "");
    for next in ["K", "M", "G", "T"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit.is_empty() { bytes.to_string() } else { format!("{value:.1}{unit}") }
}

pub async fn du(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "sahkmcbd:x");
    let paths = if options.operands.is_empty() { vec![".".to_owned()] } else { options.operands.clone() };
    let mut code = 0;
    for path in paths {
        let (tree, actor) = (proc.tree().clone(), proc.actor());
        if let Err(error) = tree.metadata(&actor, &path, false) {
            code = proc.fail(&format!("du: {path}: {error}"), 1).await?;
            continue;
        }
        let mut lines = Vec::new();
        let whole = usage(&tree, &actor, &path, options.has('b'), &mut lines, 0);
        if options.has('s') {
            lines = vec![(whole, path, true)];
        }
        let unit = if options.has('b') {
            1
        } else if options.has('m') {
            1 << 20
        } else {
            1 << 10
        };
        let shown = lines.iter().filter(|(.., is_folder)| *is_folder || options.has('a'));
        let text: String = shown
            .map(|(bytes, path, _)| match options.has('h') {
                true => format!("{}\t{path}\n", human(*bytes)),
                false => format!("{}\t{path}\n", bytes.div_ceil(unit)),
            })
            .collect();
        proc.print(&text).await?;
    }
    Ok(code)
}

/// Returns the bytes below a path; collects those of every file and folder, the deepest first.
fn usage(
    tree: &FileTree,
    actor: &Actor,
    path: &str,
    is_apparent: bool,
    lines: &mut Vec<(u64, String, bool)>,
    depth: u32,
) -> u64 {
    let Ok(found) = tree.metadata(actor, path, false) else { return 0 };
    let is_folder = found.file_type == FileType::Folder;
    let mut bytes = if is_apparent { found.size } else { found.size.div_ceil(4096) * 4096 };
    if is_folder && depth < MAX_DEPTH {
        for name in tree.read_folder(actor, path).unwrap_or_default() {
            bytes += usage(tree, actor, &join(path, &name), is_apparent, lines, depth + 1);
        }
    }
    lines.push((bytes, path.to_owned(), is_folder));
    bytes
}

pub async fn df(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "hkmPTia");
    let tree = proc.tree().clone();
    let mut mounts: Vec<String> = Vec::new();
    for path in &options.operands {
        match tree.find(&proc.actor(), path, true) {
            Ok(place) => mounts.push(tree.mount_of(&place.path).0.to_owned()),
            Err(error) => return proc.fail(&format!("df: {path}: {error}"), 1).await,
        }
    }
    if options.operands.is_empty() {
        mounts.extend(tree.mounts().keys().cloned());
    }
    let mut text = "Filesystem           1K-blocks      Used Available Use% Mounted on\n".to_owned();
    for at in mounts {
        let Some(mount) = tree.mount_at(&at) else { continue };
        let (limit, used) = (mount.volume.root().space().limit_bytes >> 10, mount.volume.used_bytes().div_ceil(1024));
        let percent = (used * 100).div_ceil(limit.max(1));
        let free = limit.saturating_sub(used);
        text.push_str(&format!("{:<20} {limit:>9} {used:>9} {free:>9} {percent:>3}% {at}\n", mount.fs_type));
    }
    proc.print(&text).await?;
    Ok(0)
}

/// Returns the lines of `/proc/mounts`.
pub fn mount_lines(tree: &FileTree) -> Vec<(String, String, &'static str)> {
    let line = |(at, mount): (&String, &file_tree::mounts::Mount)| {
        (at.clone(), mount.fs_type.clone(), if mount.is_read_only { "ro,relatime" } else { "rw,relatime" })
    };
    tree.mounts().iter().map(line).collect()
}

pub async fn mount(proc: &mut Proc, argv: &[String]) -> Outcome {
    if argv.len() > 1 {
        return proc.fail("mount: permission denied (are you root?)", 1).await;
    }
    let lines = mount_lines(proc.tree()).into_iter();
    let text: String =
        lines.map(|(at, fs_type, flags)| format!("{fs_type} on {at} type {fs_type} ({flags})\n")).collect();
    proc.print(&text).await?;
    Ok(0)
}
