//! The functions of the language and of Kubernetes' libraries, one file each.
//!
//! Corresponds to the standard library and the extensions of cel-go, and to k8s.io/apiserver/pkg/cel/library.

mod addresses;
mod conversions;
mod formats;
mod lists;
mod operators;
mod optionals;
mod quantities;
mod regexes;
mod sequences;
mod sets;
mod string_format;
mod strings;
mod time_spans;
mod urls;
mod versions;

pub use regexes::compiled;
pub use time_spans::{parse_duration, parse_timestamp};

use super::meter::Meter;
use super::value::{Outcome, Value};

/// Runs a function, given its name and arguments; a library is one `match` over names.
pub type Run = fn(&str, &[Value], &mut Meter) -> Outcome;

/// All libraries with their declarations.
pub const ALL: &[(Run, &str)] = &[
    (operators::run, operators::DECLARED),
    (conversions::run, conversions::DECLARED),
    (strings::run, strings::DECLARED),
    (regexes::run, regexes::DECLARED),
    (string_format::run, string_format::DECLARED),
    (lists::run, lists::DECLARED),
    (sequences::run, sequences::DECLARED),
    (sets::run, sets::DECLARED),
    (optionals::run, optionals::DECLARED),
    (time_spans::run, time_spans::DECLARED),
    (quantities::run, quantities::DECLARED),
    (urls::run, urls::DECLARED),
    (addresses::run, addresses::DECLARED),
    (formats::run, formats::DECLARED),
    (versions::run, versions::DECLARED),
];
