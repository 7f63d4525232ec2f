//! The shell of a simulated container: variables, quotes, `;`, `&&`, `||`, pipes, and redirections to /dev/null.
//!
//! There is no Kubernetes counterpart: a real container has whatever its image has. Pure: from a container's inside, a
//! command and the time to what is printed, how long is slept, and the exit code. Loops, functions and substitutions are
//! refused by name. Files are not written; what is typed goes to one program, and not through pipes.

use super::words::{self, After, Command, Redirection, To};
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a process in the container finds.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    pub hostname: String,
    /// By path. Folders are what their paths name.
    pub files: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub uid: i64,
    pub gid: i64,
    pub groups: Vec<i64>,
    pub working_dir: String,
}

/// What a command does that can be seen, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    Out(String),
    Err(String),
    Sleep(Duration),
    /// Copies its input to its output until it ends.
    Copy,
    /// Reads its input until it ends, and drops it.
    Drain,
    /// Reads commands from its input.
    Shell,
}

/// Where the image's programs lie.
const FOLDERS: [&str; 4] = ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/"];
const PROGRAMS: [&str; 19] = [
    "bash", "cat", "date", "echo", "env", "false", "grep", "head", "hostname", "id", "ls", "printenv", "pwd", "sh",
    "sleep", "stty", "true", "wc", "whoami",
];
/// What the shell does itself.
const BUILTINS: [&str; 4] = [":", "cd", "exit", "export"];
const NULL: &str = "/dev/null";
pub const NOT_FOUND: i32 = 127;
/// A command line prints no more than this.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
/// Shells within shells.
const MAX_DEPTH: usize = 8;

/// A shell, or the one program that was asked for.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    pub(super) inside: &'a Inside,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) exported: BTreeSet<String>,
    pub(super) working_dir: String,
    pub(super) now: Timestamp,
    pub(super) acts: Vec<Act>,
    /// What the command reads; `None`: what is typed.
    pub(super) stdin: Option<String>,
    /// Rows and columns, where there is a terminal.
    pub terminal: Option<(u16, u16)>,
    printed_bytes: usize,
    depth: usize,
    /// `exit` was called.
    ended: bool,
}

/// What came of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    pub acts: Vec<Act>,
    pub exit_code: i32,
    /// The shell is to end, too.
    pub ended: bool,
}

/// The program that a path or a name means.
pub(super) fn program(name: &str) -> Option<&'static str> {
    let bare = FOLDERS.iter().find_map(|folder| name.strip_prefix(folder)).unwrap_or(name);
    PROGRAMS.into_iter().find(|known| *known == bare)
}

/// Whether a command is one that this container has, and understands.
pub fn is_known(argv: &[String]) -> bool {
    let line = match argv {
        [shell, flag, line, ..] if matches!(program(shell), Some("sh" | "bash")) && flag == "-c" => line,
        [shell, ..] if matches!(program(shell), Some("sh" | "bash")) => return false,
        [first, ..] => return program(first).is_some(),
        [] => return false,
    };
    let is_known = |command: &Command| {
        let name = command.name().unwrap_or_default();
        program(name).is_some() || BUILTINS.contains(&name) || name.contains('=')
    };
    words::parse(line).is_ok_and(|lines| lines.iter().flat_map(|line| &line.commands).all(is_known))
}

/// How runc says that there is no such program.
fn cannot_start(name: &str) -> String {
    let why = match name.contains('/') {
        true => format!("stat {name}: no such file or directory"),
        false => "executable file not found in $PATH".to_owned(),
    };
    format!("OCI runtime exec failed: exec failed: unable to start container process: exec: {name:?}: {why}: unknown\n")
}

impl<'a> Session<'a> {
    pub fn new(inside: &'a Inside) -> Self {
        Self {
            inside,
            variables: inside.env.clone(),
            exported: inside.env.keys().cloned().collect(),
            working_dir: if inside.working_dir.is_empty() { "/".to_owned() } else { inside.working_dir.clone() },
            now: Timestamp::UNIX_EPOCH,
            acts: Vec::new(),
            stdin: None,
            terminal: None,
            printed_bytes: 0,
            depth: 0,
            ended: false,
        }
    }

    pub fn on(self, terminal: Option<(u16, u16)>) -> Self {
        Self { terminal, ..self }
    }

    /// Starts a program, as the runtime does.
    pub fn start(&mut self, argv: &[String], now: Timestamp) -> Ran {
        self.now = now;
        let name = argv.first().map(String::as_str).unwrap_or_default();
        let exit_code = match program(name) {
            Some(_) => self.run(argv),
            None => {
                self.error(cannot_start(name));
                NOT_FOUND
            }
        };
        self.ran(exit_code)
    }

