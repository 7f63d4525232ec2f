//! `dd`: copies blocks.

use super::options::size;
use crate::process::proc::{CHUNK_BYTES, Outcome, Proc};
use file_tree::actor::OpenOptions;

const INPUT: u8 = 120;
const OUTPUT: u8 = 121;
/// Bytes of the largest block.
const MAX_BLOCK_BYTES: u64 = 64 << 20;

pub async fn dd(proc: &mut Proc, argv: &[String]) -> Outcome {
    let (mut from, mut to, mut block, mut count) = (0, 1, 512, u64::MAX);
    let (mut skip, mut seek, mut is_quiet, mut keeps) = (0, 0, false, false);
    let mut target = None;
    for word in &argv[1..] {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = size(value).filter(|_| !value.is_empty());
        match (name, number) {
            ("if", _) => match proc.open(value, OpenOptions::READ) {
                Ok(descriptor) => {
                    proc.descriptors.insert(INPUT, descriptor);
                    from = INPUT;
                }
                Err(error) => return proc.fail(&format!("dd: can't open '{value}': {error}"), 1).await,
            },
            ("of", _) => target = Some(value.to_owned()),
            ("bs" | "ibs" | "obs", Some(bytes)) if bytes > 0 => block = bytes.min(MAX_BLOCK_BYTES),
            ("count", Some(number)) => count = number,
            ("skip", Some(number)) => skip = number,
            ("seek", Some(number)) => seek = number,
            ("conv", _) => keeps = value.contains("notrunc"),
            ("status", _) => is_quiet = value == "none",
            ("iflag" | "oflag", _) => {}
            _ => return proc.fail(&format!("dd: invalid argument '{word}'"), 1).await,
        }
    }
    if let Some(path) = target {
        let options = OpenOptions { truncates: !keeps && seek == 0, ..OpenOptions::CREATE };
        match proc.open(&path, options) {
            Ok(descriptor) => {
                if let crate::process::descriptor::Descriptor::File(file) = &descriptor {
                    *file.offset.lock() = usize::try_from(seek.saturating_mul(block)).unwrap_or(usize::MAX);
                }
                let descriptor = positioned(descriptor);
                proc.descriptors.insert(OUTPUT, descriptor);
                to = OUTPUT;
            }
            Err(error) => return proc.fail(&format!("dd: can't open '{path}': {error}"), 1).await,
        }
    }
    let (mut blocks, mut parts, mut copied, mut code) = (0_u64, 0_u64, 0_u64, 0);
    let mut turn = 0;
    while turn < count.saturating_add(skip) {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < block {
            let wanted = usize::try_from(block).unwrap_or(usize::MAX) - bytes.len();
            let part = proc.read(from, wanted.min(CHUNK_BYTES)).await.unwrap_or_default();
            if part.is_empty() {
                break;
            }
            bytes.extend(part);
        }
        turn += 1;
        if bytes.is_empty() {
            break;
        }
        if turn <= skip {
            continue;
        }
        if bytes.len() as u64 == block {
            blocks += 1
        } else {
            parts += 1
        }
        if proc.write(to, &bytes).await.is_err() {
            code = proc.fail("dd: error writing: No space left on device", 1).await?;
            break;
        }
        copied += bytes.len() as u64;
    }
    (INPUT..=OUTPUT).for_each(|number| drop(proc.descriptors.remove(&number)));
    if !is_quiet {
        let records = format!("{blocks}+{parts} records in\n{blocks}+{parts} records out\n");
        proc.error(&format!("{records}{copied} bytes copied\n")).await?;
    }
    Ok(code)
}

/// Makes a descriptor write at its position instead of at the end.
fn positioned(descriptor: crate::process::descriptor::Descriptor) -> crate::process::descriptor::Descriptor {
    use crate::process::descriptor::{Descriptor, OpenFile};
    match descriptor {
        Descriptor::File(file) => Descriptor::File(std::sync::Arc::new(OpenFile {
            node: file.node.clone(),
            path: file.path.clone(),
            offset: parking_lot::Mutex::new(*file.offset.lock()),
            appends: false,
            reads: file.reads,
            writes: file.writes,
        })),
        other => other,
    }
}
