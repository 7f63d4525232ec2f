//! Predicts a container's command: how long it runs and how it exits, or that it waits for input.
//!
//! There is no Kubernetes counterpart: a real container must be run to learn this. The command runs ahead in virtual
//! time, in the files of its image. It is predicted only when the pod's spec alone decides; a command that uses a
//! mounted volume depends on more than that.

use crate::live::{LastWords, TERMINATION_LOG};
use crate::needs::environment::expand;
use crate::outcomes::Outcome;
use file_tree::mounts::{FileTree, Mount};
use file_tree::node::Owner;
use file_tree::volume::{DEFAULT_LIMIT_BYTES, Volume};
use parking_lot::Mutex;
use proto::kinds::api::core::v1::Container;
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;
use userland::image::{self, Image};
use userland::launch::launch;
use userland::process::kernel::FIRST;
use userland::process::processes::{ContainerSetup, Processes};
use userland::process::streams::Streams;

pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Virtual time and turns for which a command runs ahead. One that takes longer runs until it is stopped.
const HORIZON: Duration = Duration::from_secs(400 * 86_400);
const MAX_TURNS: u32 = 20_000;
/// Times at which a probe's command is tried, and the time after which nothing new is expected of it.
const MAX_LOOKS: u32 = 500;
const LOOKS_UNTIL: Duration = Duration::from_secs(3_600);
/// The precision of a predicted end.
const PRECISION_MS: u128 = 100;
/// Predictions that are remembered.
const MAX_REMEMBERED: usize = 4_096;
/// Images whose own command is a shell.
const SHELL_IMAGES: [&str; 6] = ["alpine", "bash", "busybox", "centos", "debian", "ubuntu"];

/// When and how a command ends, unless it is stopped before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEnd {
    /// Time from start to end; `None` when it never ends, as with `sleep infinity`.
    pub after: Option<Duration>,
    pub exit_code: i32,
}

/// What running ahead shows of a command.
#[derive(Clone, Debug, Default, PartialEq)]
struct Forecast {
    end: Option<KnownEnd>,
    last_words: LastWords,
    /// True when the image has every program that the command has asked for.
    has_programs: bool,
    waits_for_input: bool,
}

/// Remembers what is costly to find out, by everything that it follows from. What is remembered is pure, so it only
/// saves time.
pub(crate) struct Memory<T>(Mutex<BTreeMap<String, T>>);

impl<T: Clone> Memory<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    pub(crate) fn recall(&self, key: String, find: impl FnOnce() -> T) -> T {
        if let Some(known) = self.0.lock().get(&key) {
            return known.clone();
        }
        let found = find();
        let mut remembered = self.0.lock();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(key, found.clone());
        found
    }
}

static FORECASTS: Memory<Forecast> = Memory::new();
static PROBES: Memory<Vec<(Duration, Outcome)>> = Memory::new();

/// Returns how a container's command ends; `None` when the pod's spec alone does not say.
pub fn known_end(container: &Container) -> Option<KnownEnd> {
    forecast(container).end
}

/// How the end of a container's process becomes known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The container's spec alone says it.
    Foreseen,
    /// The process has to run.
    Observed,
    /// Its program is not simulated, or waits for what is typed.
    NotSimulated,
}

pub fn ending(container: &Container) -> Ending {
    let forecast = forecast(container);
    match (forecast.end, forecast.has_programs && !forecast.waits_for_input) {
        (Some(_), _) => Ending::Foreseen,
        (None, true) => Ending::Observed,
        (None, false) => Ending::NotSimulated,
    }
}

/// Returns what a container's process leaves behind when it ends by itself, as far as its spec says it.
pub fn last_words(container: &Container) -> LastWords {
    forecast(container).last_words
}

/// True when the programs of the container's command are simulated, so that its log is what they print.
pub fn is_simulated(container: &Container) -> bool {
    let forecast = forecast(container);
    forecast.has_programs && !forecast.waits_for_input
}

/// Returns how a command ends that runs in a container of which only the image is known; `None` when it looks for a file.
pub fn known_end_of_other(container: &Container) -> Option<KnownEnd> {
    let argv = argv(container);
    FORECASTS.recall(format!("other {}", key(container, &argv)), || run_ahead(container, argv, true)).end
}

/// Returns the outcomes of a command that is run again and again beside the container's own command: each with the time
/// after the start from which it holds. A command that uses files of which nothing is known succeeds.
pub fn outcomes_beside(container: &Container, command: &[String], timeout: Duration) -> Vec<(Duration, Outcome)> {
    let key = format!("{command:?} {timeout:?} {}", key(container, &argv(container)));
    PROBES.recall(key, || look_beside(container, command, timeout))
}

