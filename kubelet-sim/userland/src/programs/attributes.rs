//! Programs about modes, owners and times: `chmod`, `chown`, `stat`.

use super::identity::{group_name, user_name};
use crate::options;
use crate::process::proc::{Outcome, Proc};
use file_tree::actor::Actor;
use file_tree::mounts::FileTree;
use file_tree::node::{FileType, Metadata};
use file_tree::place::join;

const MAX_DEPTH: u32 = 200;

/// Reads a mode: octal, or changes such as `u+x,go-w` to the present one.
pub fn parse_mode(text: &str, present: u32, is_folder: bool) -> Option<u32> {
    if text.bytes().all(|digit| (b'0'..=b'7').contains(&digit)) && !text.is_empty() {
        return u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    }
    let mut mode = present;
    for clause in text.split(',') {
        let at = clause.find(['+', '-', '='])?;
        let (who, rest) = clause.split_at(at);
        let mut mask = 0;
        for letter in who.chars() {
            mask |= match letter {
                'u' => 0o4700,
                'g' => 0o2070,
                'o' => 0o1007,
                'a' => 0o7777,
                _ => return None,
            };
        }
        let mask = if who.is_empty() { 0o7777 } else { mask };
        let mut bits = 0;
        for letter in rest[1..].chars() {
            bits |= match letter {
                'r' => 0o444,
                'w' => 0o222,
                'x' => 0o111,
                'X' if is_folder || present & 0o111 != 0 => 0o111,
                'X' => 0,
                's' => 0o6000,
                't' => 0o1000,
                _ => return None,
            };
        }
        match &rest[..1] {
            "+" => mode |= bits & mask,
            "-" => mode &= !(bits & mask),
            _ => mode = mode & !mask | bits & mask,
        }
    }
    Some(mode)
}

/// Returns a path and, when asked for, everything below it.
fn with_children(tree: &FileTree, actor: &Actor, path: &str, recurses: bool, depth: u32, found: &mut Vec<String>) {
    found.push(path.to_owned());
    let is_folder = tree.metadata(actor, path, false).is_ok_and(|metadata| metadata.file_type == FileType::Folder);
    if recurses && is_folder && depth < MAX_DEPTH {
        for name in tree.read_folder(actor, path).unwrap_or_default() {
            with_children(tree, actor, &join(path, &name), recurses, depth + 1, found);
        }
    }
}

pub async fn chmod(proc: &mut Proc, argv: &[String]) -> Outcome {
    // `chmod -x file` has a mode that looks like an option.
    let is_mode =
        |word: &String| word.starts_with('-') && word[1..].chars().all(|c| "rwxXst".contains(c)) && word.len() > 1;
    let mode_at = argv.iter().skip(1).position(|word| !word.starts_with('-') || is_mode(word)).map(|at| at + 1);
    let recurses = argv.iter().skip(1).take(mode_at.unwrap_or(1) - 1).any(|word| word == "-R");
    let Some((mode, paths)) = mode_at.and_then(|at| argv[at..].split_first()).filter(|(_, paths)| !paths.is_empty())
    else {
        return proc.fail("chmod: missing operand", 1).await;
    };
    let mut code = 0;
    for path in paths {
        let (tree, actor) = (proc.tree().clone(), proc.actor());
        let mut all = Vec::new();
        with_children(&tree, &actor, path, recurses, 0, &mut all);
        for path in all {
            let changed = tree.metadata(&actor, &path, true).map_err(|error| error.to_string()).and_then(|found| {
                let new = parse_mode(mode, found.mode, found.file_type == FileType::Folder);
                let new = new.ok_or(format!("invalid mode '{mode}'"))?;
                tree.set_mode(&actor, &path, new).map_err(|error| error.to_string())
            });
            if let Err(error) = changed {
                code = proc.fail(&format!("chmod: {path}: {error}"), 1).await?;
            }
        }
    }
    Ok(code)
}

/// Reads a user or group: a number, or a name of the container's files.
fn number_of(proc: &Proc, file: &str, text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let bytes = proc.tree().read(&Actor::root(proc.now()), file).ok()?;
    let lines = String::from_utf8_lossy(&bytes).into_owned();
    let found = lines.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(text)).then(|| parts.nth(1)?.parse().ok())?
    });
    found.or((text == "root").then_some(0))
}

pub async fn chown(proc: &mut Proc, argv: &[String]) -> Outcome {
    change_owner(proc, argv, false).await
}

pub async fn chgrp(proc: &mut Proc, argv: &[String]) -> Outcome {
    change_owner(proc, argv, true).await
}