    /// Runs one line of a shell's input.
    pub fn line(&mut self, line: &str, now: Timestamp) -> Ran {
        self.now = now;
        let exit_code = self.script(line);
        self.ran(exit_code)
    }

    fn ran(&mut self, exit_code: i32) -> Ran {
        self.variables.insert("?".to_owned(), exit_code.to_string());
        self.printed_bytes = 0;
        Ran { acts: std::mem::take(&mut self.acts), exit_code, ended: self.ended }
    }

    fn script(&mut self, text: &str) -> i32 {
        let lines = match words::parse(text) {
            Ok(lines) => lines,
            Err(error) => {
                self.error(format!("sh: {error}\n"));
                return 2;
            }
        };
        let mut code = self.variables.get("?").and_then(|code| code.parse().ok()).unwrap_or(0);
        for line in lines {
            let skip = match line.after {
                After::Always => false,
                After::Success => code != 0,
                After::Failure => code == 0,
            };
            if skip {
                continue;
            }
            code = self.pipeline(&line.commands);
            self.variables.insert("?".to_owned(), code.to_string());
            if self.ended {
                break;
            }
        }
        code
    }

    /// Each command reads what the one before it prints. The exit code is the last one's.
    fn pipeline(&mut self, commands: &[Command]) -> i32 {
        let Some((last, before)) = commands.split_last().filter(|(_, before)| !before.is_empty()) else {
            return commands.first().map_or(0, |only| self.redirected(only));
        };
        let mut fed = self.stdin.take();
        for command in before {
            let (acts, _) = self.apart(fed.take(), |stage| stage.redirected(command));
            let mut printed = String::new();
            for act in acts {
                match act {
                    Act::Out(text) => printed.push_str(&text),
                    Act::Copy | Act::Shell => {
                        self.error("sh: what is typed goes through no pipe of this simulated shell\n".to_owned());
                        return 2;
                    }
                    act => self.acts.push(act),
                }
            }
            fed = Some(printed);
        }
        let (acts, code) = self.apart(fed, |stage| stage.redirected(last));
        self.acts.extend(acts);
        code
    }

    /// A process of its own: what it sets is forgotten with it.
    fn apart(&mut self, stdin: Option<String>, run: impl FnOnce(&mut Self) -> i32) -> (Vec<Act>, i32) {
        let acts = std::mem::take(&mut self.acts);
        let mut process = Session { stdin, ended: false, ..self.clone() };
        self.acts = acts;
        let code = run(&mut process);
        (self.printed_bytes, self.now) = (process.printed_bytes, process.now);
        (process.acts, code)
    }

    /// A command, its input and outputs where they are sent.
    fn redirected(&mut self, command: &Command) -> i32 {
        let argv = command.words(&self.variables);
        if command.redirections.is_empty() {
            return self.command(&argv);
        }
        // Where the numbers 1 and 2 lead: to one of the two, or nowhere.
        let (mut out, mut err, mut fed) = (Some(1), Some(2), None);
        for Redirection { of, to } in &command.redirections {
            let to = match to {
                To::Number(number) => {
                    if *number == 1 {
                        out
                    } else {
                        err
                    }
                }
                To::File(word) => {
                    let path = word.text(&self.variables);
                    match (*of, self.file(&path)) {
                        (0, Ok(text)) => fed = Some(text),
                        (1 | 2, _) if path == NULL => {}
                        (of, _) => {
                            let why = if of == 0 { "can't open" } else { "can't create" };
                            let what = if of == 0 { "no such file" } else { "Read-only file system" };
                            self.error(format!("sh: {why} {path}: {what}\n"));
                            return 1;
                        }
                    }
                    None
                }
            };
            match of {
                1 => out = to,
                2 => err = to,
                _ => {}
            }
        }
        let outer = self.stdin.take();
        let is_fed = fed.is_some();
        self.stdin = fed.or(outer.clone());
        let before = std::mem::take(&mut self.acts);
        let code = self.command(&argv);
        let acts = std::mem::replace(&mut self.acts, before);
        if is_fed {
            self.stdin = outer;
        }
        let sent = |text, to| match to {
            Some(1) => Some(Act::Out(text)),
            Some(_) => Some(Act::Err(text)),
            None => None,
        };
        self.acts.extend(acts.into_iter().filter_map(|act| match act {
            Act::Out(text) => sent(text, out),
            Act::Err(text) => sent(text, err),
            Act::Copy if out.is_none() => Some(Act::Drain),
            act => Some(act),
        }));
        code
    }

