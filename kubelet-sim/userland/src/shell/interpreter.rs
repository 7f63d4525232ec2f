//! Runs lists, pipelines and commands.
//!
//! Corresponds to POSIX.1-2017, XCU chapter 2.9.

use super::state::{Boxed, Flow, Shell};
use super::syntax::{Command, CommandKind, Connector, Item, List, Pipeline, Word};
use crate::process::proc::Stop;
use crate::programs;

/// Programs that the shell runs without looking for a file.
const BUILT_IN_PROGRAMS: [&str; 9] = ["echo", "false", "kill", "printf", "pwd", "test", "true", "[", "sleep"];

impl Shell<'_> {
    /// Runs commands in order; returns the exit code of the last one.
    pub fn list<'a>(&'a mut self, list: &'a List) -> Boxed<'a, i32> {
        Box::pin(async move {
            let mut code = 0;
            for item in list.iter() {
                code = self.item(item).await?;
                self.run_traps().await?;
            }
            Ok(code)
        })
    }

    async fn item(&mut self, item: &Item) -> Result<i32, Flow> {
        if item.is_background {
            return self.start_job(item).await;
        }
        let last = item.rest.len();
        let mut code = self.part(&item.first, last > 0).await?;
        for (number, (connector, pipeline)) in item.rest.iter().enumerate() {
            if (*connector == Connector::And) == (code == 0) {
                code = self.part(pipeline, number + 1 < last).await?;
            }
        }
        Ok(code)
    }

    /// Runs a pipeline; `tolerates` is true where its failure decides what comes next.
    async fn part(&mut self, pipeline: &Pipeline, tolerates: bool) -> Result<i32, Flow> {
        let tolerates = tolerates || pipeline.is_negated;
        self.state.tolerates_failure += u32::from(tolerates);
        let found = match pipeline.commands.as_slice() {
            [only] => self.command(only).await,
            commands => self.pipeline(commands).await,
        };
        self.state.tolerates_failure -= u32::from(tolerates);
        let code = match pipeline.is_negated {
            true => i32::from(found? == 0),
            false => found?,
        };
        self.state.status = code;
        if code != 0 && self.state.options.exits_on_error && !tolerates && self.state.tolerates_failure == 0 {
            return Err(Flow::Exit(code));
        }
        Ok(code)
    }

    /// Runs one command, in this process as far as it can.
    pub fn command<'a>(&'a mut self, command: &'a Command) -> Boxed<'a, i32> {
        Box::pin(async move {
            if !self.proc.enter(1) {
                return self.give_up("commands are nested too deeply").await;
            }
            let found = self.command_here(command).await;
            self.proc.depth -= 1;
            found
        })
    }

    async fn command_here(&mut self, command: &Command) -> Result<i32, Flow> {
        if let CommandKind::Simple { assignments, words } = &command.kind {
            return self.simple(assignments, words, command).await;
        }
        let before = (!command.redirections.is_empty()).then(|| self.proc.descriptors.clone());
        let found = match self.redirect(&command.redirections).await {
            Ok(true) => self.compound(&command.kind).await,
            Ok(false) => Ok(1),
            Err(flow) => Err(flow),
        };
        if let Some(before) = before {
            self.proc.descriptors = before;
        }
        found
    }

    async fn compound(&mut self, kind: &CommandKind) -> Result<i32, Flow> {
        match kind {
            CommandKind::Simple { .. } => Ok(0),
            CommandKind::Group(list) => self.list(list).await,
            CommandKind::Subshell(list) => self.subshell(list.clone()).await,
            CommandKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.condition(condition).await? == 0 {
                        return self.list(body).await;
                    }
                }
                match otherwise {
                    Some(body) => self.list(body).await,
                    None => Ok(0),
                }
            }
            CommandKind::Loop { is_until, condition, body } => {
                let mut code = 0;
                loop {
                    let checked = self.in_loop(condition, true).await?;
                    match checked {
                        Turn::Ended(condition) if (condition == 0) == *is_until => return Ok(code),
                        Turn::Ended(_) => {}
                        Turn::Break => return Ok(0),
                        Turn::Continue => continue,
                    }
                    match self.in_loop(body, false).await? {
                        Turn::Ended(ended) => code = ended,
                        Turn::Break => return Ok(0),
                        Turn::Continue => code = 0,
                    }
                }
            }
            CommandKind::For { name, words, body } => {
                let values = match words {
                    Some(words) => self.fields(words).await?,
                    None => self.state.positional.clone(),
                };
                let mut code = 0;
                for value in values {
                    self.assign(name, value).await?;
                    match self.in_loop(body, false).await? {
                        Turn::Ended(ended) => code = ended,
                        Turn::Break => return Ok(0),
                        Turn::Continue => code = 0,
                    }
                }
                Ok(code)
            }
            CommandKind::Case { word, arms } => {
                let text = self.text(word).await?;
                for (globs, body) in arms {
                    for glob in globs {
                        if self.glob(glob).await?.matches(&text) {
                            return self.list(body).await;
                        }
                    }
                }
                Ok(0)
            }
            CommandKind::Function { name, body } => {
                self.state.functions.insert(name.clone(), body.clone());
                Ok(0)
            }
        }
    }

    async fn condition(&mut self, list: &List) -> Result<i32, Flow> {
        self.state.tolerates_failure += 1;
        let found = self.list(list).await;
        self.state.tolerates_failure -= 1;
        found
    }

    /// Runs a part of a loop; `break 2` and `continue 2` leave it for the loop around it.
    async fn in_loop(&mut self, list: &List, is_condition: bool) -> Result<Turn, Flow> {
        self.state.loops += 1;
        let found = if is_condition { self.condition(list).await } else { self.list(list).await };
        self.state.loops -= 1;
        match found {
            Ok(code) => Ok(Turn::Ended(code)),
            Err(Flow::Break(0 | 1)) => Ok(Turn::Break),
            Err(Flow::Continue(0 | 1)) => Ok(Turn::Continue),
            Err(Flow::Break(levels)) => Err(Flow::Break(levels - 1)),
            Err(Flow::Continue(levels)) => Err(Flow::Continue(levels - 1)),
            Err(flow) => Err(flow),
        }
    }

    async fn simple(&mut self, assignments: &[(String, Word)], words: &[Word], command: &Command) -> Result<i32, Flow> {
        self.state.substituted = None;
        let argv = self.fields(words).await?;
        let mut values = Vec::new();
        for (name, word) in assignments {
            let value = self.text(word).await?;
            if argv.is_empty() {
                // `A=1 B=$A`: the next value sees this one.
                self.assign(name, value.clone()).await?;
            }
            values.push((name.as_str(), value));
        }
        if self.state.options.traces {
            let assigned = values.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
            let line: Vec<String> = assigned.chain(argv.iter().map(|word| quoted(word))).collect();
            self.proc.error(&format!("+ {}\n", line.join(" "))).await?;
        }
        let Some(name) = argv.first() else {
            self.proc.tick().await;
            let before = self.proc.descriptors.clone();
            let is_opened = self.redirect(&command.redirections).await?;
            self.proc.descriptors = before;
            return Ok(if is_opened { self.state.substituted.unwrap_or(0) } else { 1 });
        };
        // `exec` without a command keeps its redirections.
        let before = (!command.redirections.is_empty()).then(|| self.proc.descriptors.clone());
        let found = match self.redirect(&command.redirections).await {
            Ok(true) => self.run(name, &argv, &values).await,
            Ok(false) => Ok(1),
            Err(flow) => Err(flow),
        };
        match before {
            Some(_) if name == "exec" && argv.len() == 1 && found == Ok(0) => {}
            Some(before) => self.proc.descriptors = before,
            None => {}
        }
        found
    }

    /// Runs a function, a builtin or a program.
    async fn run(&mut self, name: &str, argv: &[String], values: &[(&str, String)]) -> Result<i32, Flow> {
        if let Some(body) = self.state.functions.get(name).cloned() {
            self.proc.tick().await;
            for (name, value) in values {
                self.assign(name, value.clone()).await?;
            }
            return self.call(&body, argv[1..].to_vec()).await;
        }
        if Self::is_builtin(name) {
            self.proc.tick().await;
            // A builtin sees the assignments only while it runs; `read` with another IFS is the usual case.
            let is_special = Self::is_special(name);
            self.state.variables.enter();
            for (name, value) in values {
                if !is_special {
                    self.state.variables.hide(name);
                }
                self.assign(name, value.clone()).await?;
            }
            if is_special || values.is_empty() {
                self.state.variables.leave();
                return self.builtin(argv).await;
            }
            let found = self.builtin(argv).await;
            self.state.variables.leave();
            return found;
        }
        self.program(argv, values).await
    }

    /// Runs a program with the exported variables: most of them in a process of their own.
    pub(super) async fn program(&mut self, argv: &[String], values: &[(&str, String)]) -> Result<i32, Flow> {
        let mut env = self.state.variables.exported();
        env.extend(values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self.proc.env = env;
        if BUILT_IN_PROGRAMS.contains(&argv[0].as_str())
            && let Some(program) = programs::program(&argv[0])
        {
            self.proc.tick().await;
            return match program(self.proc, argv).await {
                Err(Stop::Exit(code)) => Ok(code),
                ended => Ok(ended?),
            };
        }
        if self.state.is_replaceable && self.state.functions_deep == 0 {
            let command = argv.join(" ");
            self.proc.kernel.entry(self.proc.pid, |entry| entry.command = command);
            return Ok(self.proc.launch(argv).await?);
        }
        self.proc.tick().await;
        let Some(pid) = self.proc.spawn(argv.to_vec()) else {
            return self.give_up("can't fork: Resource temporarily unavailable").await;
        };
        Ok(self.proc.wait(pid).await.code())
    }

    /// Runs a program in the place of the shell.
    pub(super) async fn replace(&mut self, argv: &[String]) -> Result<i32, Flow> {
        self.proc.env = self.state.variables.exported();
        Ok(self.proc.launch(argv).await.unwrap_or_else(Stop::code))
    }

    /// Calls a function.
    async fn call(&mut self, body: &Command, arguments: Vec<String>) -> Result<i32, Flow> {
        let before = std::mem::replace(&mut self.state.positional, arguments);
        let loops = std::mem::take(&mut self.state.loops);
        self.state.variables.enter();
        self.state.functions_deep += 1;
        let found = self.command(body).await;
        self.state.functions_deep -= 1;
        self.state.variables.leave();
        (self.state.positional, self.state.loops) = (before, loops);
        match found {
            Err(Flow::Return(code)) => Ok(code),
            found => found,
        }
    }
}

/// The end of one turn of a loop.
enum Turn {
    Ended(i32),
    Break,
    Continue,
}

/// Returns a word as `set -x` shows it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=+%@,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
