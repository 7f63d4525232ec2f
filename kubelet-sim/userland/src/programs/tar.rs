//! `tar`: makes, extracts and lists archives, so that `kubectl cp` works both ways.
//!
//! Archives have the ustar format; long names have the records of GNU tar. Compressed archives are refused.

use super::files::make_all;
use crate::options;
use crate::process::proc::{Outcome, Proc, Stop};
use file_tree::actor::{Actor, OpenOptions};
use file_tree::error::FileError;
use file_tree::mounts::FileTree;
use file_tree::node::{FileType, Metadata};
use file_tree::place::join;

const BLOCK: usize = 512;
const ARCHIVE: u8 = 130;
const MAX_DEPTH: u32 = 200;

pub async fn tar(proc: &mut Proc, argv: &[String]) -> Outcome {
    // `tar xf -` has its options without a dash.
    let mut words = argv.to_vec();
    if let Some(first) = words.get_mut(1).filter(|first| !first.starts_with('-')) {
        first.insert(0, '-');
    }
    let options = options!(
        proc, words, "cxtvf:C:mpOokhzjJ",
        "no-same-owner" => 'o', "no-same-permissions" => 'm', "create" => 'c', "extract" => 'x', "list" => 't',
        "file" => 'f', "directory" => 'C', "verbose" => 'v', "no-overwrite-dir" => 'm'
    );
    if options.has('z') || options.has('j') || options.has('J') {
        return proc.fail("tar: compressed archives are more than this simulated tar knows", 1).await;
    }
    let name = options.value('f').unwrap_or("-");
    if name != "-" {
        let mode = if options.has('c') { OpenOptions::CREATE } else { OpenOptions::READ };
        match proc.open(name, mode) {
            Ok(descriptor) => drop(proc.descriptors.insert(ARCHIVE, descriptor)),
            Err(error) => return proc.fail(&format!("tar: can't open '{name}': {error}"), 1).await,
        }
    }
    let before = proc.user.working_dir.clone();
    if let Some(folder) = options.value('C') {
        match proc.tree().find(&proc.actor(), folder, true) {
            Ok(place) if place.node.is_folder() => proc.user.working_dir = place.path,
            _ => {
                return proc
                    .fail(&format!("tar: can't change directory to '{folder}': No such file or directory"), 1)
                    .await;
            }
        }
    }
    let ended = if options.has('c') {
        create(proc, &options.operands, options.has('v'), options.has('h'), if name == "-" { 1 } else { ARCHIVE }).await
    } else if options.has('x') || options.has('t') {
        let input = if name == "-" { 0 } else { ARCHIVE };
        let mode = Reading { extracts: options.has('x'), is_verbose: options.has('v'), prints: options.has('O') };
        read(proc, &options.operands, mode, input).await
    } else {
        proc.fail("tar: need at least one of c, x, t", 1).await
    };
    proc.user.working_dir = before;
    proc.descriptors.remove(&ARCHIVE);
    ended
}

async fn create(proc: &mut Proc, paths: &[String], is_verbose: bool, follows: bool, to: u8) -> Outcome {
    if paths.is_empty() {
        return proc.fail("tar: empty archive", 1).await;
    }
    let mut code = 0;
    for path in paths {
        let (tree, actor) = (proc.tree().clone(), proc.actor());
        let mut found = Vec::new();
        if let Err((path, error)) = collect(&tree, &actor, path, follows, &mut found, 0) {
            code = proc.fail(&format!("tar: {path}: {error}"), 1).await?;
        }
        for (path, metadata) in found {
            let name = path.trim_start_matches('/').to_owned();
            let name = if name.is_empty() { ".".to_owned() } else { name };
            if is_verbose {
                proc.error(&format!("{name}\n")).await?;
            }
            let mut bytes = Vec::new();
            entry(&tree, &actor, &path, &name, &metadata, &mut bytes);
            proc.write(to, &bytes).await?;
        }
    }
    proc.write(to, &[0; 2 * BLOCK]).await?;
    Ok(code)
}