async fn change_owner(proc: &mut Proc, argv: &[String], is_group: bool) -> Outcome {
    let options = options!(proc, argv, "RhfvLHP");
    let name = &argv[0];
    let Some((owner, paths)) = options.operands.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return proc.fail(&format!("{name}: missing operand"), 1).await;
    };
    let (user, group) = match (is_group, owner.split_once([':', '.'])) {
        (true, _) => ("", owner.as_str()),
        (false, Some((user, group))) => (user, group),
        (false, None) => (owner.as_str(), ""),
    };
    let uid = if user.is_empty() { None } else { number_of(proc, "/etc/passwd", user) };
    let gid = if group.is_empty() { None } else { number_of(proc, "/etc/group", group) };
    if uid.is_none() && !user.is_empty() {
        return proc.fail(&format!("{name}: unknown user {user}"), 1).await;
    }
    if gid.is_none() && !group.is_empty() {
        return proc.fail(&format!("{name}: unknown group {group}"), 1).await;
    }
    let mut code = 0;
    for path in paths {
        let (tree, actor) = (proc.tree().clone(), proc.actor());
        let mut all = Vec::new();
        with_children(&tree, &actor, path, options.has('R'), 0, &mut all);
        for path in all {
            if let Err(error) = tree.set_owner(&actor, &path, uid, gid, !options.has('h') && !options.has('R')) {
                code = proc.fail(&format!("{name}: {path}: {error}"), 1).await?;
            }
        }
    }
    Ok(code)
}

/// Returns `drwxr-xr-x`.
pub fn mode_text(metadata: &Metadata) -> String {
    let mode = metadata.mode;
    let mut text = String::from(metadata.file_type.letter());
    for (shift, special, on, off) in [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => on,
            (false, true) => off,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

pub async fn stat(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "Lc:ft");
    let mut code = 0;
    for path in &options.operands {
        let found = proc.tree().metadata(&proc.actor(), path, options.has('L'));
        let metadata = match found {
            Ok(metadata) => metadata,
            Err(error) => {
                code = proc.fail(&format!("stat: can't stat '{path}': {error}"), 1).await?;
                continue;
            }
        };
        let target = proc.tree().read_link(&proc.actor(), path).ok();
        let user = user_name(proc, metadata.owner.uid).unwrap_or("UNKNOWN".to_owned());
        let group = group_name(proc, metadata.owner.gid).unwrap_or("UNKNOWN".to_owned());
        let format = options.value('c').unwrap_or(
            "  File: %N\n  Size: %s\tBlocks: %b\tIO Block: 4096   %F\n\
             Access: (%04a/%A)  Uid: (%u/%U)   Gid: (%g/%G)\nModify: %y",
        );
        let file_type = match metadata.file_type {
            FileType::File if metadata.size == 0 => "regular empty file",
            FileType::File => "regular file",
            FileType::Folder => "directory",
            FileType::Symlink => "symbolic link",
            FileType::Device => "character special file",
        };
        let (mut out, mut chars) = (String::new(), format.chars());
        while let Some(next) = chars.next() {
            if next != '%' {
                out.push(next);
                continue;
            }
            let mut letter = chars.next();
            let is_wide = letter == Some('0');
            while letter.is_some_and(|c| c.is_ascii_digit()) {
                letter = chars.next();
            }
            match letter {
                Some('a') if is_wide => out.push_str(&format!("{:04o}", metadata.mode)),
                Some('a') => out.push_str(&format!("{:o}", metadata.mode)),
                Some('A') => out.push_str(&mode_text(&metadata)),
                Some('u') => out.push_str(&metadata.owner.uid.to_string()),
                Some('g') => out.push_str(&metadata.owner.gid.to_string()),
                Some('U') => out.push_str(&user),
                Some('G') => out.push_str(&group),
                Some('s') => out.push_str(&metadata.size.to_string()),
                Some('b') => out.push_str(&metadata.size.div_ceil(512).to_string()),
                Some('n') => out.push_str(path),
                Some('N') => match &target {
                    Some(target) => out.push_str(&format!("'{path}' -> '{target}'")),
                    None => out.push_str(path),
                },
                Some('F') => out.push_str(file_type),
                Some('h') => out.push_str(&metadata.links.to_string()),
                Some('i') => out.push_str(&metadata.id.to_string()),
                Some('Y') => out.push_str(&metadata.modified_at.as_second().to_string()),
                Some('y') => {
                    out.push_str(&metadata.modified_at.strftime("%Y-%m-%d %H:%M:%S.%9f +0000").to_string());
                }
                Some('%') => out.push('%'),
                Some(other) => out.extend(['%', other]),
                None => out.push('%'),
            }
        }
        proc.print(&format!("{out}\n")).await?;
    }
    Ok(code)
}