    /// What the shell does itself, and else a program.
    fn command(&mut self, argv: &[String]) -> i32 {
        let Some(name) = argv.first() else { return 0 };
        match (name.as_str(), &argv[1..]) {
            ("exit", rest) => {
                self.ended = true;
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

    /// `NAME=value`; answers the name.
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
        self.say(text, Act::Out);
        0
    }

    pub(super) fn error(&mut self, text: String) {
        self.say(text, Act::Err);
    }

    fn say(&mut self, text: String, act: fn(String) -> Act) {
        self.printed_bytes += text.len();
        if self.printed_bytes <= MAX_OUTPUT_BYTES {
            self.acts.push(act(text));
        }
    }

    pub(super) fn shell(&mut self, arguments: &[String]) -> i32 {
        match arguments {
            [] => self.acts.push(Act::Shell),
            [flag] if flag == "-i" || flag == "-l" => self.acts.push(Act::Shell),
            [flag, line, ..] if flag == "-c" && self.depth < MAX_DEPTH => {
                let stdin = self.stdin.take();
                let (acts, code) = self.apart(stdin, |inner| {
                    inner.depth += 1;
                    inner.script(line)
                });
                self.acts.extend(acts);
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
        path == "/" || path == self.inside.working_dir || !self.children(path).is_empty()
    }

    /// What stands in a file, or why it cannot be read.
    pub(super) fn file(&self, path: &str) -> Result<String, &'static str> {
        let whole = self.absolute(path);
        match self.inside.files.get(&whole) {
            Some(text) => Ok(text.clone()),
            None if whole == NULL => Ok(String::new()),
            None if self.is_folder(&whole) => Err("Is a directory"),
            None => Err("No such file or directory"),
        }
    }

    /// What lies in a folder.
    pub(super) fn children(&self, folder: &str) -> BTreeSet<String> {
        let prefix = if folder == "/" { "/".to_owned() } else { format!("{folder}/") };
        let programs = PROGRAMS.iter().map(|name| format!("/bin/{name}"));
        let paths = self.inside.files.keys().cloned().chain(programs);
        let child = |path: String| Some(path.strip_prefix(&prefix)?.split('/').next()?.to_owned());
        paths.filter_map(child).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside() -> Inside {
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Inside {
            hostname: "web-0".to_owned(),
            files: pairs(&[("/etc/hostname", "web-0\n"), ("/etc/config/a", "1"), ("/etc/config/b", "2\n")]),
            env: pairs(&[("A", "x"), ("PATH", "/bin")]),
            groups: vec![0, 7],
            ..Inside::default()
        }
    }

    /// What is printed, errors behind `!`, pauses in parentheses; and the exit code.
    fn show(ran: &Ran) -> String {
        let act = |act: &Act| match act {
            Act::Out(text) => text.clone(),
            Act::Err(text) => format!("!{text}"),
            Act::Sleep(time) => format!("({time:?})"),
            other => format!("<{other:?}>"),
        };
        let text: String = ran.acts.iter().map(act).collect();
        format!("{}{}{}", text, ran.exit_code, if ran.ended { " ended" } else { "" })
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn programs_do_what_they_are_known_for() {
        let inside = inside();
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
            ("exit 3; echo no", "3 ended"),
            ("false; exit", "1 ended"),
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
            assert_eq!(show(&Session::new(&inside).line(line, now())), expected, "{line}");
        }
    }

    #[test]
    fn what_the_image_does_not_have_fails_as_a_runtime_says_it() {
        let inside = inside();
        let start = |argv: &[&str]| {
            let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
            (show(&Session::new(&inside).start(&argv, now())), is_known(&argv))
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
        let inside = inside();
        let mut session = Session::new(&inside).on(Some((24, 80)));
        assert_eq!(show(&session.line("stty size; stty raw", now())), "24 80\n!usage: stty size\n1");
    }

    #[test]
    fn nobody_is_flooded() {
        let mut inside = inside();
        inside.files.insert("/big".to_owned(), "x".repeat(1 << 20));
        let ran = Session::new(&inside).line(&"cat /big;".repeat(100), now());
        assert_eq!(ran.acts.len(), 4);
        let nested =
            (0..20).fold("echo deep".to_owned(), |line, _| format!("sh -c \"{}\"", line.replace(['\\', '"'], "")));
        Session::new(&inside).line(&nested, now());
    }
}
