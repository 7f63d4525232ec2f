//! Functions with regular expressions. Go's syntax and that of the `regex` crate are nearly equal, and neither backtracks.

use crate::failure::{Failure, error};
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};
use regex::{Regex, RegexBuilder};

pub const DECLARED: &str = "
    matches(string, string) bool
    string.matches(string) bool
    string.find(string) string
    string.findAll(string) list(string)
    string.findAll(string, int) list(string)
";

/// Most bytes of a compiled pattern; refuses `((a{100}){100}){100}`.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// Work of compiling one character of a pattern.
const COMPILATION: usize = 20;

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    let [Value::String(text), Value::String(pattern), rest @ ..] = arguments else {
        return no_overload(name, arguments);
    };
    meter.work(text.len() / 10 + (1 + pattern.len()).saturating_mul(COMPILATION))?;
    let regex = compiled(pattern)?;
    match (name, rest) {
        ("matches", _) => Ok(Value::Bool(regex.is_match(text))),
        ("find", _) => Ok(Value::string(regex.find(text).map_or("", |found| found.as_str()))),
        (_, rest) => {
            let most = match rest {
                [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let mut items = Vec::new();
            for found in regex.find_iter(text).take(most) {
                meter.work(10)?;
                items.push(Value::string(found.as_str()));
            }
            Ok(Value::list(items))
        }
    }
}

pub fn compiled(pattern: &str) -> Result<Regex, Failure> {
    match RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build() {
        Ok(regex) => Ok(regex),
        Err(regex::Error::CompiledTooBig(_)) => error("error parsing regexp: expression too large"),
        Err(_) => error(format!("error parsing regexp: `{pattern}`")),
    }
}
