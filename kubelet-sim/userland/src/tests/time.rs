//! Processes in virtual time: pauses, signals, jobs, limits.

use super::{START, check, container, sh, words};
use crate::process::processes::Processes;
use crate::process::signal::{ExitStatus, Signal};
use crate::process::streams::{Streams, TerminalSize};
use std::time::Duration;

fn started(line: &str) -> (Processes, u32) {
    let mut processes = container(0);
    let pid = processes.start(words(&["sh", "-c", line]), Streams::of_log(false, false)).unwrap();
    (processes, pid)
}

fn at(seconds: u64) -> jiff::Timestamp {
    START + Duration::from_secs(seconds)
}

/// Returns what was printed, with the second before each output.
fn timeline(processes: &Processes, pid: u32) -> String {
    let shown = |output: crate::process::sink::Output| {
        format!("{}:{}", output.at.as_second(), String::from_utf8_lossy(&output.bytes))
    };
    processes.outputs(pid).into_iter().map(shown).collect()
}

#[test]
fn outputs_have_the_time_of_their_command() {
    let (mut processes, pid) = started("echo a; sleep 5; echo b; sleep 1m; echo c; exit 3");
    processes.advance_to(at(4));
    assert_eq!(timeline(&processes, pid), "0:a\n");
    assert_eq!(processes.next_wake().map(|next| next.as_second()), Some(5));
    processes.advance_to(at(100));
    assert_eq!(timeline(&processes, pid), "0:a\n5:b\n65:c\n");
    let (ended_at, status) = processes.end_of(pid).unwrap();
    assert_eq!((ended_at.as_second(), status), (65, ExitStatus::Code(3)));
}

#[test]
fn the_same_calls_give_the_same_outputs_whatever_the_steps() {
    let line = "i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i $(date +%s); sleep 0.7; done & sleep 3; echo x; wait";
    let (mut one, pid) = started(line);
    one.advance_to(at(100));
    let (mut other, _) = started(line);
    for step in 1..=1000 {
        other.advance_to(START + Duration::from_millis(100 * step));
    }
    assert_eq!(one.outputs(pid), other.outputs(pid));
    let (mut tiny, _) = started(line);
    while !tiny.advance(at(100), 3) {}
    assert_eq!(one.outputs(pid), tiny.outputs(pid));
}

#[test]
fn jobs_run_beside_the_shell() {
    check(&[
        ("(sleep 2; echo late) & echo early; wait; echo done", "early\nlate\ndone\n0"),
        ("sleep 9 & kill $!; wait $!; echo $?; kill -0 $! 2>/dev/null; echo $?", "143\n1\n0"),
        ("(exit 3) & wait $!; echo $?; wait 99; echo $?", "3\n127\n0"),
        ("timeout 2 sleep 5; echo $?; timeout 5 sh -c 'exit 4'; echo $?; date +%s", "143\n4\n2\n0"),
        ("timeout -s KILL 1 sleep 5; echo $?", "143\n0"),
        ("(while :; do echo tick; sleep 1; done) | head -n 2; date +%s", "tick\ntick\n2\n0"),
        ("sleep infinity & sleep 1; ps | grep -c '[s]leep'", "1\n0"),
        ("echo 1 >/tmp/f; (sleep 3; echo 2 >>/tmp/f) & timeout 6 tail -f /tmp/f; date +%s", "1\n2\n6\n0"),
        ("sh -c 'echo $$ $PPID'; echo $$ $PPID", "2 1\n1 0\n0"),
        ("nohup echo a; sleep x", "a\n!sleep: invalid number 'x'\n1"),
    ]);
}

#[test]
fn traps_run_when_signals_arrive() {
    check(&[
        ("trap 'echo bye' EXIT; echo hi; exit 2", "hi\nbye\n2"),
        ("trap 'echo term' TERM; kill -TERM $$; echo on", "term\non\n0"),
        ("trap 'echo usr; exit 5' USR1; (sleep 2; kill -USR1 $$) & wait; echo no", "usr\n5"),
        ("sh -c 'kill -9 $$; echo no'; echo $?", "137\n0"),
        ("trap '' TERM; sh -c 'kill $$; echo alive'; trap - TERM; trap", "alive\n0"),
        ("trap 'x' NONE; echo $?", "!sh: trap: NONE: invalid signal specification\n1\n0"),
    ]);
}

#[test]
fn the_first_process_ignores_what_it_does_not_handle() {
    let (mut processes, pid) = started("sleep 100");
    processes.advance_to(at(1));
    processes.signal(pid, Signal::Terminate);
    processes.advance_to(at(2));
    assert_eq!(processes.end_of(pid), None);
    processes.signal(pid, Signal::Kill);
    assert_eq!(processes.end_of(pid), Some((at(2), ExitStatus::Signal(Signal::Kill))));
    let (mut processes, pid) = started("trap 'echo stopping; exit 0' TERM; while true; do sleep 1; done");
    processes.advance_to(at(5));
    processes.signal(pid, Signal::Terminate);
    processes.advance_to(at(10));
    assert_eq!(timeline(&processes, pid), "6:stopping\n");
    assert_eq!(processes.end_of(pid).map(|(_, status)| status), Some(ExitStatus::Code(0)));
}

