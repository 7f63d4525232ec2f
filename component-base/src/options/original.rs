//! The command line of an original: every flag that it has, with type and default, and whether it does anything here.
//!
//! A component's flags are a clap struct as far as they have an effect. Beside it lies a table of all flags of the
//! original: those that the struct has, and those that are accepted and change nothing, so that a command line written
//! for the original starts the model too. Each of the latter that is given costs one line of warning; what neither
//! knows is refused.
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
use flag::Here;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::marker::PhantomData;

const OF_THE_ORIGINAL: &str = "Flags of the original";
const OF_THIS_MODEL: &str = "Flags of this model";
const VERSION: &str = "version";
/// Names of flags are wrapped to lines of this length in the help.
const HELP_WIDTH: usize = 100;

/// One of Kubernetes' programs.
pub trait Original: Clone + Debug + Send + Sync + 'static {
    /// As its manual page is called.
    const NAME: &'static str;
    /// All its flags, in groups that originals share and those of its own.
    const FLAGS: &'static [&'static [Flag]];

    fn flags() -> impl Iterator<Item = &'static Flag> {
        Self::FLAGS.iter().copied().flatten()
    }
}

/// What was given on a command line of the original's form.
#[derive(Clone, Debug)]
pub struct OriginalFlags<O: Original> {
    without_effect: Vec<&'static str>,
    given: BTreeSet<String>,
    gates: feature_gates::Asked,
    gate_warnings: Vec<String>,
    version: String,
    original: PhantomData<O>,
}

impl<O: Original> Default for OriginalFlags<O> {
    fn default() -> Self {
        Self {
            without_effect: Vec::new(),
            given: BTreeSet::new(),
            gates: feature_gates::Asked::new(),
            gate_warnings: Vec::new(),
            version: version::GIT_VERSION.to_owned(),
            original: PhantomData,
        }
    }
}

impl<O: Original> OriginalFlags<O> {
    /// A line for each flag and each feature gate that was given and changes nothing.
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

    /// Whether the command line itself had this flag; by the name of its field.
    pub fn has(&self, id: &str) -> bool {
        self.given.contains(id)
    }

    /// The version that others are told.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Checks feature gates that a file asks for with those of the command line, which count more; answers what there is
    /// to warn of besides the command line's.
    pub(super) fn check_gates(&self, of_file: &feature_gates::Asked) -> Result<Vec<String>, String> {
        let mut all = of_file.clone();
        all.extend(self.gates.clone());
        let mut warnings = feature_gates::check(O::NAME, &all)?;
        warnings.retain(|warning| !self.gate_warnings.contains(warning));
        Ok(warnings)
    }

    /// The struct's flags as the original writes them, and after them those that only the original has.
    fn complete(command: Command) -> Command {
        let own: BTreeSet<String> =
            command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
        let command = command.mut_args(|arg| adapt::<O>(arg)).args_override_self(true);
        let accepted = O::flags().filter(|flag| flag.here == Here::NoEffect && !own.contains(flag.name));
        let command = command.args(accepted.map(Flag::arg)).after_help(accepted_help::<O>());
        command.disable_version_flag(true).arg(version_arg())
    }

    /// Every value of the feature gates, and what the original makes of all of them.
    fn gates(matches: &ArgMatches) -> Result<(feature_gates::Asked, Vec<String>), String> {
        let flags = O::flags().filter_map(|flag| match flag.form {
            Form::Gates(notation) => Some((flag.name, notation)),
            _ => None,
        });
        let mut asked = feature_gates::Asked::new();
        for (name, notation) in flags {
            let values = matches.get_many::<String>(name).into_iter().flatten().map(String::as_str);
            asked.extend(feature_gates::parse(values, notation)?);
        }
        let warnings = feature_gates::check(O::NAME, &asked)?;
        Ok((asked, warnings))
    }
}

/// A flag of the struct under its heading, with the original's default and way of writing it.
fn adapt<O: Original>(arg: Arg) -> Arg {
    let Some(long) = arg.get_long().map(str::to_owned) else { return arg };
    let mut rows = O::flags().filter(|flag| flag.is(&long)).peekable();
    if rows.peek().is_none() {
        return arg.help_heading(OF_THIS_MODEL);
    }
    rows.fold(arg.help_heading(OF_THE_ORIGINAL), |arg, flag| flag.adapt(arg))
}

/// `--version` prints; `--version=v1.36.2-lab` is what others are told.
fn version_arg() -> Arg {
    let help = "Print the version and end; with =raw all that there is to say of it, with =vX.Y.Z... report that one";
    let arg = Arg::new(VERSION).long(VERSION).short('V').help(help).help_heading(OF_THE_ORIGINAL);
    let arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("VERSION");
    arg.action(ArgAction::Set).display_order(1001).value_parser(version::Asked::parse)
}

fn accepted_help<O: Original>() -> String {
    let mut text =
        format!("Accepted as by {}, checked, and without effect here, with a line of warning each:", O::NAME);
    let mut width = usize::MAX;
    for flag in O::flags().filter(|flag| flag.here == Here::NoEffect) {
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
        let asked = matches.try_get_one::<version::Asked>(VERSION).ok().flatten();
        if let Some(text) = asked.and_then(version::Asked::printed) {
            return Err(clap::Error::raw(ErrorKind::DisplayVersion, text));
        }
        let version = match asked {
            Some(version::Asked::Report(version)) => version.clone(),
            _ => version::GIT_VERSION.to_owned(),
        };
        let (gates, gate_warnings) = Self::gates(matches).map_err(|message| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("invalid value for '--feature-gates': {message}"))
        })?;
        let accepted = O::flags().filter(|flag| flag.here == Here::NoEffect && !matches!(flag.form, Form::Gates(_)));
        let without_effect = accepted.map(|flag| flag.name).filter(|name| given.contains(*name)).collect();
        Ok(Self { without_effect, given, gates, gate_warnings, version, original: PhantomData })
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

/// Where a component's struct and the table of its original do not fit together; for the test of each component.
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
        match flag.here {
            Here::NoEffect if own.contains(flag.name) => found.push(format!("--{} has an effect", flag.name)),
            Here::NoEffect => {}
            Here::Works { flag: name, default } => {
                match complete.get_arguments().find(|arg| arg.get_long() == Some(name)) {
                    None => found.push(format!("--{} has no field", flag.name)),
                    Some(arg) => found.extend(flag.disagreement(arg, default)),
                }
            }
        }
    }
    found
}
