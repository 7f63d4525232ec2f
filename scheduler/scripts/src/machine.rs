//! `Machine`, a loaded script with the tables of pods and nodes. It runs one function at a time.
//!
//! Memory: no garbage is collected while a function runs, so that the limit counts all that a call allocates, and so the same
//! call fails or not in each run. Between calls the machine collects once there is enough garbage.

use crate::failure::{self, message};
use crate::sandbox::{self, Budget};
use crate::values::Values;
use mlua::prelude::*;
use scheduling_framework::MAX_NODE_SCORE;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::configuration::args::script::ScriptLimits;
use scheduling_framework::pod_info::PodInfo;
use std::sync::Arc;

/// Longest script.
const MAX_SOURCE_BYTES: usize = 256 << 10;
/// Longest reason of a rejection, in characters. The message of a pod has those of all nodes.
const MAX_REASON: usize = 128;
/// Largest score before `normalize`. All whole numbers up to it are exact.
const LARGEST_SCORE: f64 = 9_007_199_254_740_992.0;
/// Least garbage that is collected. More than the live tables have to be garbage too, so that collecting costs little.
const MIN_GARBAGE_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub struct Machine {
    /// Path of the script, as messages show it.
    pub shown: String,
    source: String,
    limits: ScriptLimits,
    lua: Lua,
    budget: Arc<Budget>,
    functions: Functions,
    values: Values,
    /// Memory of the state after the script was loaded.
    base_bytes: usize,
}

/// The functions that the script defines.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    pub filter: Option<LuaFunction>,
    pub score: Option<LuaFunction>,
    pub normalize: Option<LuaFunction>,
    pub less: Option<LuaFunction>,
}