fn collect(
    tree: &FileTree,
    actor: &Actor,
    path: &str,
    follows: bool,
    found: &mut Vec<(String, Metadata)>,
    depth: u32,
) -> Result<(), (String, FileError)> {
    let of = |error| (path.to_owned(), error);
    let metadata = tree.metadata(actor, path, follows).map_err(of)?;
    let is_folder = metadata.file_type == FileType::Folder;
    found.push((path.to_owned(), metadata));
    if is_folder && depth < MAX_DEPTH {
        for name in tree.read_folder(actor, path).map_err(of)? {
            collect(tree, actor, &join(path, &name), follows, found, depth + 1)?;
        }
    }
    Ok(())
}

/// Adds the records of one file.
fn entry(tree: &FileTree, actor: &Actor, path: &str, name: &str, metadata: &Metadata, bytes: &mut Vec<u8>) {
    let is_folder = metadata.file_type == FileType::Folder;
    let name = if is_folder { format!("{name}/") } else { name.to_owned() };
    let target = tree.read_link(actor, path).ok().filter(|_| metadata.file_type == FileType::Symlink);
    let content = match metadata.file_type {
        FileType::File => tree.read(actor, path).unwrap_or_default(),
        _ => Vec::new(),
    };
    let kind = match metadata.file_type {
        FileType::Folder => b'5',
        FileType::Symlink => b'2',
        _ => b'0',
    };
    for (long, kind) in [(Some(&name), b'L'), (target.as_ref(), b'K')] {
        if let Some(text) = long.filter(|text| text.len() > 100) {
            let mut text = text.clone().into_bytes();
            text.push(0);
            header("././@LongLink", "", kind, text.len(), metadata, bytes);
            padded(&text, bytes);
        }
    }
    header(&name, target.as_deref().unwrap_or_default(), kind, content.len(), metadata, bytes);
    padded(&content, bytes);
}

fn padded(content: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend(content);
    bytes.resize(bytes.len().div_ceil(BLOCK) * BLOCK, 0);
}

