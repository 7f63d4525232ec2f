//! `find` with the usual predicates, `-exec` and `-delete`.

use crate::pattern::glob::Glob;
use crate::process::proc::{Outcome, Proc, Stop};
use file_tree::node::{FileType, Metadata};
use file_tree::place::join;

/// Files that one call looks at.
const MAX_FILES: usize = 100_000;

enum Test {
    Name(Glob, bool),
    Path(Glob),
    Type(char),
    Size {
        compared: char,
        bytes: u64,
        unit: u64,
    },
    Mode {
        mode: u32,
        is_exact: bool,
    },
    User(u32),
    Group(u32),
    Newer(jiff::Timestamp),
    /// Age in minutes or days, compared with a number.
    Age {
        compared: char,
        number: i64,
        unit_s: i64,
    },
    Empty,
    Print {
        ends_with_zero: bool,
    },
    Delete,
    Execute(Vec<String>),
    Prune,
    Not(Box<Test>),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    True,
}

struct Found {
    path: String,
    metadata: Metadata,
}

pub async fn find(proc: &mut Proc, argv: &[String]) -> Outcome {
    let is_start = |word: &&String| !word.starts_with('-') && !matches!(word.as_str(), "(" | ")" | "!");
    let starts: Vec<String> = argv[1..].iter().take_while(is_start).cloned().collect();
    let mut reader = Reader { words: &argv[1 + starts.len()..], at: 0, acts: false, max: u32::MAX, min: 0, proc };
    let test = match reader.or(0) {
        Ok(test) if reader.at == reader.words.len() => test,
        Ok(_) => return proc.fail("find: unexpected ')'", 1).await,
        Err(message) => return proc.fail(&format!("find: {message}"), 1).await,
    };
    let (acts, max, min) = (reader.acts, reader.max, reader.min);
    let deletes = argv.iter().any(|word| word == "-delete" || word == "-depth");
    let test = match acts {
        true => test,
        false => Test::And(Box::new(test), Box::new(Test::Print { ends_with_zero: false })),
    };
    let starts = if starts.is_empty() { vec![".".to_owned()] } else { starts };
    let (mut code, mut looked_at) = (0, 0);
    for start in starts {
        let mut stack = vec![(start, 0, false)];
        while let Some((path, depth, is_after)) = stack.pop() {
            looked_at += 1;
            let metadata = match proc.tree().metadata(&proc.actor(), &path, false) {
                Ok(metadata) => metadata,
                Err(error) => {
                    code = proc.fail(&format!("find: {path}: {error}"), 1).await?;
                    continue;
                }
            };
            let is_folder = metadata.file_type == FileType::Folder;
            let found = Found { path: path.clone(), metadata };
            let goes_on = is_folder && depth < max && looked_at < MAX_FILES;
            let mut is_pruned = false;
            if deletes && goes_on && !is_after {
                stack.push((path.clone(), depth, true));
            } else if depth >= min {
                apply(proc, &test, &found, &mut is_pruned).await?;
            }
            if goes_on && !is_after && !is_pruned {
                match proc.tree().read_folder(&proc.actor(), &path) {
                    Ok(names) => {
                        let below = names.iter().rev().map(|name| (join(&path, name), depth + 1, false));
                        stack.extend(below);
                    }
                    Err(error) => code = proc.fail(&format!("find: {path}: {error}"), 1).await?,
                }
            }
        }
    }
    Ok(code)
}

fn apply<'a>(
    proc: &'a mut Proc,
    test: &'a Test,
    found: &'a Found,
    is_pruned: &'a mut bool,
) -> std::pin::Pin<Box<dyn Future<Output = Result<bool, Stop>> + Send + 'a>> {
    Box::pin(async move {
        let Found { path, metadata } = found;
        let compare = |compared: char, value: i64, wanted: i64| match compared {
            '+' => value > wanted,
            '-' => value < wanted,
            _ => value == wanted,
        };
        Ok(match test {
            Test::True => true,
            Test::Name(glob, ignores_case) => {
                let name = super::files::base(path);
                if *ignores_case { glob.matches(&name.to_lowercase()) } else { glob.matches(name) }
            }
            Test::Path(glob) => glob.matches(path),
            Test::Type(letter) => match metadata.file_type {
                FileType::File => *letter == 'f',
                other => other.letter() == *letter,
            },
            Test::Size { compared, bytes, unit } => {
                let size = i64::try_from(metadata.size.div_ceil(*unit)).unwrap_or(i64::MAX);
                compare(*compared, size, i64::try_from(bytes / unit).unwrap_or(i64::MAX))
            }
            Test::Mode { mode, is_exact: true } => metadata.mode == *mode,
            Test::Mode { mode, is_exact: false } => metadata.mode & mode == *mode,
            Test::User(uid) => metadata.owner.uid == *uid,
            Test::Group(gid) => metadata.owner.gid == *gid,
            Test::Newer(than) => metadata.modified_at > *than,
            Test::Age { compared, number, unit_s } => {
                let age_s = proc.now().duration_since(metadata.modified_at).as_secs();
                compare(*compared, age_s / unit_s, *number)
            }
            Test::Empty => match metadata.file_type {
                FileType::Folder => proc.tree().read_folder(&proc.actor(), path).is_ok_and(|names| names.is_empty()),
                _ => metadata.size == 0,
            },
            Test::Print { ends_with_zero } => {
                proc.print(&format!("{path}{}", if *ends_with_zero { '\0' } else { '\n' })).await?;
                true
            }
            Test::Delete => {
                let (tree, actor) = (proc.tree(), proc.actor());
                let deleted = match metadata.file_type {
                    FileType::Folder => tree.remove_folder(&actor, path),
                    _ => tree.remove_file(&actor, path),
                };
                if let Err(error) = deleted {
                    proc.error(&format!("find: {path}: {error}\n")).await?;
                }
                deleted.is_ok()
            }
            Test::Execute(words) => {
                let words: Vec<String> = words.iter().map(|word| word.replace("{}", path)).collect();
                proc.launch(&words).await? == 0
            }
            Test::Prune => {
                *is_pruned = true;
                true
            }
            Test::Not(inner) => !apply(proc, inner, found, is_pruned).await?,
            Test::And(a, b) => apply(proc, a, found, is_pruned).await? && apply(proc, b, found, is_pruned).await?,
            Test::Or(a, b) => apply(proc, a, found, is_pruned).await? || apply(proc, b, found, is_pruned).await?,
        })
    })
}

