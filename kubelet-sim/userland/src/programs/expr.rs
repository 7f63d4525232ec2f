//! `expr`: arithmetic, comparison and matching of words.

use crate::pattern::regular::compile;
use crate::process::proc::{Outcome, Proc};

pub async fn expr(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut reader = Reader { words: &argv[1..], at: 0 };
    match reader.level(0, 0) {
        Ok(value) if reader.at == reader.words.len() => {
            proc.print(&format!("{value}\n")).await?;
            Ok(i32::from(value.is_empty() || value == "0"))
        }
        Ok(_) => proc.fail("expr: syntax error", 2).await,
        Err(message) => proc.fail(&format!("expr: {message}"), 2).await,
    }
}

struct Reader<'a> {
    words: &'a [String],
    at: usize,
}

/// Operators by precedence, weakest first.
const LEVELS: [&[&str]; 6] =
    [&["|"], &["&"], &["=", "==", "!=", "<", "<=", ">", ">="], &["+", "-"], &["*", "/", "%"], &[":"]];

impl Reader<'_> {
    fn level(&mut self, level: usize, depth: u32) -> Result<String, String> {
        if depth > 100 {
            return Err("syntax error".to_owned());
        }
        let Some(operators) = LEVELS.get(level) else { return self.one(depth) };
        let mut left = self.level(level + 1, depth)?;
        while let Some(operator) = self.words.get(self.at).filter(|word| operators.contains(&word.as_str())).cloned() {
            self.at += 1;
            let right = self.level(level + 1, depth)?;
            left = apply(&left, &operator, &right)?;
        }
        Ok(left)
    }

    fn one(&mut self, depth: u32) -> Result<String, String> {
        let word = self.words.get(self.at).ok_or("syntax error")?;
        self.at += 1;
        match word.as_str() {
            "(" => {
                let value = self.level(0, depth + 1)?;
                if self.words.get(self.at).is_none_or(|word| word != ")") {
                    return Err("syntax error".to_owned());
                }
                self.at += 1;
                Ok(value)
            }
            "length" if self.at < self.words.len() => Ok(self.one(depth + 1)?.chars().count().to_string()),
            "substr" if self.at + 2 < self.words.len() => {
                let text = self.one(depth + 1)?;
                let (from, length) = (self.one(depth + 1)?, self.one(depth + 1)?);
                let number = |text: String| text.parse::<usize>().map_err(|_| "non-numeric argument".to_owned());
                let (from, length) = (number(from)?, number(length)?);
                Ok(text.chars().skip(from.saturating_sub(1)).take(length).collect())
            }
            word => Ok(word.to_owned()),
        }
    }
}

fn apply(left: &str, operator: &str, right: &str) -> Result<String, String> {
    let is_true = |text: &str| !text.is_empty() && text != "0";
    let numbers = || -> Result<(i64, i64), String> {
        let number = |text: &str| text.parse().map_err(|_| "non-numeric argument".to_owned());
        Ok((number(left)?, number(right)?))
    };
    let order = match numbers() {
        Ok((left, right)) => left.cmp(&right),
        Err(_) => left.cmp(right),
    };
    let calculated = |value: Option<i64>| value.map(|value| value.to_string()).ok_or("integer overflow".to_owned());
    Ok(match operator {
        "|" => if is_true(left) { left } else { right }.to_owned(),
        "&" => if is_true(left) && is_true(right) { left } else { "0" }.to_owned(),
        "=" | "==" => i32::from(order.is_eq()).to_string(),
        "!=" => i32::from(order.is_ne()).to_string(),
        "<" => i32::from(order.is_lt()).to_string(),
        "<=" => i32::from(order.is_le()).to_string(),
        ">" => i32::from(order.is_gt()).to_string(),
        ">=" => i32::from(order.is_ge()).to_string(),
        ":" => {
            let regex = compile(&format!("^{}", right.trim_start_matches('^')), false, false)?;
            match regex.captures(left.as_bytes()) {
                Some(found) if found.len() > 1 => {
                    found.get(1).map(|group| String::from_utf8_lossy(group.as_bytes()).into_owned()).unwrap_or_default()
                }
                Some(found) => String::from_utf8_lossy(&found[0]).chars().count().to_string(),
                None if right.contains("\\(") => String::new(),
                None => "0".to_owned(),
            }
        }
        operator => {
            let (a, b) = numbers()?;
            match operator {
                "+" => calculated(a.checked_add(b))?,
                "-" => calculated(a.checked_sub(b))?,
                "*" => calculated(a.checked_mul(b))?,
                _ if b == 0 => return Err("division by zero".to_owned()),
                "/" => calculated(a.checked_div(b))?,
                _ => calculated(a.checked_rem(b))?,
            }
        }
    })
}
