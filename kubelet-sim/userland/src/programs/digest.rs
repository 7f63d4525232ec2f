//! `sha256sum`, `md5sum` and `base64`.

use super::input::Input;
use crate::options;
use crate::process::proc::{Outcome, Proc};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

pub async fn digest(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "cbst", "check" => 'c', "status" => 's');
    let name = argv[0].rsplit('/').next().unwrap_or_default().to_owned();
    let sum = |bytes: &[u8]| if name == "md5sum" { hex(&md5(bytes)) } else { hex(&Sha256::digest(bytes)) };
    let mut input = Input::new(&name, &options.operands);
    let mut failed = 0;
    while input.next_file(proc).await? {
        let content = input.rest_of_file(proc).await;
        if !options.has('c') {
            let line = format!("{}  {}\n", sum(&content), input.path);
            proc.print(&line).await?;
            continue;
        }
        for line in String::from_utf8_lossy(&content).lines() {
            let Some((wanted, path)) = line.split_once(char::is_whitespace) else { continue };
            let path = path.trim_start_matches([' ', '*']);
            let is_right = proc.tree().read(&proc.actor(), path).is_ok_and(|bytes| sum(&bytes) == wanted);
            failed += u32::from(!is_right);
            if !options.has('s') {
                proc.print(&format!("{path}: {}\n", if is_right { "OK" } else { "FAILED" })).await?;
            }
        }
    }
    if failed > 0 {
        return proc.fail(&format!("{name}: WARNING: {failed} computed checksums did NOT match"), 1).await;
    }
    Ok(input.code())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the MD5 digest, as RFC 1321 defines it.
fn md5(bytes: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let table: Vec<u32> = (1..=64).map(|step| (f64::from(step).sin().abs() * 4_294_967_296.0) as u32).collect();
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in padded.chunks_exact(64) {
        let words: Vec<u32> =
            block.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mixed, word) = match step / 16 {
                0 => (b & c | !b & d, step),
                1 => (d & b | !d & c, (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let sum = mixed.wrapping_add(a).wrapping_add(table[step]).wrapping_add(words[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
        }
        for (value, part) in state.iter_mut().zip([a, b, c, d]) {
            *value = value.wrapping_add(part);
        }
    }
    let mut digest = [0; 16];
    for (four, part) in digest.chunks_exact_mut(4).zip(state) {
        four.copy_from_slice(&part.to_le_bytes());
    }
    digest
}

pub async fn base64(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "dDw:i", "decode" => 'd', "wrap" => 'w');
    let mut input = Input::new("base64", &options.operands);
    while input.next_file(proc).await? {
        let content = input.rest_of_file(proc).await;
        if options.has('d') || options.has('D') {
            let text: Vec<u8> = content.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
            match STANDARD.decode(text) {
                Ok(bytes) => proc.write(1, &bytes).await?,
                Err(_) => return proc.fail("base64: invalid input", 1).await,
            }
            continue;
        }
        let text = STANDARD.encode(content);
        let width = options.value('w').and_then(|text| text.parse().ok()).unwrap_or(76);
        let lines: Vec<&str> = match width {
            0 => vec![&text],
            width => text.as_bytes().chunks(width).filter_map(|line| std::str::from_utf8(line).ok()).collect(),
        };
        let end = if width == 0 { "" } else { "\n" };
        proc.print(&format!("{}{end}", lines.join("\n"))).await?;
    }
    Ok(input.code())
}

#[cfg(test)]
mod tests {
    use super::{hex, md5};

    #[test]
    fn md5_is_that_of_its_rfc() {
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(&md5(b"message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
    }
}