fn header(name: &str, target: &str, kind: u8, size: usize, metadata: &Metadata, bytes: &mut Vec<u8>) {
    let mut block = [0_u8; BLOCK];
    let mut put = |at: usize, length: usize, text: &[u8]| {
        let length = length.min(text.len());
        block[at..at + length].copy_from_slice(&text[..length]);
    };
    put(0, 100, name.as_bytes());
    put(100, 8, format!("{:07o}\0", metadata.mode).as_bytes());
    put(108, 8, format!("{:07o}\0", metadata.owner.uid & 0o7_777_777).as_bytes());
    put(116, 8, format!("{:07o}\0", metadata.owner.gid & 0o7_777_777).as_bytes());
    put(124, 12, format!("{size:011o}\0").as_bytes());
    put(136, 12, format!("{:011o}\0", metadata.modified_at.as_second().max(0)).as_bytes());
    put(148, 8, b"        ");
    put(156, 1, &[kind]);
    put(157, 100, target.as_bytes());
    put(257, 8, b"ustar  \0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes.extend(block);
}

/// What is done with the files of an archive.
#[derive(Clone, Copy)]
struct Reading {
    extracts: bool,
    is_verbose: bool,
    /// Prints the content instead of writing files.
    prints: bool,
}

/// Reads exactly so many bytes; fewer at the end.
async fn exactly(proc: &mut Proc, from: u8, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let part = proc.read(from, length - bytes.len()).await.unwrap_or_default();
        if part.is_empty() {
            break;
        }
        bytes.extend(part);
    }
    bytes
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn octal(field: &[u8]) -> u64 {
    u64::from_str_radix(text(field).trim(), 8).unwrap_or(0)
}

async fn read(proc: &mut Proc, wanted: &[String], mode: Reading, from: u8) -> Outcome {
    const MAX_FILE_BYTES: u64 = 64 << 20;
    let (mut long_name, mut long_target, mut code) = (None, None, 0);
    loop {
        let block = exactly(proc, from, BLOCK).await;
        if block.len() < BLOCK || block.iter().all(|byte| *byte == 0) {
            if block.len() < BLOCK && !block.is_empty() {
                return proc.fail("tar: short read", 1).await;
            }
            // What follows the end of the archive is read, so that its writer is not cut off.
            while !proc.read(from, BLOCK).await.unwrap_or_default().is_empty() {}
            return Ok(code);
        }
        let sum: u32 =
            block.iter().enumerate().map(|(at, b)| if (148..156).contains(&at) { 32 } else { u32::from(*b) }).sum();
        if u64::from(sum) != octal(&block[148..156]) {
            return proc.fail("tar: invalid tar header checksum", 1).await;
        }
        let size = octal(&block[124..136]);
        if size > MAX_FILE_BYTES {
            return proc.fail("tar: file is too large", 1).await;
        }
        let size = size as usize;
        let mut content = exactly(proc, from, size.div_ceil(BLOCK) * BLOCK).await;
        if content.len() < size {
            return proc.fail("tar: short read", 1).await;
        }
        content.truncate(size);
        let kind = block[156];
        match kind {
            b'L' => long_name = Some(text(&content)),
            b'K' => long_target = Some(text(&content)),
            b'x' | b'g' => {
                for line in String::from_utf8_lossy(&content).lines() {
                    let record = line.split_once(' ').and_then(|(_, record)| record.split_once('='));
                    match record {
                        Some(("path", path)) => long_name = Some(path.to_owned()),
                        Some(("linkpath", path)) => long_target = Some(path.to_owned()),
                        _ => {}
                    }
                }
            }
            _ => {
                let prefix = if &block[257..263] == b"ustar\0" { text(&block[345..500]) } else { String::new() };
                let short = text(&block[..100]);
                let short = if prefix.is_empty() { short } else { format!("{prefix}/{short}") };
                let name = long_name.take().unwrap_or(short);
                let target = long_target.take().unwrap_or_else(|| text(&block[157..257]));
                let is_wanted = wanted.is_empty()
                    || wanted.iter().any(|path| {
                        let path = path.trim_end_matches('/');
                        name.trim_end_matches('/') == path || name.starts_with(&format!("{path}/"))
                    });
                if !is_wanted {
                    continue;
                }
                let file = Extracted { name, target, kind, mode: octal(&block[100..108]) as u32, content };
                code = code.max(extract(proc, mode, file).await?);
            }
        }
    }
}

struct Extracted {
    name: String,
    target: String,
    kind: u8,
    mode: u32,
    content: Vec<u8>,
}

async fn extract(proc: &mut Proc, mode: Reading, file: Extracted) -> Result<i32, Stop> {
    let Extracted { name, target, kind, mode: bits, content } = file;
    if mode.is_verbose || !mode.extracts {
        proc.print(&format!("{name}\n")).await?;
    }
    if !mode.extracts {
        return Ok(0);
    }
    if mode.prints {
        proc.write(1, &content).await?;
        return Ok(0);
    }
    let path = name.trim_start_matches('/').trim_end_matches('/').to_owned();
    if path.split('/').any(|part| part == "..") {
        return proc.fail(&format!("tar: name with '..' skipped: {name}"), 1).await;
    }
    let (tree, actor) = (proc.tree().clone(), proc.actor());
    let written = (|| {
        if let Some((folder, _)) = path.rsplit_once('/') {
            make_all(&tree, &actor, folder)?;
        }
        match kind {
            b'5' => match path.is_empty() || path == "." || tree.is_folder(&actor, &path) {
                true => Ok(()),
                false => tree.create_folder(&actor, &path, bits),
            },
            b'2' => {
                let _ = tree.remove_file(&actor, &path);
                tree.create_link(&actor, &path, &target)
            }
            b'1' => tree.hard_link(&actor, target.trim_start_matches('/'), &path),
            _ => {
                let _ = tree.remove_file(&actor, &path);
                tree.write(&actor, &path, &content)?;
                tree.set_mode(&actor, &path, bits & !actor.umask)
            }
        }
    })();
    match written {
        Ok(()) => Ok(0),
        Err(error) => proc.fail(&format!("tar: can't open '{name}': {error}"), 1).await,
    }
}