fn look_beside(container: &Container, command: &[String], timeout: Duration) -> Vec<(Duration, Outcome)> {
    let start = Timestamp::UNIX_EPOCH;
    let mut processes = started(container, argv(container), false);
    let mut found: Vec<(Duration, Outcome)> = Vec::new();
    let mut at = start;
    for _ in 0..MAX_LOOKS {
        processes.advance(at, MAX_TURNS);
        if processes.end_of(FIRST).is_some() {
            break;
        }
        let outcome = outcome_now(&mut processes, command, timeout);
        if found.last().is_none_or(|(_, last)| *last != outcome) {
            found.push((Duration::try_from(at.duration_since(start)).unwrap_or_default(), outcome));
        }
        // Nothing changes before something is due.
        match processes.next_wake() {
            Some(next) if next > at && next <= start + LOOKS_UNTIL => at = next,
            _ => break,
        }
    }
    found
}

fn outcome_now(processes: &mut Processes, command: &[String], timeout: Duration) -> Outcome {
    let now = processes.now();
    processes.take_used_unknown();
    let Some(pid) = processes.start(command.to_vec(), Streams::of_log(false, false)) else { return Outcome::Failure };
    processes.advance(now, MAX_TURNS);
    if processes.end_of(pid).is_none() {
        processes.advance(now + timeout, MAX_TURNS);
    }
    let ended = processes.end_of(pid);
    processes.forget(pid);
    match ended {
        _ if processes.take_used_unknown() => Outcome::Success,
        None => Outcome::Timeout,
        Some((_, status)) if status.code() == 0 => Outcome::Success,
        Some(_) => Outcome::Failure,
    }
}

/// Returns the command of a container that reads typed input (`kubectl run -it`, `kubectl debug -it`): a shell, or
/// `cat`.
pub fn interactive_command(container: &Container) -> Option<Vec<String>> {
    let mut argv = argv(container);
    if argv.is_empty() && is_shell_image(container.image.as_deref().unwrap_or_default()) {
        argv.push("sh".to_owned());
    }
    let with_command = Container { command: Some(argv.clone()), args: None, ..container.clone() };
    (container.stdin == Some(true) && forecast(&with_command).waits_for_input).then_some(argv)
}

/// Returns the words that a container runs; none when they are those of an image that is a shell, a server or not known:
/// such a container does what its story says. An image that is not known has no entrypoint.
pub fn argv(container: &Container) -> Vec<String> {
    let words = |words: &Option<Vec<String>>| words.clone().unwrap_or_default();
    let (command, args) = (words(&container.command), words(&container.args));
    match command.is_empty() && args.is_empty() {
        true if !image_of(container).is_one_program() => Vec::new(),
        _ => image_of(container).argv(&command, &args),
    }
}

/// Files whose content depends on the pod, or on its node.
const FILES_OF_PODS: [&str; 4] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/sys/fs/cgroup"];
/// Parts of the names of variables that depend on the pod and on Services.
const VARIABLES_OF_PODS: [&str; 3] = ["HOSTNAME", "_SERVICE_", "_PORT_"];

/// Replaces the variables in a word that are not known before the container starts: `$(POD_IP)`, for example.
fn without_variables(word: &str) -> String {
    let (mut found, mut rest) = (String::new(), word);
    while let Some((before, behind)) = rest.split_once("$(") {
        let name = behind.split(')').next().unwrap_or_default();
        let is_variable = !name.is_empty() && name.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
        found += before;
        rest = match behind[name.len()..].strip_prefix(')').filter(|_| is_variable) {
            Some(rest) => rest,
            None => {
                found += "$(";
                behind
            }
        };
    }
    found + rest
}

/// Returns the command of a known image that serves a port, when the container runs the image's own command.
pub fn own_server(container: &Container) -> Option<Vec<String>> {
    let image = image_of(container);
    (image.port.is_some() && argv(container).is_empty()).then(|| image.argv(&[], &[]))
}

/// Returns what is known about the image; without a name it has a shell and the usual programs.
pub fn image_of(container: &Container) -> &'static Image {
    image::known(container.image.as_deref().unwrap_or_default()).unwrap_or(image::plain())
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "ash" | "bash"))
}

fn is_shell_image(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    SHELL_IMAGES.contains(&last.split([':', '@']).next().unwrap_or_default())
}

fn forecast(container: &Container) -> Forecast {
    let argv = argv(container);
    // A shell without commands and without input is taken for a container that does something else.
    let is_bare_shell = argv.len() == 1 && container.stdin != Some(true) && is_shell(&argv[0]);
    if argv.is_empty() || is_bare_shell {
        return Forecast::default();
    }
    FORECASTS.recall(key(container, &argv), || run_ahead(container, argv, false))
}

