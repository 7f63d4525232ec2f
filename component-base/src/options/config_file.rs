//! `--config`: reads a component's configuration file strictly.
//!
//! A kind is a table of fields. A field with an effect here corresponds to a flag and is parsed like it; the command line
//! wins. A field without effect logs a warning, and one that the kind does not have is refused. Corresponds to
//! k8s.io/kubelet/config/v1beta1 and its sisters, and to the strict decoding of such files.
//!
//! Deviation: the command line wins over the file for every component; kube-proxy and, but for leader election,
//! kube-scheduler ignore flags beside a file.

use super::{ClientOptions, Original, OriginalFlags, ServingOptions, feature_gates};
use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Args, Command};
use proto::serializer::{Document, Format};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The kind of a configuration file, with its fields.
#[derive(Debug)]
pub struct FileKind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub fields: &'static [&'static [Field]],
}

/// One field of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Path such as `leaderElection.leaderElect`; everything below is the field's value.
    path: &'static str,
    use_: FieldUse,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FieldUse {
    None,
    /// The field sets this flag. A number gets the unit appended, and names and values of a map are joined by `join`.
    Flag {
        name: &'static str,
        unit: &'static str,
        join: &'static str,
    },
    /// Feature gates by name.
    Gates,
    /// The component reads the field itself.
    Own,
}

/// Returns a field without effect.
pub const fn ignored(path: &'static str) -> Field {
    Field { path, use_: FieldUse::None }
}

/// Returns a field that sets a flag.
pub const fn flag(path: &'static str, name: &'static str) -> Field {
    Field { path, use_: FieldUse::Flag { name, unit: "", join: "=" } }
}

/// Returns the field of the feature gates.
pub const fn gates(path: &'static str) -> Field {
    Field { path, use_: FieldUse::Gates }
}

/// Returns a field that the component reads itself.
pub const fn own(path: &'static str) -> Field {
    Field { path, use_: FieldUse::Own }
}

impl Field {
    /// Appends a unit to the value, for a field whose name has the unit.
    pub const fn in_unit(self, unit: &'static str) -> Self {
        match self.use_ {
            FieldUse::Flag { name, join, .. } => Self { use_: FieldUse::Flag { name, unit, join }, ..self },
            _ => self,
        }
    }

    /// Sets the text between names and values of the field's map.
    pub const fn joined_by(self, join: &'static str) -> Self {
        match self.use_ {
            FieldUse::Flag { name, unit, .. } => Self { use_: FieldUse::Flag { name, unit, join }, ..self },
            _ => self,
        }
    }
}

/// An unusable configuration file; the text is one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    #[error("--config: {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("--config: {}: {message}", path.display())]
    Invalid { path: PathBuf, message: String },
}

/// The value of a flag, and the path of the field that has it.
#[derive(Clone, Debug, PartialEq)]
struct FlagValue {
    path: &'static str,
    name: &'static str,
    value: String,
}

/// The content of a configuration file.
#[derive(Debug, Default, PartialEq)]
pub struct ConfigFile {
    path: PathBuf,
    /// Flags in the order of the file's fields.
    flags: Vec<FlagValue>,
    /// What is wrong with the fields so far.
    mistakes: Vec<String>,
    without_effect: Vec<&'static str>,
    gates: feature_gates::GateValues,
    /// Fields that the component reads itself, by path.
    pub own: BTreeMap<&'static str, Value>,
}

impl ConfigFile {
    pub fn read(path: &Path, kind: &FileKind) -> Result<Self, ConfigFileError> {
        Self::read_all(path, kind)?.or_invalid(Vec::new())
    }

