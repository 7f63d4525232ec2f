//! `Library` and `Extensions`: functions and types that users of this crate add to the language.
//!
//! Corresponds to cel.Lib and to types.Provider.

use super::functions::{self, Overload};
use super::library::Run;
use super::meter::Meter;
use super::types::Type;
use super::value::{Outcome, Value, no_overload};
use std::collections::BTreeMap;

/// Additional functions, declared like those of the language.
#[derive(Debug)]
pub struct Library {
    functions: BTreeMap<&'static str, Vec<Overload>>,
}

impl Library {
    /// Makes a library; `words` are the type names in its declarations, each with its full name.
    pub fn new(run: Run, declared: &'static str, words: &[(&str, &'static str)]) -> Self {
        Self { functions: functions::read_all(&[(run, declared)], words) }
    }

    /// Makes a library of foreign values' methods.
    pub fn of_methods(declared: &'static str, words: &[(&str, &'static str)]) -> Self {
        Self::new(method, declared, words)
    }
}

fn method(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    match arguments {
        [Value::Foreign(target), rest @ ..] => target.call(name, rest, meter),
        _ => no_overload(name, arguments),
    }
}

/// The extensions of an environment.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    pub libraries: Vec<&'static Library>,
    /// Returns the type of the name before the braces of a message.
    pub messages: Option<fn(&str) -> Option<Type>>,
}

impl Extensions {
    pub fn overloads(&self, name: &str) -> &'static [Overload] {
        let known = functions::overloads(name);
        let of_library = |library: &&'static Library| library.functions.get(name).map(Vec::as_slice);
        if known.is_empty() { self.libraries.iter().find_map(of_library).unwrap_or_default() } else { known }
    }

    pub fn message(&self, name: &str) -> Option<Type> {
        self.messages?(name)
    }
}