/// Returns everything that a container's command follows from, as text.
pub(crate) fn key(container: &Container, argv: &[String]) -> String {
    let Container { image, env, working_dir, stdin, volume_mounts, termination_message_path, .. } = container;
    let mounts: Vec<&str> = volume_mounts.iter().flatten().map(|mount| mount.mount_path.as_str()).collect();
    let values: Vec<(&str, Option<&str>)> =
        env.iter().flatten().map(|variable| (variable.name.as_str(), variable.value.as_deref())).collect();
    let others = (depends_on_others(container), termination_message_path);
    format!("{image:?} {argv:?} {values:?} {working_dir:?} {stdin:?} {mounts:?} {others:?}")
}

/// Starts a container's command in the files of its image. `lacks_files` says that the real container has others.
pub(crate) fn started(container: &Container, argv: Vec<String>, lacks_files: bool) -> Processes {
    let now = Timestamp::UNIX_EPOCH;
    let image = image_of(container);
    let mut tree = FileTree::new(image.files(now), false);
    let log = container.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG);
    let file = Volume::of_file(Vec::new(), 0o666, Owner::default(), now);
    let file = Mount { volume: file, is_read_only: false, fs_type: "ext4".to_owned(), is_known: true };
    tree.mount(log, file, now);
    for path in FILES_OF_PODS {
        let volume = Volume::of_file(Vec::new(), 0o644, Owner::default(), now);
        tree.mount(path, Mount { volume, is_read_only: false, fs_type: "ext4".to_owned(), is_known: false }, now);
    }
    for mount in container.volume_mounts.iter().flatten() {
        let volume = Volume::new(0o777, Owner::default(), DEFAULT_LIMIT_BYTES, now);
        let stand_in = Mount { volume, is_read_only: false, fs_type: "tmpfs".to_owned(), is_known: false };
        tree.mount(&mount.mount_path, stand_in, now);
    }
    let given = container.env.iter().flatten();
    let given = given.filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)));
    let given: BTreeMap<String, String> = given.collect();
    let is_whole = !depends_on_others(container);
    let expanded = |word: &String| expand(word, &given);
    let argv = argv.iter().map(expanded).map(|word| if is_whole { word } else { without_variables(&word) }).collect();
    let mut env = given;
    // Programs are looked for where they are, so that no search looks like a file that is missing.
    let path = if lacks_files { "/bin" } else { PATH };
    env.entry("PATH".to_owned()).or_insert_with(|| path.to_owned());
    let tree = if lacks_files { tree.incomplete() } else { tree };
    let setup = ContainerSetup {
        hostname: String::new(),
        tree,
        env,
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        working_dir: working_dir(container),
        started_at: now,
    };
    let mut processes = Processes::new(setup, launch);
    processes.start(argv, Streams::of_log(container.stdin == Some(true), false));
    processes
}

fn run_ahead(container: &Container, argv: Vec<String>, lacks_files: bool) -> Forecast {
    let now = Timestamp::UNIX_EPOCH;
    let mut processes = started(container, argv, lacks_files);
    processes.advance(now + HORIZON, MAX_TURNS);
    let has_programs = processes.missing_program().is_none();
    let waits_for_input = processes.waits_for_input(FIRST);
    let end = match processes.end_of(FIRST) {
        Some((at, status)) => {
            let passed = Duration::try_from(at.duration_since(now)).unwrap_or_default().as_millis();
            let passed_ms = u64::try_from(passed / PRECISION_MS * PRECISION_MS).unwrap_or(u64::MAX);
            KnownEnd { after: Some(Duration::from_millis(passed_ms)), exit_code: status.code() }
        }
        None => KnownEnd { after: None, exit_code: 0 },
    };
    let last_words = LastWords::of(&processes, container);
    let is_known = has_programs && !waits_for_input && !processes.take_used_unknown() && !depends_on_others(container);
    Forecast { end: is_known.then_some(end), last_words, has_programs, waits_for_input }
}

/// True when variables or the user of a container's process are not those with which it runs ahead.
fn depends_on_others(container: &Container) -> bool {
    let mut variables = container.env.iter().flatten();
    let security = container.security_context.as_ref();
    let is_user_given = security.is_some_and(|security| {
        security.run_as_user.is_some_and(|uid| uid != 0) || security.read_only_root_filesystem == Some(true)
    });
    let words = container.command.iter().chain(&container.args).flatten();
    let mut names = words.flat_map(|word| VARIABLES_OF_PODS.iter().filter(move |name| word.contains(**name)));
    is_user_given
        || names.next().is_some()
        || variables.any(|variable| variable.value_from.is_some())
        || container.env_from.as_ref().is_some_and(|sources| !sources.is_empty())
}

