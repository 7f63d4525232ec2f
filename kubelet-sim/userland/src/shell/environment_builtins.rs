//! The commands that read and change variables, positional parameters and options.

use super::interpreter::quoted;
use super::state::{Flow, Shell};
use super::syntax::is_name;
use super::variables::Variable;

const NAMES: [&str; 8] = ["export", "getopts", "local", "read", "readonly", "set", "shift", "unset"];

pub fn is_environment_builtin(name: &str) -> bool {
    NAMES.contains(&name)
}

impl Shell<'_> {
    pub(super) async fn environment_builtin(&mut self, argv: &[String]) -> Result<i32, Flow> {
        let rest = &argv[1..];
        match argv[0].as_str() {
            "export" => self.mark("export", rest, |variable| variable.is_exported = true).await,
            "readonly" => self.mark("readonly", rest, |variable| variable.is_read_only = true).await,
            "local" => self.local(rest).await,
            "read" => self.read(rest).await,
            "set" => self.set(rest).await,
            "shift" => {
                let by = rest.first().map_or(Ok(1), |text| text.parse::<usize>());
                match by {
                    Ok(by) if by <= self.state.positional.len() => {
                        self.state.positional.drain(..by);
                        Ok(0)
                    }
                    _ => Ok(1),
                }
            }
            "unset" => {
                for name in rest.iter().filter(|name| !name.starts_with('-')) {
                    if rest[0] == "-f" {
                        self.state.functions.remove(name);
                    } else if let Err(message) = self.state.variables.unset(name) {
                        return self.give_up(&format!("unset: {message}")).await;
                    }
                }
                Ok(0)
            }
            _ => self.getopts(rest).await,
        }
    }

    /// `export` and `readonly`.
    async fn mark(&mut self, command: &str, words: &[String], mark: fn(&mut Variable)) -> Result<i32, Flow> {
        let words: Vec<&String> = words.iter().filter(|word| *word != "-p" && *word != "--").collect();
        if words.is_empty() {
            let is_listed = |variable: &Variable| match command {
                "export" => variable.is_exported,
                _ => variable.is_read_only,
            };
            let line = |(name, variable): (&str, &Variable)| match &variable.value {
                Some(value) => format!("{command} {name}={}\n", quoted(value)),
                None => format!("{command} {name}\n"),
            };
            let lines: String =
                self.state.variables.iter().filter(|(_, variable)| is_listed(variable)).map(line).collect();
            self.proc.print(&lines).await?;
            return Ok(0);
        }
        for word in words {
            let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            if !is_name(name) {
                return self.give_up(&format!("{command}: {word}: bad variable name")).await;
            }
            if let Some(value) = value {
                self.assign(name, value.to_owned()).await?;
            }
            self.state.variables.mark(name, mark);
        }
        Ok(0)
    }

    async fn local(&mut self, words: &[String]) -> Result<i32, Flow> {
        for word in words {
            let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            if !is_name(name) {
                return self.give_up(&format!("local: {word}: bad variable name")).await;
            }
            if self.state.functions_deep == 0 || !self.state.variables.hide(name) {
                return self.give_up("local: not in a function").await;
            }
            if let Some(value) = value {
                self.assign(name, value.to_owned()).await?;
            }
        }
        Ok(0)
    }

    /// Reads a line into variables; the last one takes the rest.
    async fn read(&mut self, words: &[String]) -> Result<i32, Flow> {
        let (mut is_raw, mut names) = (false, Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-r" => is_raw = true,
                "-p" => {
                    let prompt = words.next().cloned().unwrap_or_default();
                    self.proc.error(&prompt).await?;
                }
                "-s" => {}
                word if word.starts_with('-') => {
                    self.complain(&format!("read: {word} is more than this simulated shell knows")).await?;
                    return Ok(2);
                }
                name if is_name(name) => names.push(name.to_owned()),
                name => {
                    self.complain(&format!("read: '{name}': bad variable name")).await?;
                    return Ok(2);
                }
            }
        }
        let (mut chars, mut code) = (Vec::new(), 0);
        loop {
            let line = self.proc.read_line(0).await.ok().flatten();
            let Some(line) = line else {
                code = 1;
                break;
            };
            let text = String::from_utf8_lossy(&line).into_owned();
            let ends = text.ends_with('\n');
            let mut continues = false;
            let mut rest = text.trim_end_matches('\n').chars().peekable();
            while let Some(next) = rest.next() {
                match next {
                    '\\' if !is_raw => match rest.next() {
                        Some(escaped) => chars.push((escaped, true)),
                        None => continues = ends,
                    },
                    next => chars.push((next, false)),
                }
            }
            if !ends {
                code = 1;
            }
            if !continues {
                break;
            }
        }
        let ifs = self.state.variables.get("IFS").unwrap_or(" \t\n").to_owned();
        if names.is_empty() {
            let line: String = chars.iter().map(|(next, _)| *next).collect();
            self.assign("REPLY", line).await?;
            return Ok(code);
        }
        let values = values(&chars, &ifs, names.len());
        for (number, name) in names.iter().enumerate() {
            self.assign(name, values.get(number).cloned().unwrap_or_default()).await?;
        }
        Ok(code)
    }

    async fn set(&mut self, words: &[String]) -> Result<i32, Flow> {
        if words.is_empty() {
            let line = |(name, variable): (&str, &Variable)| {
                Some(format!("{name}='{}'\n", variable.value.as_ref()?.replace('\'', "'\"'\"'")))
            };
            let lines: String = self.state.variables.iter().filter_map(line).collect();
            self.proc.print(&lines).await?;
            return Ok(0);
        }
        match self.set_options(words).await? {
            Some(rest) => {
                if let Some(positional) = rest {
                    self.state.positional = positional;
                }
                Ok(0)
            }
            None => Err(Flow::Exit(2)),
        }
    }

    /// Reads options; returns the words behind them, `Some(None)` when none stand there, `None` for a bad option.
    pub(super) async fn set_options(&mut self, words: &[String]) -> Result<Option<Option<Vec<String>>>, Flow> {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let is_on = match word.chars().next() {
                _ if word == "--" => return Ok(Some(Some(words[at..].to_vec()))),
                _ if word == "-" => return Ok(Some(Some(words[at..].to_vec()))),
                Some('-') => true,
                Some('+') => false,
                _ => return Ok(Some(Some(words[at - 1..].to_vec()))),
            };
            for letter in word.chars().skip(1) {
                let switch = match letter {
                    'o' => {
                        let name = words.get(at).cloned().unwrap_or_default();
                        at += 1;
                        self.state.options.by_name(&name)
                    }
                    letter => self.state.options.by_letter(letter),
                };
                match switch {
                    Some(switch) => *switch = is_on,
                    None => {
                        self.complain(&format!("set: illegal option {word}")).await?;
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(None))
    }

    async fn getopts(&mut self, rest: &[String]) -> Result<i32, Flow> {
        let [options, name, given @ ..] = rest else {
            return self.give_up("getopts: usage: getopts optstring var [arg...]").await;
        };
        let words = if given.is_empty() { self.state.positional.clone() } else { given.to_vec() };
        let mut number: usize = self.state.variables.get("OPTIND").and_then(|text| text.parse().ok()).unwrap_or(1);
        let word = words.get(number.saturating_sub(1)).cloned().unwrap_or_default();
        let at = if self.state.getopts_at == 0 { 1 } else { self.state.getopts_at };
        let Some(letter) = word.strip_prefix('-').and_then(|_| word.chars().nth(at)).filter(|_| word != "--") else {
            self.state.getopts_at = 0;
            if word == "--" {
                self.assign("OPTIND", (number + 1).to_string()).await?;
            }
            self.assign(name, "?".to_owned()).await?;
            return Ok(1);
        };
        let is_last = at + 1 >= word.chars().count();
        let silent = options.starts_with(':');
        let found = options.trim_start_matches(':').find(letter).filter(|_| letter != ':');
        let takes_value =
            found.is_some_and(|at| options.trim_start_matches(':')[at + letter.len_utf8()..].starts_with(':'));
        self.state.getopts_at = if is_last || takes_value { 0 } else { at + 1 };
        number += usize::from(is_last || takes_value);
        let mut value = letter.to_string();
        if found.is_none() {
            value = "?".to_owned();
            match silent {
                true => self.assign("OPTARG", letter.to_string()).await?,
                false => self.complain(&format!("illegal option -{letter}")).await?,
            }
        } else if takes_value {
            let argument = match is_last {
                false => Some(word.chars().skip(at + 1).collect()),
                true => {
                    number += 1;
                    words.get(number - 2).cloned()
                }
            };
            match argument {
                Some(argument) => self.assign("OPTARG", argument).await?,
                None if silent => {
                    value = ":".to_owned();
                    self.assign("OPTARG", letter.to_string()).await?;
                }
                None => {
                    value = "?".to_owned();
                    self.complain(&format!("option requires an argument -- {letter}")).await?;
                }
            }
        }
        self.assign("OPTIND", number.to_string()).await?;
        self.assign(name, value).await?;
        Ok(0)
    }
}

/// Splits a line for `read`: as many values as there are names, the last one with the rest of the line.
fn values(chars: &[(char, bool)], ifs: &str, count: usize) -> Vec<String> {
    let is_blank = |(c, quoted): &(char, bool)| !quoted && ifs.contains(*c) && c.is_whitespace();
    let is_separator = |(c, quoted): &(char, bool)| !quoted && ifs.contains(*c);
    let (mut values, mut rest) = (Vec::new(), chars);
    while values.len() + 1 < count {
        let start = rest.iter().position(|c| !is_blank(c)).unwrap_or(rest.len());
        rest = &rest[start..];
        if rest.is_empty() {
            return values;
        }
        let end = rest.iter().position(is_separator).unwrap_or(rest.len());
        values.push(rest[..end].iter().map(|(c, _)| *c).collect());
        rest = &rest[end..];
        let blanks = rest.iter().position(|c| !is_blank(c)).unwrap_or(rest.len());
        rest = &rest[blanks..];
        if rest.first().is_some_and(is_separator) {
            rest = &rest[1..];
        }
    }
    let start = rest.iter().position(|c| !is_blank(c)).unwrap_or(rest.len());
    let end = rest.iter().rposition(|c| !is_blank(c)).map_or(start, |at| at + 1);
    values.push(rest[start..end.max(start)].iter().map(|(c, _)| *c).collect());
    values
}
