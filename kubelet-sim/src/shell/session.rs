//! The shell of a simulated container: variables, quotes, `;`, `&&`, `||`, pipes, and redirections to /dev/null.
//!
//! There is no Kubernetes counterpart: a real container has the shell of its image. Pure: it turns a command, its
//! container's context and the time into what is printed, how long is slept, and the exit code. Loops, functions and
//! substitutions are refused by name. Files are never written. Typed input reaches one program and goes through no
//! pipe.

use super::command_line::{self, Command, RedirectTarget, Redirection, RunIf};
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a process in the container can see: its files, its variables, and its user.
#[derive(Clone, Debug, Default)]
pub struct ContainerContext {
    pub hostname: String,
    /// Content by absolute path. A folder exists when a path leads through it.
    pub files: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub uid: i64,
    pub gid: i64,
    pub groups: Vec<i64>,
    pub working_dir: String,
}

/// One visible effect of a command. A command has a list of them, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum ShellEffect {
    Out(String),
    Err(String),
    Sleep(Duration),
    /// Copies the input to the output until the input ends.
    Copy,
    /// Reads the input until it ends, and drops it.
    Drain,
    /// Reads commands from the input: an interactive shell.
    Shell,
}

/// Folders that hold the programs of the image.
const FOLDERS: [&str; 4] = ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/"];
const PROGRAMS: [&str; 19] = [
    "bash", "cat", "date", "echo", "env", "false", "grep", "head", "hostname", "id", "ls", "printenv", "pwd", "sh",
    "sleep", "stty", "true", "wc", "whoami",
];
/// Commands that the shell runs itself.
const BUILTINS: [&str; 4] = [":", "cd", "exit", "export"];
const NULL: &str = "/dev/null";
pub const NOT_FOUND: i32 = 127;
/// The most that one command line prints; the rest is dropped.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
/// The most shells that may be nested.
const MAX_DEPTH: usize = 8;

/// The state of a running shell, or of the one program that was asked for.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    pub(super) context: &'a ContainerContext,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) exported: BTreeSet<String>,
    pub(super) working_dir: String,
    pub(super) now: Timestamp,
    pub(super) effects: Vec<ShellEffect>,
    /// The input of the command when it comes from a pipe or file; `None` when it is typed.
    pub(super) stdin: Option<String>,
    /// Rows and columns; `None` without a terminal.
    pub terminal: Option<(u16, u16)>,
    printed_bytes: usize,
    depth: usize,
    /// True once `exit` was called.
    exited: bool,
}

/// The outcome of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandOutcome {
    pub effects: Vec<ShellEffect>,
    pub exit_code: i32,
    /// True when the line called `exit`, so that the shell ends too.
    pub exited: bool,
}

/// Returns the program that a path or name means.
pub(super) fn program(name: &str) -> Option<&'static str> {
    let bare = FOLDERS.iter().find_map(|folder| name.strip_prefix(folder)).unwrap_or(name);
    PROGRAMS.into_iter().find(|known| *known == bare)
}

/// True when the container has every program of this command, and the shell supports its syntax.
pub fn is_supported(argv: &[String]) -> bool {
    let line = match argv {
        [shell, flag, line, ..] if matches!(program(shell), Some("sh" | "bash")) && flag == "-c" => line,
        [shell, ..] if matches!(program(shell), Some("sh" | "bash")) => return false,
        [first, ..] => return program(first).is_some(),
        [] => return false,
    };
    let is_supported = |command: &Command| {
        let name = command.name().unwrap_or_default();
        program(name).is_some() || BUILTINS.contains(&name) || name.contains('=')
    };
    command_line::parse(line).is_ok_and(|lines| lines.iter().flat_map(|line| &line.commands).all(is_supported))
}

/// Returns the message of runc about a program that does not exist.
fn cannot_start(name: &str) -> String {
    let why = match name.contains('/') {
        true => format!("stat {name}: no such file or directory"),
        false => "executable file not found in $PATH".to_owned(),
    };
    format!("OCI runtime exec failed: exec failed: unable to start container process: exec: {name:?}: {why}: unknown\n")
}

