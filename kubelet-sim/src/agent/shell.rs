//! The programs of a simulated container, and the shell that starts them: a handful, which say so when they are asked for
//! more.
//!
//! There is no Kubernetes counterpart: a real container has whatever its image has. Pure: from a container's inside, a
//! command and the time to what is printed, how long is slept, and the exit code.

use super::words::{self, After};
use component_base::duration::parse_duration;
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
    /// Reads commands from its input.
    Shell,
}

/// Where the image's programs lie.
const FOLDERS: [&str; 4] = ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/"];
const PROGRAMS: [&str; 15] = [
    "bash", "cat", "date", "echo", "env", "false", "hostname", "id", "ls", "printenv", "pwd", "sh", "sleep", "true",
    "whoami",
];
pub const NOT_FOUND: i32 = 127;
/// A command line prints no more than this.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
/// Shells within shells.
const MAX_DEPTH: usize = 8;

/// A shell, or the one program that was asked for.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    inside: &'a Inside,
    variables: BTreeMap<String, String>,
    exported: BTreeSet<String>,
    working_dir: String,
    now: Timestamp,
    acts: Vec<Act>,
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
fn program(name: &str) -> Option<&'static str> {
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
    words::parse(line).is_ok()
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
            printed_bytes: 0,
            depth: 0,
            ended: false,
        }
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
        let commands = match words::parse(text) {
            Ok(commands) => commands,
            Err(error) => {
                self.error(format!("sh: {error}\n"));
                return 2;
            }
        };
        let mut code = self.variables.get("?").and_then(|code| code.parse().ok()).unwrap_or(0);
        for command in commands {
            let skip = match command.after {
                After::Always => false,
                After::Success => code != 0,
                After::Failure => code == 0,
            };
            if skip {
                continue;
            }
            let argv = command.words(&self.variables);
            code = self.command(&argv);
            self.variables.insert("?".to_owned(), code.to_string());
            if self.ended {
                break;
            }
        }
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

    fn run(&mut self, argv: &[String]) -> i32 {
        let (name, rest) = (program(&argv[0]).unwrap_or_default(), &argv[1..]);
        match name {
            "true" => 0,
            "false" => 1,
            "echo" => self.echo(rest),
            "pwd" => self.print(format!("{}\n", self.working_dir)),
            "hostname" => self.print(format!("{}\n", self.inside.hostname)),
            "date" => self.print(self.now.strftime("%a %b %e %H:%M:%S UTC %Y\n").to_string()),
            "id" => self.print(self.id()),
            "whoami" => self.whoami(),
            "env" | "printenv" => self.env(rest),
            "sleep" => self.sleep(rest),
            "cat" => self.cat(rest),
            "ls" => self.ls(rest),
            _ => self.shell(rest),
        }
    }

    fn print(&mut self, text: String) -> i32 {
        self.say(text, Act::Out);
        0
    }

    fn error(&mut self, text: String) {
        self.say(text, Act::Err);
    }

    fn say(&mut self, text: String, act: fn(String) -> Act) {
        self.printed_bytes += text.len();
        if self.printed_bytes <= MAX_OUTPUT_BYTES {
            self.acts.push(act(text));
        }
    }

    fn echo(&mut self, words: &[String]) -> i32 {
        match words.split_first() {
            Some((flag, rest)) if flag == "-n" => self.print(rest.join(" ")),
            _ => self.print(format!("{}\n", words.join(" "))),
        }
    }

    fn id(&self) -> String {
        let named = |id: &i64| if *id == 0 { "0(root)".to_owned() } else { id.to_string() };
        let Inside { uid, gid, groups, .. } = self.inside;
        let groups: Vec<String> = groups.iter().map(named).collect();
        format!("uid={} gid={} groups={}\n", named(uid), named(gid), groups.join(","))
    }

    fn whoami(&mut self) -> i32 {
        match self.inside.uid {
            0 => self.print("root\n".to_owned()),
            uid => {
                self.error(format!("whoami: unknown uid {uid}\n"));
                1
            }
        }
    }

    fn env(&mut self, names: &[String]) -> i32 {
        let exported = |session: &Self, name: &String| {
            session.variables.get(name).filter(|_| session.exported.contains(name)).cloned()
        };
        if names.is_empty() {
            let lines = self.exported.iter().filter_map(|name| Some(format!("{name}={}\n", exported(self, name)?)));
            let text = lines.collect();
            return self.print(text);
        }
        let mut code = 0;
        for name in names {
            match exported(self, name) {
                Some(value) => {
                    self.print(format!("{value}\n"));
                }
                None => code = 1,
            }
        }
        code
    }

    fn sleep(&mut self, times: &[String]) -> i32 {
        let mut whole = Duration::ZERO;
        for time in times {
            let seconds = time.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            match seconds.or_else(|| parse_duration(time).ok()) {
                Some(time) => whole = whole.saturating_add(time),
                None if time == "infinity" => whole = Duration::MAX,
                None => {
                    self.error(format!("sleep: invalid number '{time}'\n"));
                    return 1;
                }
            }
        }
        self.acts.push(Act::Sleep(whole));
        self.now = self.now.checked_add(whole).unwrap_or(Timestamp::MAX);
        0
    }

    fn cat(&mut self, paths: &[String]) -> i32 {
        if paths.is_empty() {
            self.acts.push(Act::Copy);
        }
        let mut code = 0;
        for path in paths {
            let whole = self.absolute(path);
            match self.inside.files.get(&whole) {
                Some(text) => {
                    self.print(text.clone());
                }
                None if path == "-" => self.acts.push(Act::Copy),
                None => {
                    let why = if self.is_folder(&whole) { "Is a directory" } else { "No such file or directory" };
                    self.error(format!("cat: {path}: {why}\n"));
                    code = 1;
                }
            }
        }
        code
    }

    fn ls(&mut self, arguments: &[String]) -> i32 {
        let paths: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
        let here = self.working_dir.clone();
        let paths = if paths.is_empty() { vec![&here] } else { paths };
        let mut code = 0;
        for path in paths {
            let whole = self.absolute(path);
            if self.inside.files.contains_key(&whole) || program(&whole).is_some_and(|_| whole.starts_with("/bin/")) {
                self.print(format!("{path}\n"));
            } else if self.is_folder(&whole) {
                let names: String = self.children(&whole).into_iter().map(|name| format!("{name}\n")).collect();
                self.print(names);
            } else {
                self.error(format!("ls: {path}: No such file or directory\n"));
                code = 1;
            }
        }
        code
    }

    fn shell(&mut self, arguments: &[String]) -> i32 {
        match arguments {
            [] => self.acts.push(Act::Shell),
            [flag] if flag == "-i" || flag == "-l" => self.acts.push(Act::Shell),
            [flag, line, ..] if flag == "-c" && self.depth < MAX_DEPTH => {
                // A process of its own: what it sets is forgotten with it.
                let mut inner = Session { depth: self.depth + 1, ended: false, ..self.clone() };
                inner.acts = Vec::new();
                let code = inner.script(line);
                self.acts.extend(inner.acts);
                self.printed_bytes = inner.printed_bytes;
                self.now = inner.now;
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

    fn absolute(&self, path: &str) -> String {
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

    fn is_folder(&self, path: &str) -> bool {
        path == "/" || path == self.inside.working_dir || !self.children(path).is_empty()
    }

    /// What lies in a folder.
    fn children(&self, folder: &str) -> BTreeSet<String> {
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
            ("a | b", "!sh: syntax error: '|' is more than this simulated shell knows\n2"),
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