impl Machine {
    /// Loads a script: compiles it, and runs what stands outside of its functions.
    pub fn load(shown: &str, source: &str, limits: &ScriptLimits) -> Result<Self, String> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(format!("{shown}: a script has at most {MAX_SOURCE_BYTES} bytes"));
        }
        let budget = Budget::new(limits.steps.unsigned_abs());
        let lua = sandbox::state(&budget).map_err(|error| format!("{shown}: {error}"))?;
        let chunk = failure::compile(&lua, shown, source)?;
        let mut machine = Self {
            shown: shown.to_owned(),
            source: source.to_owned(),
            limits: limits.clone(),
            lua,
            budget,
            functions: Functions::default(),
            values: Values::new(source.contains("pods")),
            base_bytes: 0,
        };
        machine.call(&chunk, ())?;
        let globals = machine.lua.globals();
        globals.set_readonly(true);
        let function = |name: &str| match globals.raw_get::<LuaValue>(name).unwrap_or(LuaNil) {
            LuaNil => Ok(None),
            LuaValue::Function(function) => Ok(Some(function)),
            other => Err(format!("{shown}: {name} is a {}, and not a function", kind(&other))),
        };
        machine.functions = Functions {
            filter: function("filter")?,
            score: function("score")?,
            normalize: function("normalize")?,
            less: function("less")?,
        };
        match machine.functions {
            Functions { filter: None, score: None, less: None, .. } => {
                return Err(format!("{shown}: defines none of the functions filter, score and less"));
            }
            Functions { score: None, normalize: Some(_), .. } => {
                return Err(format!("{shown}: defines normalize, but no score"));
            }
            _ => {}
        }
        machine.collect()?;
        machine.base_bytes = machine.lua.used_memory();
        Ok(machine)
    }

    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Drops the tables of nodes that have gone.
    pub fn retain(&mut self, snapshot: &Snapshot) {
        self.values.retain(snapshot);
    }

    /// Returns the reason for which the script rejects the node, if it does.
    pub fn filter(&mut self, pod: &PodInfo, node: &NodeInfo) -> Result<Option<String>, String> {
        self.collect_if_due()?;
        let Some(function) = self.functions.filter.clone() else { return Ok(None) };
        let arguments = (self.pod(pod)?, self.node(node)?);
        match self.call(&function, arguments)? {
            LuaNil | LuaValue::Boolean(true) => Ok(None),
            LuaValue::Boolean(false) => Ok(Some(format!("node(s) were rejected by {}", self.shown))),
            LuaValue::String(reason) => {
                let reason = reason.to_string_lossy();
                Ok(Some(reason.chars().filter(|c| !c.is_control()).take(MAX_REASON).collect()))
            }
            other => {
                let (shown, kind) = (&self.shown, kind(&other));
                Err(format!("{shown}: filter returned a {kind}, and not a boolean or a reason"))
            }
        }
    }

    /// Returns the score of a node. With `normalize` it may be any number, of which the whole part is kept.
    pub fn score(&mut self, pod: &PodInfo, node: &NodeInfo) -> Result<i64, String> {
        self.collect_if_due()?;
        let Some(function) = self.functions.score.clone() else { return Ok(0) };
        let arguments = (self.pod(pod)?, self.node(node)?);
        let score = self.call(&function, arguments)?;
        let score = number(&score).ok_or_else(|| self.not_a_number("score", &score))?;
        let most = if self.functions.normalize.is_some() { LARGEST_SCORE } else { MAX_NODE_SCORE as f64 };
        let least = if self.functions.normalize.is_some() { -LARGEST_SCORE } else { 0.0 };
        match (least..=most).contains(&score) {
            true => Ok(score.round() as i64),
            false => Err(format!("{}: score returned {score}, and not {least} to {most}", self.shown)),
        }
    }

    /// Replaces the scores of all nodes by those that the script makes of them. Without the function they stay.
    pub fn normalize(&mut self, pod: &PodInfo, scores: &mut [i64]) -> Result<(), String> {
        self.collect_if_due()?;
        let Some(function) = self.functions.normalize.clone() else { return Ok(()) };
        let raw = self.lua.create_sequence_from(scores.iter().map(|score| *score as f64));
        let raw = raw.map_err(|error| message(&self.shown, &error))?;
        let arguments = (self.pod(pod)?, raw);
        let normalized = self.call(&function, arguments)?;
        let LuaValue::Table(normalized) = normalized else {
            return Err(format!("{}: normalize returned a {}, and not a table", self.shown, kind(&normalized)));
        };
        if normalized.raw_len() != scores.len() {
            let (shown, found, nodes) = (&self.shown, normalized.raw_len(), scores.len());
            return Err(format!("{shown}: normalize returned {found} scores for {nodes} nodes"));
        }
        for (at, score) in scores.iter_mut().enumerate() {
            let value = normalized.raw_get::<LuaValue>(at + 1).map_err(|error| message(&self.shown, &error))?;
            *score = match number(&value) {
                Some(value) if (0.0..=MAX_NODE_SCORE as f64).contains(&value) => value.round() as i64,
                Some(value) => {
                    return Err(format!("{}: normalize returned {value}, and not 0 to {MAX_NODE_SCORE}", self.shown));
                }
                None => return Err(self.not_a_number("normalize", &value)),
            };
        }
        Ok(())
    }

    /// Returns true if the script puts pod `a` before pod `b` in the queue. Without the function, no pod is before another.
    pub fn less(&mut self, a: &PodInfo, b: &PodInfo) -> Result<bool, String> {
        self.collect_if_due()?;
        let Some(function) = self.functions.less.clone() else { return Ok(false) };
        let arguments = (self.pod(a)?, self.pod(b)?);
        match self.call(&function, arguments)? {
            LuaValue::Boolean(is_before) => Ok(is_before),
            other => Err(format!("{}: less returned a {}, and not a boolean", self.shown, kind(&other))),
        }
    }

    fn not_a_number(&self, function: &str, value: &LuaValue) -> String {
        let kind = if number(value).is_some() { "NaN".to_owned() } else { format!("a {}", kind(value)) };
        format!("{}: {function} returned {kind}, and not a number", self.shown)
    }

    fn pod(&mut self, info: &PodInfo) -> Result<LuaTable, String> {
        self.values.pod(&self.lua, info).map_err(|error| message(&self.shown, &error))
    }

    fn node(&mut self, info: &NodeInfo) -> Result<LuaTable, String> {
        self.values.node(&self.lua, info).map_err(|error| message(&self.shown, &error))
    }

    /// Calls a function within the limits.
    fn call(&self, function: &LuaFunction, arguments: impl IntoLuaMulti) -> Result<LuaValue, String> {
        self.budget.restart();
        let most = usize::try_from(self.limits.memory_bytes).unwrap_or(usize::MAX);
        let limited = self.lua.set_memory_limit(self.lua.used_memory().saturating_add(most));
        let result = limited.and_then(|_| function.call(arguments));
        let unlimited = self.lua.set_memory_limit(0);
        result.and_then(|value| unlimited.map(|_| value)).map_err(|error| message(&self.shown, &error))
    }

    /// Collects garbage if there is enough. A script that keeps more than a call may take is loaded again, and so forgets it.
    fn collect_if_due(&mut self) -> Result<(), String> {
        let live = self.values.live_bytes;
        let most = usize::try_from(self.limits.memory_bytes).unwrap_or(usize::MAX);
        let garbage = self.lua.used_memory().saturating_sub(self.base_bytes + live);
        if garbage <= MIN_GARBAGE_BYTES.max(live).max(most) {
            return Ok(());
        }
        self.collect()?;
        let kept = self.lua.used_memory().saturating_sub(self.base_bytes);
        if kept > most {
            tracing::warn!(script = self.shown, "the script keeps {kept} bytes between calls, and is loaded again");
            *self = Self::load(&self.shown, &self.source, &self.limits)?;
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<(), String> {
        self.values.clear();
        let collected = self.lua.gc_collect();
        self.lua.gc_stop(); // collecting by hand also starts it
        collected.map_err(|error| message(&self.shown, &error))
    }
}

fn number(value: &LuaValue) -> Option<f64> {
    match value {
        LuaValue::Number(number) => Some(*number),
        LuaValue::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// Returns the type of a value as a script names it.
fn kind(value: &LuaValue) -> &'static str {
    if number(value).is_some() { "number" } else { value.type_name() }
}