    /// Reads what can be read. `or_invalid` says later what is wrong, with what the component finds itself.
    pub fn read_all(path: &Path, kind: &FileKind) -> Result<Self, ConfigFileError> {
        let bytes = fs::read(path).map_err(|source| ConfigFileError::Unreadable { path: path.to_owned(), source })?;
        let invalid = |message| ConfigFileError::Invalid { path: path.to_owned(), message };
        Ok(Self { path: path.to_owned(), ..parse(&bytes, kind).map_err(invalid)? })
    }

    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.warnings_of(std::iter::empty())
    }

    /// Returns the warnings, with those about fields below one that the component reads itself.
    pub fn warnings_of(&self, more: impl Iterator<Item = &'static str>) -> impl Iterator<Item = String> {
        let path = self.path.display();
        let all = self.without_effect.iter().copied().chain(more);
        all.map(move |field| format!("--config: {path}: {field} is accepted, and has no effect here"))
    }

    /// Returns an error with all mistakes of the file, also those that the component has found itself.
    pub fn or_invalid(mut self, more: Vec<String>) -> Result<Self, ConfigFileError> {
        self.mistakes.extend(more);
        self.refuse(&self.mistakes)?;
        Ok(self)
    }

    fn refuse(&self, mistakes: &[String]) -> Result<(), ConfigFileError> {
        if mistakes.is_empty() { Ok(()) } else { Err(self.invalid(aggregate(mistakes))) }
    }

    /// Returns an error about the file.
    pub fn invalid(&self, message: String) -> ConfigFileError {
        ConfigFileError::Invalid { path: self.path.clone(), message }
    }

    /// Sets all options of a component that the command line left unset, and checks the feature gates of both.
    pub fn complete<O: Original, Settings: Args>(
        &self,
        command_line: &OriginalFlags<O>,
        client: &mut ClientOptions,
        serving: &mut ServingOptions,
        settings: &mut Settings,
    ) -> Result<(), ConfigFileError> {
        self.refuse(&self.completed(command_line, client, serving, settings))
    }

    /// Does the same, and returns everything that is wrong.
    pub fn completed<O: Original, Settings: Args>(
        &self,
        command_line: &OriginalFlags<O>,
        client: &mut ClientOptions,
        serving: &mut ServingOptions,
        settings: &mut Settings,
    ) -> Vec<String> {
        let mut mistakes = Vec::new();
        match command_line.check_gates(&self.gates) {
            Ok(gates) => {
                gates.iter().for_each(|warning| tracing::warn!("--config: {}: {warning}", self.path.display()));
            }
            Err(message) => mistakes.push(message),
        }
        let is_given = |id: &str| command_line.has(id);
        mistakes.extend(self.set_flags(client, is_given));
        mistakes.extend(self.set_flags(serving, is_given));
        mistakes.extend(self.set_flags(settings, is_given));
        mistakes
    }

    /// Sets the fields of a component's struct that the command line left unset.
    pub fn apply<Group: Args>(
        &self,
        group: &mut Group,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<(), ConfigFileError> {
        self.refuse(&self.set_flags(group, is_given))
    }

    /// Sets the fields, or returns what is wrong with each of them.
    fn set_flags<Group: Args>(&self, group: &mut Group, is_given: impl Fn(&str) -> bool) -> Vec<String> {
        // Without defaults, so that options which the file does not have stay unchanged.
        let command = Group::augment_args_for_update(Command::new("--config")).no_binary_name(true);
        let command = command.mut_args(|arg| arg.default_value(Resettable::Reset).required(false));
        let known = |name: &str| command.get_arguments().find(|arg| arg.get_long() == Some(name));
        let is_wanted = |flag: &&FlagValue| known(flag.name).is_some_and(|arg| !is_given(arg.get_id().as_str()));
        let (mut arguments, mut mistakes) = (Vec::new(), Vec::new());
        for flag in self.flags.iter().filter(is_wanted) {
            let argument = format!("--{}={}", flag.name, flag.value);
            match command.clone().try_get_matches_from([&argument]) {
                Err(error) if !is_about_others(&error) => {
                    mistakes.push(format!("{}: {}", flag.path, without_flag(&error)));
                }
                _ => arguments.push(argument),
            }
        }
        if !mistakes.is_empty() {
            return mistakes;
        }
        let matches = command.clone().try_get_matches_from(arguments);
        if let Err(error) = matches.and_then(|matches| group.update_from_arg_matches(&matches)) {
            mistakes.push(first_line(&error).to_owned());
        }
        mistakes
    }
}

/// Joins errors as Kubernetes' aggregates are shown.
pub fn aggregate(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn parse(bytes: &[u8], kind: &FileKind) -> Result<ConfigFile, String> {
    let document = Document::parse(Format::Yaml, bytes)?;
    if let Some(twice) = document.duplicates.first() {
        return Err(twice.clone());
    }
    let Value::Object(fields) = &document.value else { return Err("want a mapping".to_owned()) };
    let said = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, name) = (said("apiVersion"), said("kind"));
    if (api_version.as_str(), name.as_str()) != (kind.api_version, kind.kind) {
        return Err(format!("want {} {}, and not {api_version:?} {name:?}", kind.api_version, kind.kind));
    }
    let mut file = ConfigFile::default();
    for (name, value) in fields.iter().filter(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str())) {
        walk(kind, name, value, &mut file);
    }
    Ok(file)
}