#[test]
fn another_process_shares_files_and_ends_with_the_first() {
    let (mut processes, first) = started("until [ -e /tmp/go ]; do sleep 1; done; echo went");
    processes.advance_to(at(3));
    let second =
        processes.start(words(&["sh", "-c", "touch /tmp/go; sleep 60"]), Streams::of_client(false, false)).unwrap();
    processes.advance_to(at(10));
    assert_eq!(timeline(&processes, first), "4:went\n");
    assert_eq!(processes.end_of(second).map(|(_, status)| status.code()), Some(137));
}

#[test]
fn a_terminal_has_a_prompt_and_takes_ctrl_c() {
    let mut processes = container(0);
    processes.resize(TerminalSize { rows: 24, columns: 80 });
    let pid = processes.start(words(&["sh"]), Streams::of_client(true, true)).unwrap();
    let mut typed = |text: &str, seconds| {
        processes.write_input(pid, text.as_bytes());
        processes.advance_to(at(seconds));
        let outputs = processes.take_outputs(pid);
        outputs.iter().map(|output| String::from_utf8_lossy(&output.bytes).into_owned()).collect::<String>()
    };
    assert_eq!(typed("stty size\n", 1), "# 24 80\n# ");
    assert_eq!(typed("if true\n", 2), "> ");
    assert_eq!(typed("then echo a; fi; sleep 100\n", 3), "a\n");
    processes.signal(pid, Signal::Interrupt);
    processes.advance_to(at(4));
    processes.take_outputs(pid);
    processes.write_input(pid, b"echo $?; exit\n");
    processes.advance_to(at(5));
    let outputs = processes.take_outputs(pid);
    assert_eq!(outputs.first().map(|output| output.bytes.clone()), Some(b"130\n".to_vec()));
    assert!(processes.end_of(pid).is_some());
}

#[test]
fn nothing_runs_away() {
    // A loop without a pause becomes slower, so that a day of it is bounded work.
    let (mut processes, pid) = started("while :; do :; done");
    assert!(processes.advance_to(at(86_400)));
    assert_eq!(processes.end_of(pid), None);
    let (mut processes, pid) = started("yes & while :; do echo x; done");
    processes.advance_to(at(600));
    let kept: usize = processes.outputs(pid).iter().map(|output| output.bytes.len()).sum();
    assert!(kept <= 2 << 20, "{kept}");
    assert!(!sh("f() { f | f; }; f 2>/dev/null").ends_with("running"));
    assert!(sh("dd if=/dev/zero of=/tmp/big bs=1M count=100 2>/dev/null; echo $?").starts_with("1\n"));
}

#[test]
fn a_short_script_takes_no_time_and_a_loop_some() {
    let (mut processes, pid) = started("echo a; sleep 2; for i in $(seq 50); do true; done; sleep 0; echo b");
    processes.advance_to(at(2));
    assert_eq!(processes.end_of(pid), Some((at(2), ExitStatus::Code(0))));
    let (mut processes, pid) = started("while :; do (true); done & while :; do sleep 0; done & wait");
    assert!(processes.advance_to(at(60)));
    assert_eq!(processes.end_of(pid), None);
}

#[test]
fn a_client_takes_output_at_its_own_pace() {
    let mut processes = container(0);
    let first = processes.start(words(&["sleep", "infinity"]), Streams::of_log(false, false));
    assert_eq!(first, Some(1));
    let pid = processes.start(words(&["cat"]), Streams::of_client(true, false)).unwrap();
    let sent: Vec<u8> = (0..900_000_u32).map(|number| (number % 251) as u8).collect();
    processes.write_input(pid, &sent);
    processes.close_input(pid);
    let mut received = Vec::new();
    while processes.end_of(pid).is_none() {
        processes.advance_to(at(5));
        let part: Vec<u8> = processes.take_outputs(pid).into_iter().flat_map(|output| output.bytes).collect();
        assert!(!part.is_empty() && part.len() <= 128 << 10);
        received.extend(part);
    }
    assert!(received == sent);
}

#[test]
fn files_of_proc_tell_about_processes() {
    check(&[
        ("grep overlay /proc/mounts | cut -d' ' -f2; tr '\\0' ' ' </proc/1/cmdline | cut -c1-5", "/\nsh -c\n0"),
        (
            "grep -E '^(Uid|CapEff)' /proc/self/status; [ -e /proc/77/status ] || echo none",
            "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\nnone\n0",
        ),
    ]);
}