impl<'a> Session<'a> {
    pub fn new(context: &'a ContainerContext) -> Self {
        Self {
            context,
            variables: context.env.clone(),
            exported: context.env.keys().cloned().collect(),
            working_dir: if context.working_dir.is_empty() { "/".to_owned() } else { context.working_dir.clone() },
            now: Timestamp::UNIX_EPOCH,
            effects: Vec::new(),
            stdin: None,
            terminal: None,
            printed_bytes: 0,
            depth: 0,
            exited: false,
        }
    }

    pub fn with_terminal(self, terminal: Option<(u16, u16)>) -> Self {
        Self { terminal, ..self }
    }

    /// Starts a program as a container runtime does: not through a shell.
    pub fn start(&mut self, argv: &[String], now: Timestamp) -> CommandOutcome {
        self.now = now;
        let name = argv.first().map(String::as_str).unwrap_or_default();
        let exit_code = match program(name) {
            Some(_) => self.run(argv),
            None => {
                self.error(cannot_start(name));
                NOT_FOUND
            }
        };
        self.outcome(exit_code)
    }

    /// Runs one line of an interactive shell.
    pub fn line(&mut self, line: &str, now: Timestamp) -> CommandOutcome {
        self.now = now;
        let exit_code = self.script(line);
        self.outcome(exit_code)
    }

    fn outcome(&mut self, exit_code: i32) -> CommandOutcome {
        self.variables.insert("?".to_owned(), exit_code.to_string());
        self.printed_bytes = 0;
        CommandOutcome { effects: std::mem::take(&mut self.effects), exit_code, exited: self.exited }
    }

    fn script(&mut self, text: &str) -> i32 {
        let lines = match command_line::parse(text) {
            Ok(lines) => lines,
            Err(error) => {
                self.error(format!("sh: {error}\n"));
                return 2;
            }
        };
        let mut code = self.variables.get("?").and_then(|code| code.parse().ok()).unwrap_or(0);
        for line in lines {
            let skip = match line.run_if {
                RunIf::Always => false,
                RunIf::Success => code != 0,
                RunIf::Failure => code == 0,
            };
            if skip {
                continue;
            }
            code = self.pipeline(&line.commands);
            self.variables.insert("?".to_owned(), code.to_string());
            if self.exited {
                break;
            }
        }
        code
    }

    /// Runs commands joined by pipes; returns the exit code of the last one.
    fn pipeline(&mut self, commands: &[Command]) -> i32 {
        let Some((last, before)) = commands.split_last().filter(|(_, before)| !before.is_empty()) else {
            return commands.first().map_or(0, |only| self.redirected(only));
        };
        let mut fed = self.stdin.take();
        for command in before {
            let (effects, _) = self.in_subshell(fed.take(), |stage| stage.redirected(command));
            let mut printed = String::new();
            for effect in effects {
                match effect {
                    ShellEffect::Out(text) => printed.push_str(&text),
                    ShellEffect::Copy | ShellEffect::Shell => {
                        self.error("sh: what is typed goes through no pipe of this simulated shell\n".to_owned());
                        return 2;
                    }
                    effect => self.effects.push(effect),
                }
            }
            fed = Some(printed);
        }
        let (effects, code) = self.in_subshell(fed, |stage| stage.redirected(last));
        self.effects.extend(effects);
        code
    }

    /// Runs something in a process of its own, whose variables are lost when it ends.
    fn in_subshell(&mut self, stdin: Option<String>, run: impl FnOnce(&mut Self) -> i32) -> (Vec<ShellEffect>, i32) {
        let effects = std::mem::take(&mut self.effects);
        let mut process = Session { stdin, exited: false, ..self.clone() };
        self.effects = effects;
        let code = run(&mut process);
        (self.printed_bytes, self.now) = (process.printed_bytes, process.now);
        (process.effects, code)
    }

