//! The messages of scripts that fail: `PATH:LINE: MESSAGE`, and at load also the column.

use mlua::ChunkMode;
use mlua::prelude::*;

/// Name of a script inside its state. Messages have its path instead.
pub const CHUNK: &str = "script";
/// The message of a call that has reached its limit of memory.
const OUT_OF_MEMORY: &str = "took more memory than it may";
/// What is left of an error when there is no memory for its text.
const WITHOUT_TEXT: &str = "<nil>";
/// Most levels of the stack above the script: a function of a library, and that which counts its steps.
const MAX_NATIVE_LEVELS: usize = 4;
/// Longest line in which the column of an error is searched.
const MAX_LINE_BYTES: usize = 1000;

/// Compiles a script. An error has the path, the line and the column.
pub fn compile(lua: &Lua, shown: &str, source: &str) -> Result<LuaFunction, String> {
    parse(lua, source).map_err(|error| {
        let message = first_line(&error);
        match split(&message) {
            Some((line, what)) => {
                let column = column(lua, source, line, what).map(|column| format!("{column}:")).unwrap_or_default();
                format!("{shown}:{line}:{column} {what}")
            }
            None => format!("{shown}: {message}"),
        }
    })
}

fn parse(lua: &Lua, source: &str) -> LuaResult<LuaFunction> {
    lua.load(source).set_name(format!("={CHUNK}")).set_mode(ChunkMode::Text).into_function()
}

/// Returns an error that names the line at which the script is now.
pub fn at_line_of(lua: &Lua, error: &LuaError) -> LuaError {
    let line =
        (0..MAX_NATIVE_LEVELS).find_map(|level| lua.inspect_stack(level, |debug| debug.current_line()).flatten());
    match line {
        Some(line) => LuaError::runtime(format!("{CHUNK}:{line}: {}", first_line(error))),
        None => error.clone(),
    }
}

/// Returns the message of a failed call, with the line of the script.
pub fn message(shown: &str, error: &LuaError) -> String {
    let text = error.to_string();
    let message = first_line(error);
    // What a library or the budget has raised names its line only in the traceback.
    let line = split(&message).or_else(|| text.lines().find_map(split)).map(|(line, _)| line);
    let what = split(&message).map_or(message.as_str(), |(_, what)| what);
    match line {
        Some(line) => format!("{shown}:{line}: {what}"),
        None => format!("{shown}: {what}"),
    }
}

fn first_line(error: &LuaError) -> String {
    let text = match error {
        LuaError::RuntimeError(message) if message == WITHOUT_TEXT => OUT_OF_MEMORY.to_owned(),
        LuaError::RuntimeError(message) if let Some(kind) = raised_kind(message) => {
            format!("raised a {kind}, and not a text")
        }
        LuaError::SyntaxError { message, .. } | LuaError::RuntimeError(message) => message.clone(),
        LuaError::MemoryError(_) => OUT_OF_MEMORY.to_owned(),
        LuaError::CallbackError { cause, .. } | LuaError::WithContext { cause, .. } => first_line(cause),
        other => other.to_string(),
    };
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("runtime error: ").unwrap_or(line).to_owned()
}

/// Returns the type of a raised value that is no text. Its text would be its address, which no two runs share.
fn raised_kind(message: &str) -> Option<&str> {
    let (kind, _) = message.split_once(": 0x")?;
    ["table", "function", "thread", "buffer", "userdata", "vector"].contains(&kind).then_some(kind)
}

/// Splits `script:3: what` into the line and the rest.
fn split(text: &str) -> Option<(usize, &str)> {
    let from = text.find(&format!("{CHUNK}:"))?;
    let rest = &text[from + CHUNK.len() + 1..];
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((rest[..digits].parse().ok()?, rest[digits..].trim_start_matches(':').trim_start()))
}

/// Finds the column of a syntax error, which the compiler does not tell: the shortest beginning of the line with the same error
/// ends with the token that is wrong.
fn column(lua: &Lua, source: &str, line: usize, what: &str) -> Option<usize> {
    let start = source.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum::<usize>();
    let text = source[start..].lines().next().unwrap_or_default();
    if text.len() > MAX_LINE_BYTES {
        return None;
    }
    if what.ends_with("got <eof>") {
        return Some(text.chars().count() + 1);
    }
    let is_same = |end: &usize| {
        parse(lua, &source[..start + end]).err().is_some_and(|error| split(&first_line(&error)) == Some((line, what)))
    };
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.into_iter().find(is_same).unwrap_or(text.len());
    let token = what.rsplit_once("got '").and_then(|(_, token)| token.strip_suffix('\'')).unwrap_or_default();
    let token = if text[..end].ends_with(token) { token.len().max(1) } else { 1 };
    Some(text[..end.saturating_sub(token)].chars().count() + 1)
}
