//! The sandbox: a Lua state with few functions, none of which reads a clock, randomness, a file or an address, and with a
//! budget of steps.
//!
//! Deviation: policies may be scripts, in the plugin `Script`. Kubernetes has plugins in Go and extenders only.

use crate::failure;
use mlua::prelude::*;
use mlua::{MultiValue, StdLib, VmState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a script may use of the base library. `pcall` is missing, so that nothing survives the end of the budget, and so are
/// metatables, because values have none.
const GLOBALS: [&str; 18] = [
    "_VERSION", "assert", "bit32", "error", "ipairs", "math", "next", "pairs", "rawequal", "rawlen", "select",
    "string", "table", "tonumber", "tostring", "type", "typeof", "utf8",
];

/// Functions that are left out of the libraries, because a decision must repeat.
const NOT_REPEATABLE: [(&str, &str); 2] = [("math", "random"), ("math", "randomseed")];

/// Functions whose time grows with their arguments. The others take the same time always, or allocate as much as they work.
const LONG: &[(&str, &[&str])] = &[
    (
        "string",
        &["find", "format", "gmatch", "gsub", "lower", "match", "pack", "rep", "reverse", "split", "unpack", "upper"],
    ),
    (
        "table",
        &["clear", "clone", "concat", "create", "find", "freeze", "insert", "maxn", "move", "remove", "sort", "unpack"],
    ),
    ("utf8", &["char", "codepoint", "codes", "len", "offset"]),
];

/// Elements of a table, or bytes of a text, that a long function takes for one step.
const SIZE_OF_STEP: usize = 32;

/// The steps of a call: those that it has taken, and the most that it may take.
#[derive(Debug)]
pub struct Budget {
    taken: AtomicU64,
    pub steps: u64,
}

impl Budget {
    pub fn new(steps: u64) -> Arc<Self> {
        Arc::new(Self { taken: AtomicU64::new(0), steps })
    }

    pub fn restart(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }

    fn take(&self, steps: u64) -> LuaResult<()> {
        let taken = self.taken.load(Ordering::Relaxed).saturating_add(steps);
        self.taken.store(taken, Ordering::Relaxed);
        match taken > self.steps {
            true => Err(LuaError::runtime(format!("took more than {} steps", self.steps))),
            false => Ok(()),
        }
    }
}

/// Returns a state in which a script can be loaded. It collects no garbage until it is asked to.
pub fn state(budget: &Arc<Budget>) -> LuaResult<Lua> {
    let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::BIT | StdLib::UTF8;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.gc_stop();
    let globals = lua.globals();
    let names: Vec<String> =
        globals.pairs::<String, LuaValue>().map(|pair| pair.map(|(name, _)| name)).collect::<LuaResult<_>>()?;
    for name in names.iter().filter(|name| !GLOBALS.contains(&name.as_str())) {
        globals.raw_set(name.as_str(), LuaNil)?;
    }
    for (library, name) in NOT_REPEATABLE {
        globals.get::<LuaTable>(library)?.raw_set(name, LuaNil)?;
    }
    for (library, names) in LONG {
        let library: LuaTable = globals.get(*library)?;
        for name in *names {
            if let Some(function) = library.get::<Option<LuaFunction>>(*name)? {
                library.raw_set(*name, charged(&lua, function, budget.clone(), *name == "format")?)?;
            }
        }
    }
    let plain: LuaFunction = globals.get("tostring")?;
    globals.raw_set(
        "tostring",
        lua.create_function(move |_, value: LuaValue| {
            check_has_text(&value)?;
            plain.call::<LuaValue>(value)
        })?,
    )?;
    let counted = budget.clone();
    lua.set_interrupt(move |lua| match counted.take(1) {
        Ok(()) => Ok(VmState::Continue),
        Err(error) => Err(failure::at_line_of(lua, &error)),
    });
    lua.sandbox(true)?;
    Ok(lua)
}

/// Returns a function that takes steps for the size of its arguments before it runs.
fn charged(lua: &Lua, function: LuaFunction, budget: Arc<Budget>, needs_text: bool) -> LuaResult<LuaFunction> {
    lua.create_function(move |_, arguments: MultiValue| {
        let mut size = 0;
        for argument in &arguments {
            size += match argument {
                LuaValue::String(text) => text.as_bytes().len(),
                LuaValue::Table(table) => table.raw_len(),
                _ => 0,
            };
            if needs_text {
                check_has_text(argument)?;
            }
        }
        budget.take((size / SIZE_OF_STEP) as u64)?;
        function.call::<MultiValue>(arguments)
    })
}

/// Refuses a value whose text is its address, which no two runs share.
fn check_has_text(value: &LuaValue) -> LuaResult<()> {
    match value {
        LuaNil | LuaValue::Boolean(_) | LuaValue::Integer(_) | LuaValue::Number(_) | LuaValue::String(_) => Ok(()),
        other => Err(LuaError::runtime(format!("a {} has no text", other.type_name()))),
    }
}