    /// Runs a command with its input and outputs redirected.
    fn redirected(&mut self, command: &Command) -> i32 {
        let argv = command.words(&self.variables);
        if command.redirections.is_empty() {
            return self.command(&argv);
        }
        // Where the descriptors 1 and 2 lead: to one of the two outputs, or nowhere.
        let (mut out, mut err, mut input) = (Some(1), Some(2), None);
        for Redirection { descriptor, target } in &command.redirections {
            let leads_to = match target {
                RedirectTarget::Number(number) => {
                    if *number == 1 {
                        out
                    } else {
                        err
                    }
                }
                RedirectTarget::File(word) => {
                    let path = word.text(&self.variables);
                    match (*descriptor, self.file(&path)) {
                        (0, Ok(text)) => input = Some(text),
                        (1 | 2, _) if path == NULL => {}
                        (descriptor, _) => {
                            let (failed, why) = match descriptor {
                                0 => ("can't open", "no such file"),
                                _ => ("can't create", "Read-only file system"),
                            };
                            self.error(format!("sh: {failed} {path}: {why}\n"));
                            return 1;
                        }
                    }
                    None
                }
            };
            match descriptor {
                1 => out = leads_to,
                2 => err = leads_to,
                _ => {}
            }
        }
        let outer = self.stdin.take();
        let is_redirected = input.is_some();
        self.stdin = input.or(outer.clone());
        let before = std::mem::take(&mut self.effects);
        let code = self.command(&argv);
        let effects = std::mem::replace(&mut self.effects, before);
        if is_redirected {
            self.stdin = outer;
        }
        let sent = |text, to| match to {
            Some(1) => Some(ShellEffect::Out(text)),
            Some(_) => Some(ShellEffect::Err(text)),
            None => None,
        };
        self.effects.extend(effects.into_iter().filter_map(|effect| match effect {
            ShellEffect::Out(text) => sent(text, out),
            ShellEffect::Err(text) => sent(text, err),
            ShellEffect::Copy if out.is_none() => Some(ShellEffect::Drain),
            effect => Some(effect),
        }));
        code
    }

    /// Runs a builtin of the shell, an assignment, or a program.
    fn command(&mut self, argv: &[String]) -> i32 {
        let Some(name) = argv.first() else { return 0 };
        match (name.as_str(), &argv[1..]) {
            ("exit", rest) => {
                self.exited = true;
                let last = self.variables.get("?").cloned().unwrap_or_default();
                let code: i32 = rest.first().unwrap_or(&last).parse().unwrap_or(0);
                code & 0xff
            }
            ("cd", rest) => self.change_directory(rest.first().map_or("/", String::as_str)),
            ("export", rest) => {
                for word in rest {
                    let name = self.assign(word).unwrap_or_else(|| word.clone());
                    self.exported.insert(name);
                }
                0
            }
            (":", _) => 0,
            (word, []) if self.assign(word).is_some() => 0,
            (name, _) if program(name).is_some() => self.run(argv),
            (name, _) => {
                self.error(format!("sh: {name}: not found\n"));
                NOT_FOUND
            }
        }
    }

