//! Predicts a container's entrypoint: how long it runs and how it exits, or that it waits for input.
//!
//! There is no Kubernetes counterpart: a real container must be run to learn this. Pure. A command is predicted only
//! when the pod's spec alone decides; one that reads a file, or a variable from elsewhere, depends on more than that.

use super::command_line;
use super::session::{ContainerContext, Session, ShellEffect, is_supported};
use proto::kinds::api::core::v1::Container;
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// Programs that end the same way in every container.
const PREDICTABLE: [&str; 11] =
    ["date", "echo", "env", "export", "exit", "false", "hostname", "id", "pwd", "sleep", "true"];
/// Images whose own command is a shell.
const SHELL_IMAGES: [&str; 6] = ["alpine", "bash", "busybox", "centos", "debian", "ubuntu"];

/// When and how a command ends, unless it is stopped before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEnd {
    /// Time from start to end; `None` when it never ends, as with `sleep infinity`.
    pub after: Option<Duration>,
    pub exit_code: i32,
}

/// Returns how a container's command ends; `None` when its words alone do not say.
pub fn known_end(container: &Container) -> Option<KnownEnd> {
    let argv = argv(container);
    if !is_supported(&argv) || !is_predictable(&argv) {
        return None;
    }
    let given =
        container.env.iter().flatten().filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)));
    let context = ContainerContext { env: given.collect(), ..ContainerContext::default() };
    let outcome = Session::new(&context).start(&argv, Timestamp::UNIX_EPOCH);
    let after = outcome.effects.iter().fold(Duration::ZERO, |after, effect| match effect {
        ShellEffect::Sleep(time) => after.saturating_add(*time),
        _ => after,
    });
    Some(KnownEnd { after: (after != Duration::MAX).then_some(after), exit_code: outcome.exit_code })
}

/// Returns the command of a container that reads typed input (`kubectl run -it`, `kubectl debug -it`): a shell, or
/// `cat`.
pub fn interactive_command(container: &Container) -> Option<Vec<String>> {
    let mut argv = argv(container);
    if argv.is_empty() && is_shell_image(container.image.as_deref().unwrap_or_default()) {
        argv.push("sh".to_owned());
    }
    let context = ContainerContext::default();
    let effects = Session::new(&context).start(&argv, Timestamp::UNIX_EPOCH).effects;
    let waits =
        effects.iter().any(|effect| matches!(effect, ShellEffect::Copy | ShellEffect::Drain | ShellEffect::Shell));
    (container.stdin == Some(true) && waits).then_some(argv)
}

fn argv(container: &Container) -> Vec<String> {
    [&container.command, &container.args].into_iter().flatten().flatten().cloned().collect()
}

fn is_predictable(argv: &[String]) -> bool {
    match argv {
        [_, flag, line, ..] if flag == "-c" => command_line::parse(line).is_ok_and(|lines| {
            let mut commands = lines.iter().flat_map(|line| &line.commands);
            commands.all(|command| command.name().is_some_and(is_predictable_name) && command.uses_no_files())
        }),
        [first, ..] => is_predictable_name(first),
        [] => false,
    }
}

fn is_predictable_name(name: &str) -> bool {
    PREDICTABLE.contains(&name.rsplit('/').next().unwrap_or_default())
}

fn is_shell_image(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    SHELL_IMAGES.contains(&last.split([':', '@']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(image: &str, command: &[&str], stdin: bool) -> Container {
        let command = (!command.is_empty()).then(|| command.iter().map(|&word| word.to_owned()).collect());
        Container { image: Some(image.to_owned()), command, stdin: Some(stdin), ..Default::default() }
    }

    #[test]
    fn words_tell_how_a_command_ends() {
        let ends = |after_s, exit_code| Some(KnownEnd { after: Some(Duration::from_secs(after_s)), exit_code });
        for (command, expected) in [
            (&["false"][..], ends(0, 1)),
            (&["/bin/sleep", "30"], ends(30, 0)),
            (&["sleep", "infinity"], Some(KnownEnd { after: None, exit_code: 0 })),
            (&["sh", "-c", "echo a; sleep 2; echo b >&2; sleep 1; exit 3"], ends(3, 3)),
            (&["sh", "-c", "sleep 5 && false"], ends(5, 1)),
            (&["sh", "-c", "cat /etc/config/key"], None),
            (&["sh", "-c", "echo hi > /data/out"], None),
            (&["sh", "-c", "while true; do date; done"], None),
            (&["nginx", "-g", "daemon off;"], None),
            (&["sh"], None),
            (&[], None),
        ] {
            assert_eq!(known_end(&container("busybox", command, false)), expected, "{command:?}");
        }
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
