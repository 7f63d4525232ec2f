//! The programs of a simulated container: a few, each with few options. They report what they do not support.
//!
//! There is no Kubernetes counterpart: a real container has the programs of its image.

use super::session::{ContainerContext, Session, ShellEffect, program};
use component_base::duration::parse_duration;
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

impl Session<'_> {
    /// Runs a program of the image; returns its exit code.
    pub(super) fn run(&mut self, argv: &[String]) -> i32 {
        let (name, rest) = (program(&argv[0]).unwrap_or_default(), &argv[1..]);
        match name {
            "true" => 0,
            "false" => 1,
            "echo" => self.echo(rest),
            "pwd" => self.print(format!("{}\n", self.working_dir)),
            "hostname" => self.print(format!("{}\n", self.context.hostname)),
            "date" => self.print(self.now.strftime("%a %b %e %H:%M:%S UTC %Y\n").to_string()),
            "id" => self.print(self.id()),
            "whoami" => self.whoami(),
            "env" | "printenv" => self.env(rest),
            "grep" => self.grep(rest),
            "head" => self.head(rest),
            "stty" => self.stty(rest),
            "wc" => self.wc(rest),
            "sleep" => self.sleep(rest),
            "cat" => self.cat(rest),
            "ls" => self.ls(rest),
            _ => self.shell(rest),
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
        let ContainerContext { uid, gid, groups, .. } = self.context;
        let groups: Vec<String> = groups.iter().map(named).collect();
        format!("uid={} gid={} groups={}\n", named(uid), named(gid), groups.join(","))
    }

    fn whoami(&mut self) -> i32 {
        match self.context.uid {
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
        self.effects.push(ShellEffect::Sleep(whole));
        self.now = self.now.checked_add(whole).unwrap_or(Timestamp::MAX);
        0
    }

    fn cat(&mut self, paths: &[String]) -> i32 {
        if paths.is_empty() {
            self.copy();
        }
        let mut code = 0;
        for path in paths {
            match self.file(path) {
                Ok(text) => drop(self.print(text)),
                Err(_) if path == "-" => self.copy(),
                Err(why) => {
                    self.error(format!("cat: {path}: {why}\n"));
                    code = 1;
                }
            }
        }
        code
    }

    /// Prints the input unchanged.
    fn copy(&mut self) {
        match self.stdin.take() {
            Some(text) => drop(self.print(text)),
            None => self.effects.push(ShellEffect::Copy),
        }
    }

    /// Reads the files, or the redirected input when none are named. The error is an exit code.
    fn read(&mut self, name: &str, paths: &[String]) -> Result<String, i32> {
        let mut whole = String::new();
        for path in paths {
            whole += &self.file(path).map_err(|why| {
                self.error(format!("{name}: {path}: {why}\n"));
                2
            })?;
        }
        if !paths.is_empty() {
            return Ok(whole);
        }
        self.stdin.take().ok_or_else(|| {
            self.error(format!("{name}: this simulated program reads files and pipes, not what is typed\n"));
            2
        })
    }

    /// Prints the lines that contain a text, or with `-v` those that do not. The text is no pattern.
    fn grep(&mut self, words: &[String]) -> i32 {
        let (is_inverted, words) = match words.split_first() {
            Some((flag, rest)) if flag == "-v" => (true, rest),
            _ => (false, words),
        };
        let Some((wanted, paths)) = words.split_first() else {
            self.error("usage: grep [-v] TEXT [FILE]...\n".to_owned());
            return 2;
        };
        let text = match self.read("grep", paths) {
            Ok(text) => text,
            Err(code) => return code,
        };
        let found: Vec<&str> = text.lines().filter(|line| line.contains(wanted.as_str()) != is_inverted).collect();
        let code = i32::from(found.is_empty());
        self.print(found.iter().map(|line| format!("{line}\n")).collect());
        code
    }

    fn head(&mut self, words: &[String]) -> i32 {
        const LINES: usize = 10;
        let (count, paths) = match words {
            [flag, number, rest @ ..] if flag == "-n" => (number.parse().ok(), rest),
            [flag, rest @ ..] if flag.starts_with('-') => (flag[1..].parse().ok(), rest),
            rest => (Some(LINES), rest),
        };
        let Some(count) = count else {
            self.error("usage: head [-n COUNT] [FILE]...\n".to_owned());
            return 1;
        };
        match self.read("head", paths) {
            Ok(text) => self.print(text.split_inclusive('\n').take(count).collect()),
            Err(code) => code,
        }
    }

    /// Counts lines, words and bytes, or one of them.
    fn wc(&mut self, words: &[String]) -> i32 {
        let (flag, paths) = match words.split_first() {
            Some((flag, rest)) if flag.starts_with('-') => (flag.as_str(), rest),
            _ => ("", words),
        };
        let text = match self.read("wc", paths) {
            Ok(text) => text,
            Err(code) => return code,
        };
        let (lines, all, bytes) = (text.matches('\n').count(), text.split_whitespace().count(), text.len());
        match flag {
            "-l" => self.print(format!("{lines}\n")),
            "-w" => self.print(format!("{all}\n")),
            "-c" => self.print(format!("{bytes}\n")),
            _ => self.print(format!("{lines} {all} {bytes}\n")),
        }
    }

    /// `stty size` prints the rows and columns of the terminal.
    fn stty(&mut self, words: &[String]) -> i32 {
        match (self.terminal, words) {
            (None, _) => self.error("stty: standard input: Not a tty\n".to_owned()),
            (Some((rows, columns)), [size]) if size == "size" => return self.print(format!("{rows} {columns}\n")),
            _ => self.error("usage: stty size\n".to_owned()),
        }
        1
    }

    fn ls(&mut self, arguments: &[String]) -> i32 {
        let paths: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
        let here = self.working_dir.clone();
        let paths = if paths.is_empty() { vec![&here] } else { paths };
        let mut code = 0;
        for path in paths {
            let whole = self.absolute(path);
            if self.context.files.contains_key(&whole) || program(&whole).is_some_and(|_| whole.starts_with("/bin/")) {
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
}