    /// Performs `NAME=value` and returns the name; `None` when the word is no assignment.
    fn assign(&mut self, word: &str) -> Option<String> {
        let (name, value) = word.split_once('=')?;
        let is_name = !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| {
            self.variables.insert(name.to_owned(), value.to_owned());
            name.to_owned()
        })
    }

    pub(super) fn print(&mut self, text: String) -> i32 {
        self.emit(text, ShellEffect::Out);
        0
    }

    pub(super) fn error(&mut self, text: String) {
        self.emit(text, ShellEffect::Err);
    }

    fn emit(&mut self, text: String, effect: fn(String) -> ShellEffect) {
        self.printed_bytes += text.len();
        if self.printed_bytes <= MAX_OUTPUT_BYTES {
            self.effects.push(effect(text));
        }
    }

    pub(super) fn shell(&mut self, arguments: &[String]) -> i32 {
        match arguments {
            [] => self.effects.push(ShellEffect::Shell),
            [flag] if flag == "-i" || flag == "-l" => self.effects.push(ShellEffect::Shell),
            [flag, line, ..] if flag == "-c" && self.depth < MAX_DEPTH => {
                let stdin = self.stdin.take();
                let (effects, code) = self.in_subshell(stdin, |inner| {
                    inner.depth += 1;
                    inner.script(line)
                });
                self.effects.extend(effects);
                return code;
            }
            _ => {
                self.error(format!("sh: {}: this simulated shell takes -c and nothing else\n", arguments.join(" ")));
                return 2;
            }
        }
        0
    }

    fn change_directory(&mut self, path: &str) -> i32 {
        let whole = self.absolute(path);
        if self.is_folder(&whole) {
            self.working_dir = whole;
            return 0;
        }
        self.error(format!("sh: cd: can't cd to {path}: No such file or directory\n"));
        2
    }

    pub(super) fn absolute(&self, path: &str) -> String {
        let whole = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.working_dir) };
        let mut parts: Vec<&str> = Vec::new();
        for part in whole.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        format!("/{}", parts.join("/"))
    }

    pub(super) fn is_folder(&self, path: &str) -> bool {
        path == "/" || path == self.context.working_dir || !self.children(path).is_empty()
    }

    /// Returns the content of a file, or why it cannot be read.
    pub(super) fn file(&self, path: &str) -> Result<String, &'static str> {
        let whole = self.absolute(path);
        match self.context.files.get(&whole) {
            Some(text) => Ok(text.clone()),
            None if whole == NULL => Ok(String::new()),
            None if self.is_folder(&whole) => Err("Is a directory"),
            None => Err("No such file or directory"),
        }
    }

    /// Returns the names in a folder.
    pub(super) fn children(&self, folder: &str) -> BTreeSet<String> {
        let prefix = if folder == "/" { "/".to_owned() } else { format!("{folder}/") };
        let programs = PROGRAMS.iter().map(|name| format!("/bin/{name}"));
        let paths = self.context.files.keys().cloned().chain(programs);
        let child = |path: String| Some(path.strip_prefix(&prefix)?.split('/').next()?.to_owned());
        paths.filter_map(child).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> ContainerContext {
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ContainerContext {
            hostname: "web-0".to_owned(),
            files: pairs(&[("/etc/hostname", "web-0\n"), ("/etc/config/a", "1"), ("/etc/config/b", "2\n")]),
            env: pairs(&[("A", "x"), ("PATH", "/bin")]),
            groups: vec![0, 7],
            ..ContainerContext::default()
        }
    }

    /// Shows what is printed, with errors behind `!` and pauses in parentheses, and the exit code.
    fn show(outcome: &CommandOutcome) -> String {
        let effect = |effect: &ShellEffect| match effect {
            ShellEffect::Out(text) => text.clone(),
            ShellEffect::Err(text) => format!("!{text}"),
            ShellEffect::Sleep(time) => format!("({time:?})"),
            other => format!("<{other:?}>"),
        };
        let text: String = outcome.effects.iter().map(effect).collect();
        format!("{}{}{}", text, outcome.exit_code, if outcome.exited { " exited" } else { "" })
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn programs_do_what_they_are_known_for() {
        let context = context();
        for (line, expected) in [
            ("echo a 'b  c'", "a b  c\n0"),
            ("echo -n a", "a0"),
            ("hostname", "web-0\n0"),
            ("/bin/pwd", "/\n0"),
            ("id", "uid=0(root) gid=0(root) groups=0(root),7\n0"),
            ("whoami", "root\n0"),
            ("env", "A=x\nPATH=/bin\n0"),
            ("printenv A NONE", "x\n1"),
            ("cat /etc/hostname etc/config/b", "web-0\n2\n0"),
            ("cat /etc", "!cat: /etc: Is a directory\n1"),
            ("cat none", "!cat: none: No such file or directory\n1"),
            ("cat", "<Copy>0"),
            ("ls", "bin\netc\n0"),
            ("ls -l /etc /etc/config/a", "config\nhostname\n/etc/config/a\n0"),
            ("ls none", "!ls: none: No such file or directory\n1"),
            ("date", "Thu Jan  1 00:00:00 UTC 2026\n0"),
            ("sleep 90; date", "(90s)Thu Jan  1 00:01:30 UTC 2026\n0"),
            ("sleep 1m 0.5", "(60.5s)0"),
            ("sleep x", "!sleep: invalid number 'x'\n1"),
            ("true && echo yes || echo no", "yes\n0"),
            ("false && echo yes || echo no; echo $?", "no\n0\n0"),
            ("false; echo $?", "1\n0"),
            ("B=1; echo $A$B; env", "x1\nA=x\nPATH=/bin\n0"),
            ("export B=1; printenv B", "1\n0"),
            ("cd /etc/config && pwd && cat a && cd .. && ls", "/etc/config\n1config\nhostname\n0"),
            ("cd none", "!sh: cd: can't cd to none: No such file or directory\n2"),
            ("sh -c 'A=y; echo $A; exit 3'; echo $? $A", "y\n3 x\n0"),
            ("sh", "<Shell>0"),
            ("curl x", "!sh: curl: not found\n127"),
            ("exit 3; echo no", "3 exited"),
            ("false; exit", "1 exited"),
            ("a & b", "!sh: syntax error: '&' is more than this simulated shell knows\n2"),
            ("echo a b | cat", "a b\n0"),
            ("cat /etc/hostname /etc/config/b | grep w | wc -l", "1\n0"),
            ("env | grep -v PATH | cat -", "A=x\n0"),
            ("env | grep none; echo $?", "1\n0"),
            ("grep x /none", "!grep: /none: No such file or directory\n2"),
            ("ls /bin | head -n 2", "bash\ncat\n0"),
            ("echo one two | wc", "1 2 8\n0"),
            ("sleep 1 | echo done", "(1s)done\n0"),
            ("A=y | true; exit 3 | true; echo $A", "x\n0"),
            ("false | true && echo last", "last\n0"),
            ("cat | wc -l", "!sh: what is typed goes through no pipe of this simulated shell\n2"),
            ("wc -l", "!wc: this simulated program reads files and pipes, not what is typed\n2"),
            ("echo a | sh -c 'cat; cat /dev/null'", "a\n0"),
            ("echo a >/dev/null; echo b >&2", "!b\n0"),
            ("cat none 2>/dev/null || echo gone", "gone\n0"),
            ("cat none /etc/hostname 2>&1 >/dev/null", "cat: none: No such file or directory\n1"),
            ("cat none /etc/hostname >/dev/null 2>&1", "1"),
            ("cat none 2>&1 | wc -w", "7\n0"),
            ("cat >/dev/null; echo done", "<Drain>done\n0"),
            ("wc -l < /etc/hostname", "1\n0"),
            ("true < /etc/hostname; cat", "<Copy>0"),
            ("cat < none", "!sh: can't open none: no such file\n1"),
            ("echo a > /tmp/x || echo no", "!sh: can't create /tmp/x: Read-only file system\nno\n0"),
            ("stty size", "!stty: standard input: Not a tty\n1"),
        ] {
            assert_eq!(show(&Session::new(&context).line(line, now())), expected, "{line}");
        }
    }

    #[test]
    fn what_the_image_does_not_have_fails_as_a_runtime_says_it() {
        let context = context();
        let start = |argv: &[&str]| {
            let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
            (show(&Session::new(&context).start(&argv, now())), is_supported(&argv))
        };
        let failed = "!OCI runtime exec failed: exec failed: unable to start container process: exec: ";
        let missing = format!("{failed}\"nginx\": executable file not found in $PATH: unknown\n127");
        assert_eq!(start(&["nginx"]), (missing, false));
        let missing = format!("{failed}\"/opt/run\": stat /opt/run: no such file or directory: unknown\n127");
        assert_eq!(start(&["/opt/run", "x"]), (missing, false));
        assert_eq!(start(&["echo", "$A"]), ("$A\n0".to_owned(), true));
        assert_eq!(start(&["sh", "-c", "echo $A; exit 4"]), ("x\n4".to_owned(), true));
        assert!(!start(&["sh", "-c", "while true; do date; done"]).1);
        assert!(!start(&["sh"]).1);
        assert!(!start(&["sh", "-c", "nginx -g x > /dev/null 2>&1"]).1);
        assert!(start(&["sh", "-c", "A=b; cd /etc && cat hostname | wc -l"]).1);
    }

    #[test]
    fn a_terminal_has_a_size() {
        let context = context();
        let mut session = Session::new(&context).with_terminal(Some((24, 80)));
        assert_eq!(show(&session.line("stty size; stty raw", now())), "24 80\n!usage: stty size\n1");
    }

    #[test]
    fn nobody_is_flooded() {
        let mut context = context();
        context.files.insert("/big".to_owned(), "x".repeat(1 << 20));
        let outcome = Session::new(&context).line(&"cat /big;".repeat(100), now());
        assert_eq!(outcome.effects.len(), 4);
        let nested =
            (0..20).fold("echo deep".to_owned(), |line, _| format!("sh -c \"{}\"", line.replace(['\\', '"'], "")));
        Session::new(&context).line(&nested, now());
    }
}