struct Reader<'a> {
    words: &'a [String],
    at: usize,
    /// True once a test prints or changes something.
    acts: bool,
    max: u32,
    min: u32,
    proc: &'a Proc,
}

const MAX_NESTING: u32 = 50;

impl Reader<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn value(&mut self, option: &str) -> Result<String, String> {
        let value = self.words.get(self.at).cloned().ok_or(format!("{option} requires an argument"))?;
        self.at += 1;
        Ok(value)
    }

    fn or(&mut self, depth: u32) -> Result<Test, String> {
        let mut left = self.and(depth)?;
        while matches!(self.peek(), Some("-o" | "-or")) {
            self.at += 1;
            left = Test::Or(Box::new(left), Box::new(self.and(depth)?));
        }
        Ok(left)
    }

    fn and(&mut self, depth: u32) -> Result<Test, String> {
        let mut left = Test::True;
        while let Some(word) = self.peek() {
            match word {
                "-o" | "-or" | ")" => break,
                "-a" | "-and" => self.at += 1,
                _ => left = Test::And(Box::new(left), Box::new(self.one(depth)?)),
            }
        }
        Ok(left)
    }

    fn one(&mut self, depth: u32) -> Result<Test, String> {
        if depth > MAX_NESTING {
            return Err("expression is nested too deeply".to_owned());
        }
        let word = self.value("find")?;
        let number = |text: &str| {
            let compared = text.chars().next().filter(|c| matches!(c, '+' | '-')).unwrap_or('=');
            (compared, text.trim_start_matches(['+', '-']).to_owned())
        };
        Ok(match word.as_str() {
            "(" => {
                let inner = self.or(depth + 1)?;
                if self.value("(")? != ")" {
                    return Err("missing ')'".to_owned());
                }
                inner
            }
            "!" | "-not" => Test::Not(Box::new(self.one(depth + 1)?)),
            "-true" | "-xdev" | "-depth" | "-follow" => Test::True,
            "-name" => Test::Name(Glob::parse(&self.value(&word)?), false),
            "-iname" => Test::Name(Glob::parse(&self.value(&word)?.to_lowercase()), true),
            "-path" | "-wholename" => Test::Path(Glob::parse(&self.value(&word)?)),
            "-type" => Test::Type(self.value(&word)?.chars().next().unwrap_or('f')),
            "-empty" => Test::Empty,
            "-prune" => Test::Prune,
            "-maxdepth" | "-mindepth" => {
                let text = self.value(&word)?;
                let depth = text.parse().map_err(|_| format!("invalid number '{text}'"))?;
                if word == "-maxdepth" {
                    self.max = depth
                } else {
                    self.min = depth
                }
                Test::True
            }
            "-size" => {
                let text = self.value(&word)?;
                let (compared, digits) = number(&text);
                let unit = if digits.ends_with(|c: char| c.is_ascii_digit()) { "b" } else { "" };
                let bytes =
                    super::options::size(&format!("{digits}{unit}")).ok_or(format!("invalid number '{text}'"))?;
                let unit = match digits.chars().last() {
                    Some('c') => 1,
                    Some('k') => 1 << 10,
                    Some('M') => 1 << 20,
                    Some('G') => 1 << 30,
                    _ => 512,
                };
                Test::Size { compared, bytes, unit }
            }
            "-perm" => {
                let text = self.value(&word)?;
                let (compared, digits) = number(&text);
                let mode = u32::from_str_radix(&digits, 8).map_err(|_| format!("invalid mode '{text}'"))?;
                Test::Mode { mode, is_exact: compared == '=' }
            }
            "-user" | "-uid" | "-group" | "-gid" => {
                let text = self.value(&word)?;
                let id = if text == "root" { 0 } else { text.parse().map_err(|_| format!("unknown user {text}"))? };
                if word.starts_with("-u") { Test::User(id) } else { Test::Group(id) }
            }
            "-newer" => {
                let path = self.value(&word)?;
                let found = self.proc.tree().metadata(&self.proc.actor(), &path, true);
                Test::Newer(found.map_err(|error| format!("{path}: {error}"))?.modified_at)
            }
            "-mmin" | "-mtime" => {
                let text = self.value(&word)?;
                let (compared, digits) = number(&text);
                let number = digits.parse().map_err(|_| format!("invalid number '{text}'"))?;
                Test::Age { compared, number, unit_s: if word == "-mmin" { 60 } else { 86_400 } }
            }
            "-print" | "-print0" => {
                self.acts = true;
                Test::Print { ends_with_zero: word == "-print0" }
            }
            "-delete" => {
                self.acts = true;
                Test::Delete
            }
            "-exec" => {
                self.acts = true;
                let mut words = Vec::new();
                loop {
                    match self.value(&word)?.as_str() {
                        ";" | "+" => break,
                        word => words.push(word.to_owned()),
                    }
                }
                Test::Execute(words)
            }
            other => return Err(format!("unrecognized: {other}")),
        })
    }
}
