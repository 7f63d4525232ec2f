//! The same seed gives the same run, byte for byte, in another operating-system process too.

use std::process::Command;

/// The log of a run in a process of its own.
fn log(seed: u64) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_orrery-under-simulation")).arg(seed.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_seed_repeats_in_another_process() {
    let (first, second) = (log(7), log(7));
    assert!(first.len() > 10_000, "the log is suspiciously short:\n{}", String::from_utf8_lossy(&first));
    if first != second {
        let (first, second) = (String::from_utf8_lossy(&first), String::from_utf8_lossy(&second));
        let differs = first.lines().zip(second.lines()).enumerate().find(|(_, (a, b))| a != b);
        panic!("two runs of one seed differ: {differs:#?}");
    }
}

#[test]
fn another_seed_differs() {
    assert_ne!(log(7), log(8));
}