/// Returns true if a flag is wrong because of others that are there or missing. All of them together are looked at later.
fn is_about_others(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict)
}

fn first_line(error: &clap::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Returns what is wrong with a value, without the name of the flag.
fn without_flag(error: &clap::Error) -> String {
    let line = first_line(error);
    match line.split_once(" for '--") {
        Some((before, after)) => format!("{before}{}", after.split_once('\'').map_or("", |(_, rest)| rest)),
        None => line,
    }
}

/// Visits a field of the table, or a map on the path to one.
fn walk(kind: &FileKind, path: &str, value: &Value, file: &mut ConfigFile) {
    let mut fields = kind.fields.iter().copied().flatten();
    if let Some(field) = fields.clone().find(|field| field.path == path) {
        match field.use_ {
            _ if value.is_null() => {}
            FieldUse::None => file.without_effect.push(field.path),
            FieldUse::Gates => match serde_json::from_value(value.clone()) {
                Ok(gates) => file.gates = gates,
                Err(_) => file.mistakes.push(format!("{path}: want names with true or false")),
            },
            FieldUse::Own => drop(file.own.insert(field.path, value.clone())),
            FieldUse::Flag { name, unit, join } => match text_of(value, join) {
                // An empty text stands for the default.
                Some(text) if text.is_empty() && value.is_string() => {}
                Some(text) => file.flags.push(FlagValue { path: field.path, name, value: text + unit }),
                None => file.mistakes.push(format!("{path}: want a value of another form")),
            },
        }
        return;
    }
    let below = format!("{path}.");
    match value {
        Value::Null if fields.any(|field| field.path.starts_with(&below)) => {}
        Value::Object(members) if fields.any(|field| field.path.starts_with(&below)) => {
            for (name, value) in members {
                walk(kind, &format!("{below}{name}"), value, file);
            }
        }
        _ => file.mistakes.push(format!("unknown field {path:?}")),
    }
}

/// Returns a value as a command line writes it.
fn text_of(value: &Value, join: &str) -> Option<String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    match value {
        Value::Array(items) => items.iter().map(scalar).collect::<Option<Vec<_>>>().map(|items| items.join(",")),
        Value::Object(pairs) => {
            let pairs = pairs.iter().map(|(name, value)| Some(format!("{name}{join}{}", scalar(value)?)));
            pairs.collect::<Option<Vec<_>>>().map(|pairs| pairs.join(","))
        }
        value => scalar(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::feature_gates::Notation;
    use crate::options::original::{Flag, Form, none};
    use clap::Parser;

    const KIND: FileKind = FileKind {
        api_version: "thing.config.k8s.io/v1",
        kind: "ThingConfiguration",
        fields: &[
            &[flag("maxPods", "max-pods"), flag("leaseSeconds", "lease").in_unit("s"), ignored("tracing")],
            &[flag("evictionHard", "eviction").joined_by("<"), flag("server.zones", "zones"), own("profiles")],
            &[gates("featureGates")],
        ],
    };

    #[derive(Parser, Clone, Debug, PartialEq)]
    struct Thing {
        /// It is of no use without zones.
        #[arg(long, default_value_t = 110, requires = "zones")]
        max_pods: u32,
        #[arg(long, default_value = "40s")]
        lease: String,
        #[arg(long, value_delimiter = ',', default_value = "memory<1")]
        eviction: Vec<String>,
        #[arg(long, value_delimiter = ',')]
        zones: Vec<String>,
    }

    fn read(fields: &str) -> Result<ConfigFile, String> {
        let text = format!("apiVersion: thing.config.k8s.io/v1\nkind: ThingConfiguration\n{fields}");
        let file = parse(text.as_bytes(), &KIND)?.or_invalid(Vec::new());
        file.map_err(|error| error.to_string().trim_start_matches("--config: : ").to_owned())
    }

    #[test]
    fn its_fields_are_flags_and_the_command_line_wins() {
        let file =
            read("maxPods: 7\nleaseSeconds: 30\nevictionHard: {memory: 2, disk: 10%}\nserver: {zones: [a, b]}\n");
        let file = file.unwrap();
        let mut thing = Thing::parse_from(["thing", "--lease=9s"]);
        file.apply(&mut thing, |given| given == "lease").unwrap();
        assert_eq!((thing.max_pods, thing.lease.as_str()), (7, "9s"));
        assert_eq!(
            thing.eviction.iter().map(String::as_str).collect::<std::collections::BTreeSet<_>>(),
            ["disk<10%", "memory<2"].into()
        );
        assert_eq!(thing.zones, ["a", "b"]);
        file.apply(&mut thing, |_| false).unwrap();
        assert_eq!(thing.lease, "30s");
        // What it does not say stays.
        let mut other = thing.clone();
        read("").unwrap().apply(&mut other, |_| false).unwrap();
        assert_eq!(other, thing);
    }

    #[test]
    fn fields_without_effect_are_named_and_own_ones_kept() {
        let file = read("tracing: {endpoint: here}\nprofiles: [{a: 1}]\nmaxPods:\n").unwrap();
        let warnings: Vec<String> = file.warnings().collect();
        assert_eq!(warnings, ["--config: : tracing is accepted, and has no effect here"]);
        assert_eq!(file.own["profiles"], serde_json::json!([{"a": 1}]));
        assert!(file.flags.is_empty());
    }

    /// The gates of the file and of the command line are checked together, and those of the command line win.
    #[test]
    fn feature_gates_are_checked_with_the_command_lines() {
        #[derive(Clone, Debug)]
        struct Component;
        impl Original for Component {
            const NAME: &'static str = "kubelet";
            const FLAGS: &'static [&'static [Flag]] = &[&[none("feature-gates", Form::Gates(Notation::Plain), "")]];
        }
        #[derive(Parser)]
        struct CommandLine {
            #[command(flatten)]
            original: OriginalFlags<Component>,
        }
        let no_effect =
            |gate: &str| format!("--feature-gates: {gate} is accepted as by kubelet, and has no effect here");
        for (fields, flags, expected) in [
            ("", "WatchList=false", Ok(vec![])),
            ("{WatchList: true}", "", Ok(vec![])),
            ("{WatchList: false}", "WatchList=true", Ok(vec![])),
            ("{WatchList: false}", "OpenAPIEnums=false", Ok(vec![no_effect("WatchList=false")])),
            ("{GangScheduling: true}", "GenericWorkload=true", Ok(vec![no_effect("GangScheduling=true")])),
            ("{Watchlist: true}", "", Err("unrecognized feature gate: Watchlist".to_owned())),
            (
                "{NodeSwap: false}",
                "",
                Err("cannot set feature gate NodeSwap to false, feature is locked to true".to_owned()),
            ),
        ] {
            let file = read(&format!("featureGates: {fields}\n")).unwrap();
            let line = CommandLine::try_parse_from(["kubelet", &format!("--feature-gates={flags}")]).unwrap();
            assert_eq!(line.original.check_gates(&file.gates), expected, "{fields} {flags}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_a_line() {
        for (fields, expected) in [
            ("maxPod: 7\nserver: {zone: a}\n", r#"[unknown field "maxPod", unknown field "server.zone"]"#),
            ("server: a\n", r#"unknown field "server""#),
            ("maxPods: {a: [1]}\n", "maxPods: want a value of another form"),
            ("featureGates: {WatchList: perhaps}\n", "featureGates: want names with true or false"),
            ("maxPods: [{}]\nmaxPod: 7\n", r#"[unknown field "maxPod", maxPods: want a value of another form]"#),
        ] {
            assert_eq!(read(fields).unwrap_err(), expected, "{fields}");
        }
        assert!(read("maxPods: 1\nmaxPods: 2\n").unwrap_err().contains("maxPods"));
        let other = parse(b"apiVersion: v1\nkind: Pod\n", &KIND).unwrap_err();
        assert_eq!(other, r#"want thing.config.k8s.io/v1 ThingConfiguration, and not "v1" "Pod""#);
        let wrong = read("maxPods: many\nserver: {zones: ''}\n").unwrap();
        let error = wrong.apply(&mut Thing::parse_from(["thing"]), |_| false).unwrap_err().to_string();
        assert_eq!(error, "--config: : maxPods: invalid value 'many': invalid digit found in string");
    }
}
