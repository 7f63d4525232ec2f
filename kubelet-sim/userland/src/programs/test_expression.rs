//! `test` and `[`.

use crate::process::descriptor::Descriptor;
use crate::process::proc::{Outcome, Proc};
use file_tree::node::FileType;
use file_tree::place::Access;

pub async fn test(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut words = &argv[1..];
    let name = argv[0].rsplit('/').next().unwrap_or_default();
    if name == "[" {
        match words.split_last() {
            Some((last, rest)) if last == "]" => words = rest,
            _ => return proc.fail("[: missing ]", 2).await,
        }
    }
    let mut reader = Reader { words, at: 0, proc, depth: 0 };
    let found = if words.is_empty() { Ok(false) } else { reader.or() };
    let is_over = reader.at == words.len();
    match found {
        Ok(_) if !is_over => {
            let message = format!("{name}: {}: unexpected operator", words[reader.at]);
            proc.fail(&message, 2).await
        }
        Ok(found) => Ok(i32::from(!found)),
        Err(message) => proc.fail(&format!("{name}: {message}"), 2).await,
    }
}

struct Reader<'a> {
    words: &'a [String],
    at: usize,
    proc: &'a Proc,
    depth: u32,
}

const BINARY: [&str; 15] =
    ["=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "<", ">", "=~"];

impl Reader<'_> {
    fn peek(&self, by: usize) -> Option<&str> {
        self.words.get(self.at + by).map(String::as_str)
    }

    fn or(&mut self) -> Result<bool, String> {
        let mut found = self.and()?;
        while self.peek(0) == Some("-o") {
            self.at += 1;
            found |= self.and()?;
        }
        Ok(found)
    }

    fn and(&mut self) -> Result<bool, String> {
        let mut found = self.not()?;
        while self.peek(0) == Some("-a") {
            self.at += 1;
            found &= self.not()?;
        }
        Ok(found)
    }

    fn not(&mut self) -> Result<bool, String> {
        let is_binary = self.peek(1).is_some_and(|word| BINARY.contains(&word)) && self.peek(2).is_some();
        if self.peek(0) == Some("!") && !is_binary && self.peek(1).is_some() {
            self.at += 1;
            self.depth += 1;
            if self.depth > 100 {
                return Err("too complex".to_owned());
            }
            return self.not().map(|found| !found);
        }
        self.one()
    }

    fn one(&mut self) -> Result<bool, String> {
        let first = self.peek(0).ok_or("argument expected")?.to_owned();
        if let (Some(operator), Some(right)) = (self.peek(1), self.peek(2))
            && BINARY.contains(&operator)
        {
            let found = self.compare(&first, operator, right)?;
            self.at += 3;
            return Ok(found);
        }
        if first == "(" && self.peek(1).is_some() {
            self.at += 1;
            self.depth += 1;
            if self.depth > 100 {
                return Err("too complex".to_owned());
            }
            let found = self.or()?;
            if self.peek(0) != Some(")") {
                return Err("closing paren expected".to_owned());
            }
            self.at += 1;
            return Ok(found);
        }
        if first.len() == 2
            && first.starts_with('-')
            && let Some(operand) = self.peek(1)
            && let Some(found) = self.check(first.as_bytes()[1] as char, operand)
        {
            self.at += 2;
            return Ok(found);
        }
        self.at += 1;
        Ok(!first.is_empty())
    }

    fn compare(&self, left: &str, operator: &str, right: &str) -> Result<bool, String> {
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("{text}: bad number"));
        let time =
            |path: &str| self.proc.tree().metadata(&self.proc.actor(), path, true).map(|found| found.modified_at);
        Ok(match operator {
            "=" | "==" => left == right,
            "!=" => left != right,
            "<" => left < right,
            ">" => left > right,
            "-eq" => number(left)? == number(right)?,
            "-ne" => number(left)? != number(right)?,
            "-lt" => number(left)? < number(right)?,
            "-le" => number(left)? <= number(right)?,
            "-gt" => number(left)? > number(right)?,
            "-ge" => number(left)? >= number(right)?,
            "-nt" => matches!((time(left), time(right)), (Ok(left), Ok(right)) if left > right),
            "-ot" => matches!((time(left), time(right)), (Ok(left), Ok(right)) if left < right),
            "-ef" => {
                let id = |path| self.proc.tree().metadata(&self.proc.actor(), path, true).map(|found| found.id);
                matches!((id(left), id(right)), (Ok(left), Ok(right)) if left == right)
            }
            other => return Err(format!("{other}: unknown operand")),
        })
    }

    /// Answers a question about one operand; `None` for an unknown letter.
    fn check(&self, letter: char, operand: &str) -> Option<bool> {
        let (tree, actor) = (self.proc.tree(), self.proc.actor());
        let found = || tree.metadata(&actor, operand, true).ok();
        let is_type = |wanted| found().is_some_and(|found| found.file_type == wanted);
        Some(match letter {
            'n' => !operand.is_empty(),
            'z' => operand.is_empty(),
            'e' | 'a' => found().is_some() || self.proc.open(operand, file_tree::actor::OpenOptions::READ).is_ok(),
            'f' => is_type(FileType::File),
            'd' => is_type(FileType::Folder),
            'c' => is_type(FileType::Device),
            'b' | 'p' | 'S' => false,
            'L' | 'h' => tree.metadata(&actor, operand, false).is_ok_and(|found| found.file_type == FileType::Symlink),
            's' => found().is_some_and(|found| found.size > 0),
            'r' => tree.allows(&actor, operand, Access::Read),
            'w' => tree.allows(&actor, operand, Access::Write),
            'x' => tree.allows(&actor, operand, Access::Execute),
            'u' => found().is_some_and(|found| found.mode & 0o4000 != 0),
            'g' => found().is_some_and(|found| found.mode & 0o2000 != 0),
            'k' => found().is_some_and(|found| found.mode & 0o1000 != 0),
            'O' => found().is_some_and(|found| found.owner.uid == actor.uid),
            'G' => found().is_some_and(|found| found.owner.gid == actor.gid),
            't' => {
                let number = operand.parse().ok()?;
                self.proc.descriptors.get(&number).is_some_and(Descriptor::is_terminal)
            }
            _ => return None,
        })
    }
}