/// Returns the folder in which a container's processes start.
pub fn working_dir(container: &Container) -> String {
    let given = container.working_dir.as_deref().filter(|folder| folder.starts_with('/'));
    given.unwrap_or(image_of(container).working_dir).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(image: &str, command: &[&str], stdin: bool) -> Container {
        let mounts = json!([{"name": "config", "mountPath": "/etc/config"}, {"name": "data", "mountPath": "/data"}]);
        serde_json::from_value(json!({
            "name": "c", "image": image, "command": command, "stdin": stdin, "volumeMounts": mounts,
        }))
        .unwrap()
    }

    #[test]
    fn a_command_that_runs_ahead_shows_its_end() {
        let ends = |after_ms, exit_code| Some(KnownEnd { after: Some(Duration::from_millis(after_ms)), exit_code });
        let never = Some(KnownEnd { after: None, exit_code: 0 });
        for (command, expected) in [
            (&["false"][..], ends(0, 1)),
            (&["/bin/sleep", "30"], ends(30_000, 0)),
            (&["sleep", "infinity"], never),
            (&["sh", "-c", "echo a; sleep 2; echo b >&2; sleep 1; exit 3"], ends(3_000, 3)),
            (&["sh", "-c", "sleep 5 && false"], ends(5_000, 1)),
            (&["sh", "-c", "i=0; while [ $i -lt 4 ]; do i=$((i+1)); sleep 1; done; test -f /tmp/x"], ends(4_000, 1)),
            (&["sh", "-c", "cat /etc/config/key"], None),
            (&["sh", "-c", "echo hi > /data/out"], None),
            (&["sh", "-c", "test $HOSTNAME = web-0"], None),
            (&["sh", "-c", "grep nameserver /etc/resolv.conf"], None),
            (&["wget", "-qO-", "http://$(WEB_SERVICE_HOST)"], None),
            (&["sh", "-c", "echo hi > /tmp/out; cat /tmp/out"], ends(0, 0)),
            (&["sh", "-c", "while true; do date; done"], never),
            (&["nginx", "-g", "daemon off;"], None),
            (&["sh", "-c", "nginx -g x > /dev/null 2>&1"], None),
            (&["sh"], None),
            (&[], None),
        ] {
            assert_eq!(known_end(&container("busybox", command, false)), expected, "{command:?}");
        }
    }

    #[test]
    fn variables_are_expanded_before_the_command_runs() {
        let given: Container = serde_json::from_value(json!({
            "name": "c", "image": "busybox", "env": [{"name": "CODE", "value": "6"}],
            "command": ["sh", "-c", "exit $(CODE)"],
        }))
        .unwrap();
        assert_eq!(known_end(&given).map(|end| end.exit_code), Some(6));
    }

    #[test]
    fn a_probes_command_sees_what_the_containers_own_has_done() {
        let seconds = Duration::from_secs;
        let beside = |script: &str, probe: &[&str]| {
            let command: Vec<String> = probe.iter().map(|word| (*word).to_owned()).collect();
            outcomes_beside(&container("busybox", &["sh", "-c", script], false), &command, seconds(1))
        };
        let script = "sleep 5; touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600";
        let changes = [(0, Outcome::Failure), (5, Outcome::Success), (35, Outcome::Failure)];
        assert_eq!(beside(script, &["cat", "/tmp/healthy"]), changes.map(|(at, outcome)| (seconds(at), outcome)));
        assert_eq!(beside("sleep 9", &["cat", "/etc/config/x"]), [(seconds(0), Outcome::Success)]);
        assert_eq!(beside("sleep 9", &["sleep", "5"]), [(seconds(0), Outcome::Timeout)]);
        // Of a server only the image is known.
        let other = |command: &[&str]| known_end_of_other(&container("nginx", command, false)).map(|end| end.exit_code);
        assert_eq!(other(&["cat", "/tmp/healthy"]), None);
        assert_eq!((other(&["false"]), other(&["sh", "-c", "exit 3"])), (Some(1), Some(3)));
    }

    #[test]
    fn a_shell_and_a_copy_wait_for_what_is_typed() {
        for (image, command, stdin, expected) in [
            ("busybox", &[][..], true, Some("sh")),
            ("docker.io/library/ubuntu:24.04", &[], true, Some("sh")),
            ("busybox", &[], false, None),
            ("nginx", &[], true, None),
            ("nginx", &["/bin/bash"], true, Some("/bin/bash")),
            ("busybox", &["cat"], true, Some("cat")),
            ("busybox", &["sh", "-c", "echo hi"], true, None),
        ] {
            let found = interactive_command(&container(image, command, stdin));
            assert_eq!(found.as_ref().map(|argv| argv[0].as_str()), expected, "{image} {command:?}");
        }
    }
}
