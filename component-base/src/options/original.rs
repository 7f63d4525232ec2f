//! The command line of an original, that is of the Kubernetes program that a component models.
//!
//! A component's clap struct holds the flags that have an effect. A table lists all flags of the original with type and
//! default: those of the struct, and those that are accepted without effect. So a command line for the original starts
//! the model too. A given flag without effect logs one warning; a flag that neither has is refused.
//!
//! ```text
//! pub struct Config {
//!     #[command(flatten)]
//!     pub original: OriginalFlags<KubeScheduler>,   // first: it looks at what was given before others take it
//!     #[command(flatten)]
//!     pub serving: ServingOptions,
//! }
//! ```
//!
//! Corresponds to k8s.io/component-base/cli/flag and the reference pages of the command line tools.

mod flag;
mod shared;
#[cfg(test)]
mod tests;

pub use flag::{Flag, Form, none, works};
pub use shared::{DELEGATED_AUTH, JSON_LOGGING, LEADER_ELECTION, LOGGING, METRICS, REQUEST_HEADERS, SERVING, VERSIONS};

use super::feature_gates;
use crate::version;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};
use flag::Effect;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::marker::PhantomData;

const OF_THE_ORIGINAL: &str = "Flags of the original";
const OF_THIS_MODEL: &str = "Flags of this model";
const VERSION: &str = "version";
/// Length to which the help wraps lists of flag names.
const HELP_WIDTH: usize = 100;

/// One of Kubernetes' programs, such as kube-scheduler.
pub trait Original: Clone + Debug + Send + Sync + 'static {
    /// Name of the program and of its manual page.
    const NAME: &'static str;
    /// All its flags: the groups that originals share, and its own.
    const FLAGS: &'static [&'static [Flag]];

    fn flags() -> impl Iterator<Item = &'static Flag> {
        Self::FLAGS.iter().copied().flatten()
    }
}

/// The flags that were given on a command line of the original.
#[derive(Clone, Debug)]
pub struct OriginalFlags<O: Original> {
    without_effect: Vec<&'static str>,
    given: BTreeSet<String>,
    /// Values of the flags that the struct has or that were given, by name.
    values: BTreeMap<&'static str, String>,
    gates: feature_gates::GateValues,
    gate_warnings: Vec<String>,
    version: String,
    original: PhantomData<O>,
}

impl<O: Original> Default for OriginalFlags<O> {
    fn default() -> Self {
        Self {
            without_effect: Vec::new(),
            given: BTreeSet::new(),
            values: BTreeMap::new(),
            gates: feature_gates::GateValues::new(),
            gate_warnings: Vec::new(),
            version: version::GIT_VERSION.to_owned(),
            original: PhantomData,
        }
    }
}

impl<O: Original> OriginalFlags<O> {
    /// Returns the flags of a command line that gives nothing but these feature gates.
    pub fn of_gates(gates: feature_gates::GateValues) -> Self {
        Self { gates, ..Self::default() }
    }

    /// Returns a line for each flag and each feature gate that was given and has no effect.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let flags = self.without_effect.iter();
        let flags = flags.map(|name| format!("--{name} is accepted as by {}, and has no effect here", O::NAME));
        flags.chain(self.gate_warnings.iter().cloned())
    }

    pub fn warn(&self) {
        for warning in self.warnings() {
            tracing::warn!("{warning}");
        }
    }

    /// Returns true if the command line itself had this flag, given by the name of its field.
    pub fn has(&self, id: &str) -> bool {
        self.given.contains(id)
    }

    /// Returns the value of a flag of the original as `/configz` prints it: the given one, or the default.
    ///
    /// # Panics
    ///
    /// If the original has no such flag.
    pub fn value(&self, name: &str) -> Value {
        let flag = O::flags().find(|flag| flag.name == name).unwrap_or_else(|| panic!("--{name} is in no table"));
        flag.form.value(self.values.get(name).map_or(flag.own_default(), String::as_str))
    }

    /// Returns the values of all flags of the original as Go prints them: the given ones, and the defaults.
    pub fn shown(&self) -> BTreeMap<&'static str, String> {
        let gates = || self.gates.iter().map(|(name, is_on)| format!("{name}={is_on}")).collect::<Vec<_>>().join(",");
        let value = |flag: &Flag| match flag.form {
            Form::Gates(_) => gates(),
            form => form.shown(self.values.get(flag.name).map_or(flag.own_default(), String::as_str)),
        };
        O::flags().map(|flag| (flag.name, value(flag))).collect()
    }

    /// Returns the names of the feature gates that are on.
    pub fn enabled_gates(&self) -> BTreeSet<&'static str> {
        feature_gates::enabled(O::NAME, &self.gates)
    }

    /// Returns the requested values of feature gates.
    pub fn gate_values(&self) -> &feature_gates::GateValues {
        &self.gates
    }

    /// Returns the version to report to clients.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Checks the feature gates of a file together with those of the command line, which win. Returns the warnings that the
    /// command line alone does not cause.
    pub(super) fn check_gates(&self, of_file: &feature_gates::GateValues) -> Result<Vec<String>, String> {
        let mut all = of_file.clone();
        all.extend(self.gates.clone());
        let mut warnings = feature_gates::check(O::NAME, &all)?;
        warnings.retain(|warning| !self.gate_warnings.contains(warning));
        Ok(warnings)
    }

    /// Adapts the struct's flags to the original's notation, and appends the flags without effect.
    fn complete(command: Command) -> Command {
        let own: BTreeSet<String> =
            command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
        let command = command.mut_args(|arg| adapt::<O>(arg)).args_override_self(true);
        let accepted = O::flags().filter(|flag| flag.effect == Effect::NoEffect && !own.contains(flag.name));
        let command = command.args(accepted.map(Flag::arg)).after_help(accepted_help::<O>());
        command.disable_version_flag(true).arg(version_arg())
    }

    /// Returns the values of all feature-gate flags, and the original's warnings about them.
    fn gates(matches: &ArgMatches) -> Result<(feature_gates::GateValues, Vec<String>), String> {
        let flags = O::flags().filter_map(|flag| match flag.form {
            Form::Gates(notation) => Some((flag.name, notation)),
            _ => None,
        });
        let mut asked = feature_gates::GateValues::new();
        for (name, notation) in flags {
            let values = matches.get_many::<String>(name).into_iter().flatten().map(String::as_str);
            asked.extend(feature_gates::parse(values, notation)?);
        }
        let warnings = feature_gates::check(O::NAME, &asked)?;
        Ok((asked, warnings))
    }
}

