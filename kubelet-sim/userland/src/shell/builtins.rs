//! The commands that change the shell itself.

use super::environment_builtins::is_environment_builtin;
use super::interpreter::quoted;
use super::state::{Boxed, Flow, Shell};
use crate::process::signal::Signal;
use crate::programs;
use file_tree::place::{Access, join};

/// Builtins whose assignments stay, and whose errors end a shell.
const SPECIAL: [&str; 14] = [
    ".", ":", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift", "trap",
    "unset",
];
const OTHERS: [&str; 9] = ["cd", "command", "jobs", "source", "type", "umask", "wait", "builtin", "hash"];
/// Builtins of other shells, or of a terminal, that are refused by name.
const REFUSED: [&str; 9] = ["alias", "unalias", "bg", "fg", "declare", "typeset", "fc", "ulimit", "let"];

impl Shell<'_> {
    pub(super) fn is_special(name: &str) -> bool {
        SPECIAL.contains(&name)
    }

    pub(super) fn is_builtin(name: &str) -> bool {
        Self::is_special(name) || OTHERS.contains(&name) || REFUSED.contains(&name) || is_environment_builtin(name)
    }

    /// Runs a builtin.
    pub(super) fn builtin<'a>(&'a mut self, argv: &'a [String]) -> Boxed<'a, i32> {
        Box::pin(async move {
            let (name, rest) = (argv[0].as_str(), &argv[1..]);
            match name {
                ":" | "hash" => Ok(0),
                "break" | "continue" => self.leave_loop(name, rest).await,
                "return" => Err(Flow::Return(self.exit_code(rest).await?)),
                "exit" => Err(Flow::Exit(self.exit_code(rest).await?)),
                "eval" => {
                    let text = rest.join(" ");
                    self.script(&text).await
                }
                "." | "source" => self.source(rest).await,
                "exec" => self.exec(rest).await,
                "trap" => self.trap(rest).await,
                "wait" => self.wait(rest).await,
                "jobs" => {
                    let lines: String = self.state.jobs.iter().map(|pid| format!("{pid} Running\n")).collect();
                    self.proc.print(&lines).await?;
                    Ok(0)
                }
                "cd" => self.change_directory(rest).await,
                "umask" => self.umask(rest).await,
                "command" | "type" | "builtin" => self.describe(name, rest).await,
                name if is_environment_builtin(name) => self.environment_builtin(argv).await,
                name => {
                    self.complain(&format!("{name} is more than this simulated shell knows")).await?;
                    Ok(2)
                }
            }
        })
    }

    async fn exit_code(&mut self, rest: &[String]) -> Result<i32, Flow> {
        match rest.first().map(|text| text.parse::<i32>()) {
            None => Ok(self.state.status),
            Some(Ok(code)) => Ok(code & 0xff),
            Some(Err(_)) => self.give_up(&format!("Illegal number: {}", rest[0])).await,
        }
    }

    async fn leave_loop(&mut self, name: &str, rest: &[String]) -> Result<i32, Flow> {
        let levels: u32 = match rest.first().map(|text| text.parse()) {
            None => 1,
            Some(Ok(levels @ 1..)) => levels,
            Some(_) => return self.give_up(&format!("Illegal number: {}", rest[0])).await,
        };
        let levels = levels.min(self.state.loops);
        match (levels, name) {
            (0, _) => Ok(0),
            (levels, "break") => Err(Flow::Break(levels)),
            (levels, _) => Err(Flow::Continue(levels)),
        }
    }

    async fn source(&mut self, rest: &[String]) -> Result<i32, Flow> {
        let Some(path) = rest.first() else { return self.give_up(".: filename argument required").await };
        match self.proc.tree().read(&self.proc.actor(), path) {
            Ok(bytes) => match self.script(&String::from_utf8_lossy(&bytes)).await {
                Err(Flow::Return(code)) => Ok(code),
                found => found,
            },
            Err(error) => self.give_up(&format!(".: can't open '{path}': {error}")).await,
        }
    }

    async fn exec(&mut self, rest: &[String]) -> Result<i32, Flow> {
        if rest.is_empty() {
            return Ok(0);
        }
        // The program takes the place of the shell, with its traps gone.
        self.proc.kernel.entry(self.proc.pid, |entry| {
            entry.caught.clear();
            entry.command = rest.join(" ");
        });
        self.state.traps.clear();
        let code = self.replace(rest).await?;
        Err(Flow::Exit(code))
    }

    async fn trap(&mut self, rest: &[String]) -> Result<i32, Flow> {
        let name = |signal: &Option<Signal>| signal.map_or("EXIT", Signal::name);
        let Some(first) = rest.first() else {
            let traps = &self.state.traps;
            let line =
                |(signal, text): (&Option<Signal>, &String)| format!("trap -- {} {}\n", quoted(text), name(signal));
            let lines: String = traps.iter().map(line).collect();
            self.proc.print(&lines).await?;
            return Ok(0);
        };
        let rest = if first == "--" { &rest[1..] } else { rest };
        // `trap - TERM` and `trap 15` reset.
        let (command, signals) = match rest {
            [only] => (None, std::slice::from_ref(only)),
            [dash, signals @ ..] if dash == "-" => (None, signals),
            [command, signals @ ..] => (Some(command.clone()), signals),
            [] => return Ok(0),
        };
        let mut code = 0;
        for text in signals {
            let signal = match text.as_str() {
                "EXIT" | "0" => None,
                text => match Signal::parse(text) {
                    Some(signal) => Some(signal),
                    None => {
                        self.complain(&format!("trap: {text}: invalid signal specification")).await?;
                        code = 1;
                        continue;
                    }
                },
            };
            if let Some(signal) = signal {
                self.proc.kernel.entry(self.proc.pid, |entry| {
                    entry.caught.remove(&signal);
                    entry.ignored.remove(&signal);
                    match command.as_deref() {
                        Some("") => drop(entry.ignored.insert(signal)),
                        Some(_) => drop(entry.caught.insert(signal)),
                        None => {}
                    }
                });
            }
            match &command {
                Some(command) => drop(self.state.traps.insert(signal, command.clone())),
                None => drop(self.state.traps.remove(&signal)),
            }
        }
        Ok(code)
    }

    async fn wait(&mut self, rest: &[String]) -> Result<i32, Flow> {
        if rest.is_empty() {
            while let Some(pid) = self.state.jobs.first().copied() {
                let code = self.wait_for(pid).await?;
                if self.state.jobs.contains(&pid) {
                    // A signal came first.
                    return Ok(code);
                }
            }
            return Ok(0);
        }
        let mut code = 0;
        for text in rest {
            code = match text.parse() {
                Ok(pid) => self.wait_for(pid).await?,
                Err(_) => {
                    self.complain(&format!("wait: {text}: this simulated shell knows jobs by number only")).await?;
                    2
                }
            };
        }
        Ok(code)
    }

    async fn change_directory(&mut self, rest: &[String]) -> Result<i32, Flow> {
        let rest: Vec<&String> = rest.iter().filter(|word| !matches!(word.as_str(), "-L" | "-P" | "--")).collect();
        let variable = |name: &str| self.state.variables.get(name).unwrap_or_default().to_owned();
        let (path, prints) = match rest.first().map(|path| path.as_str()) {
            None => (variable("HOME"), false),
            Some("-") => (variable("OLDPWD"), true),
            Some(path) => (path.to_owned(), false),
        };
        let actor = self.proc.actor();
        let wanted = if path.is_empty() { "." } else { &path };
        let found = self.proc.tree().find(&actor, wanted, true);
        let allowed = |place: &file_tree::place::Place| file_tree::place::check(&place.node, &actor, Access::Execute);
        let error = match &found {
            Ok(place) if !place.node.is_folder() => Some("Not a directory".to_owned()),
            Ok(place) => allowed(place).err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = error {
            self.complain(&format!("cd: can't cd to {path}: {error}")).await?;
            return Ok(2);
        }
        let before = self.proc.user.working_dir.clone();
        let after = found.map(|place| place.path).unwrap_or_default();
        if prints {
            self.proc.print(&format!("{after}\n")).await?;
        }
        self.assign("OLDPWD", before).await?;
        self.assign("PWD", after.clone()).await?;
        self.proc.user.working_dir = after;
        Ok(0)
    }

    async fn umask(&mut self, rest: &[String]) -> Result<i32, Flow> {
        match rest.first().map(|text| u32::from_str_radix(text, 8)) {
            None => {
                let line = format!("{:04o}\n", self.proc.user.umask);
                self.proc.print(&line).await?;
            }
            Some(Ok(mask)) => self.proc.user.umask = mask & 0o777,
            Some(Err(_)) => {
                self.complain(&format!("umask: Illegal number: {}", rest[0])).await?;
                return Ok(2);
            }
        }
        Ok(0)
    }

    /// `command NAME…` runs no function; `command -v` and `type` tell what a name means.
    async fn describe(&mut self, name: &str, rest: &[String]) -> Result<i32, Flow> {
        let asks = name == "type" || rest.first().is_some_and(|flag| flag == "-v" || flag == "-V");
        let names = if asks && name != "type" { &rest[1..] } else { rest };
        if !asks {
            let Some(first) = rest.first() else { return Ok(0) };
            let is_builtin = Self::is_builtin(first);
            return if is_builtin { self.builtin(rest).await } else { self.program(rest, &[]).await };
        }
        let mut code = 0;
        for wanted in names {
            let is_verbose = name == "type" || rest[0] == "-V";
            let own = if self.state.functions.contains_key(wanted) {
                Some("function")
            } else if Self::is_builtin(wanted)
                || ["echo", "printf", "test", "[", "true", "false", "kill", "pwd"].contains(&wanted.as_str())
            {
                Some("shell builtin")
            } else {
                None
            };
            let line = match (own, self.path_of(wanted)) {
                (Some(_), _) if !is_verbose => format!("{wanted}\n"),
                (Some("function"), _) => format!("{wanted} is a function\n"),
                (Some(kind), _) => format!("{wanted} is a {kind}\n"),
                (None, Some(path)) if !is_verbose => format!("{path}\n"),
                (None, Some(path)) => format!("{wanted} is {path}\n"),
                (None, None) => {
                    code = 127;
                    if is_verbose { format!("{wanted}: not found\n") } else { String::new() }
                }
            };
            self.proc.print(&line).await?;
        }
        Ok(code)
    }

    /// Returns the file that a name means.
    fn path_of(&self, name: &str) -> Option<String> {
        let actor = self.proc.actor();
        let is_program = |path: &String| self.proc.tree().allows(&actor, path, Access::Execute);
        if name.contains('/') {
            return Some(name.to_owned()).filter(is_program);
        }
        let path = self.state.variables.get("PATH").unwrap_or(programs::DEFAULT_PATH);
        path.split(':').map(|folder| join(folder, name)).find(is_program)
    }
}