/// Gives a flag of the struct its heading, and the original's default and notation.
fn adapt<O: Original>(arg: Arg) -> Arg {
    let Some(long) = arg.get_long().map(str::to_owned) else { return arg };
    let mut rows = O::flags().filter(|flag| flag.is(&long)).peekable();
    if rows.peek().is_none() {
        return arg.help_heading(OF_THIS_MODEL);
    }
    rows.fold(arg.help_heading(OF_THE_ORIGINAL), |arg, flag| flag.adapt(arg))
}

/// Returns the flag `--version`: alone it prints the version; `--version=v1.36.2-lab` sets the version to report.
fn version_arg() -> Arg {
    let help = "Print the version and end; with =raw all that there is to say of it, with =vX.Y.Z... report that one";
    let arg = Arg::new(VERSION).long(VERSION).short('V').help(help).help_heading(OF_THE_ORIGINAL);
    let arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("VERSION");
    arg.action(ArgAction::Set).display_order(1001).value_parser(version::VersionFlag::parse)
}

fn accepted_help<O: Original>() -> String {
    let mut text =
        format!("Accepted as by {}, checked, and without effect here, with a line of warning each:", O::NAME);
    let mut width = usize::MAX;
    for flag in O::flags().filter(|flag| flag.effect == Effect::NoEffect) {
        let name = format!(" --{}", flag.name);
        if width.saturating_add(name.len()) > HELP_WIDTH {
            text.push_str("\n ");
            width = 1;
        }
        width += name.len();
        text.push_str(&name);
    }
    text
}

impl<O: Original> FromArgMatches for OriginalFlags<O> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let given: BTreeSet<String> =
            matches.ids().map(|id| id.as_str().to_owned()).filter(|id| is_given(id)).collect();
        let asked = matches.try_get_one::<version::VersionFlag>(VERSION).ok().flatten();
        if let Some(text) = asked.and_then(version::VersionFlag::printed) {
            return Err(clap::Error::raw(ErrorKind::DisplayVersion, text));
        }
        let version = match asked {
            Some(version::VersionFlag::Report(version)) => version.clone(),
            _ => version::GIT_VERSION.to_owned(),
        };
        let (gates, gate_warnings) = Self::gates(matches).map_err(|message| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("invalid value for '--feature-gates': {message}"))
        })?;
        let accepted =
            O::flags().filter(|flag| flag.effect == Effect::NoEffect && !matches!(flag.form, Form::Gates(_)));
        let without_effect = accepted.map(|flag| flag.name).filter(|name| given.contains(*name)).collect();
        let values = O::flags().filter_map(|flag| Some((flag.name, flag.raw_value(matches)?))).collect();
        Ok(Self { without_effect, given, values, gates, gate_warnings, version, original: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<O: Original> Args for OriginalFlags<O> {
    /// Later, when every other flag of the command is there.
    fn augment_args(command: Command) -> Command {
        command.defer(Self::complete)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns the differences between a component's struct and its original's table, for a test of each component.
pub fn disagreements<O: Original, Config: Args>() -> Vec<String> {
    let bare = Config::augment_args(Command::new(O::NAME));
    let own: BTreeSet<&str> = bare.get_arguments().filter_map(Arg::get_long).collect();
    let complete = OriginalFlags::<O>::complete(bare.clone());
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for flag in O::flags() {
        if !names.insert(flag.name) {
            found.push(format!("--{} stands in the table twice", flag.name));
        }
        match flag.effect {
            Effect::NoEffect if own.contains(flag.name) => found.push(format!("--{} has an effect", flag.name)),
            Effect::NoEffect => {}
            Effect::Field { flag: name, default } => {
                match complete.get_arguments().find(|arg| arg.get_long() == Some(name)) {
                    None => found.push(format!("--{} has no field", flag.name)),
                    Some(arg) => found.extend(flag.disagreement(arg, default)),
                }
            }
        }
    }
    found
}
