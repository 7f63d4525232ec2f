//! `--feature-gates`: the gates that a component knows, and those that may be changed.
//!
//! Values are checked as the original checks them, so that a command line with a wrong name fails here too. The table says
//! what a gate switches here, and docs/feature-gates.md shows it. Any other gate that is set to another value than its
//! default logs a warning.
//! Corresponds to k8s.io/component-base/featuregate.

mod table;
#[cfg(test)]
mod tests;

use crate::go_bool;
use std::collections::{BTreeMap, BTreeSet};
use table::{KUBERNETES, LIBRARIES};

/// Group of a gate whose name has no group.
const DEFAULT_GROUP: &str = "kube";
const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
const CLOUD_CONTROLLER_MANAGER: &str = "cloud-controller-manager";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

#[derive(Clone, Copy, Debug)]
struct Gate {
    name: &'static str,
    stage: Stage,
    default: bool,
    /// The gate cannot be changed.
    is_locked: bool,
    /// Gates that must be on if this gate is.
    needs: &'static [&'static str],
    /// The one component that does not have the gate.
    unknown_to: &'static str,
    /// What the gate switches here in the API server; empty for nothing.
    serves: &'static str,
    /// What the gate switches here in the controller manager; empty for nothing.
    controls: &'static str,
    /// What the gate switches here in the scheduler; empty for nothing.
    schedules: &'static str,
    /// What the gate switches here in every component; empty for nothing.
    everywhere: &'static str,
}

/// Notation of gates on a component's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// `Name=true,Other=false`.
    Plain,
    /// Like `Plain`, with an optional group before each name: `kube:Name=true`.
    Grouped,
}

/// Requested values of gates, by name.
pub type GateValues = BTreeMap<String, bool>;

/// Parses all values of the flag. If a gate is set twice, the later value counts.
pub fn parse<'a>(values: impl IntoIterator<Item = &'a str>, notation: Notation) -> Result<GateValues, String> {
    let mut asked = GateValues::new();
    let (mut has_group, mut has_none) = (false, false);
    for pair in values.into_iter().flat_map(|value| value.split(',')).filter(|pair| !pair.is_empty()) {
        let pair = match pair.split_once(':').filter(|_| notation == Notation::Grouped) {
            Some((DEFAULT_GROUP, pair)) => {
                has_group = true;
                pair
            }
            Some((group, _)) => return Err(format!("component not registered: {group}")),
            None => {
                has_none = true;
                pair
            }
        };
        let (name, value) = pair_of(pair, notation)?;
        asked.insert(name, value);
    }
    if notation == Notation::Grouped && has_group && has_none {
        let message = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
        return Err(message.to_owned());
    }
    Ok(asked)
}

fn pair_of(pair: &str, notation: Notation) -> Result<(String, bool), String> {
    let Some((name, value)) = pair.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
        return Err(match notation {
            Notation::Plain => "malformed pair, expect string=bool".to_owned(),
            Notation::Grouped => format!("missing bool value for {}", pair.trim()),
        });
    };
    let between = if notation == Notation::Plain { ": " } else { "=" };
    let invalid = || {
        format!("invalid value of {name}{between}{value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")
    };
    go_bool::parse(value).map(|value| (name.to_owned(), value)).map_err(|_| invalid())
}

/// Refuses values that the named original refuses; returns its warnings and those of this model.
pub fn check(component: &str, asked: &GateValues) -> Result<Vec<String>, String> {
    let known = known_to(component);
    let mut enabled: BTreeMap<&str, bool> =
        known.iter().map(|(name, gate)| (*name, gate.before_own_value(asked))).collect();
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for (name, is_on) in asked {
        let Some(gate) = known.get(name.as_str()) else { return Err(format!("unrecognized feature gate: {name}")) };
        if gate.is_locked && gate.default != *is_on {
            let locked_to = gate.default;
            errors.push(format!("cannot set feature gate {name} to {is_on}, feature is locked to {locked_to}"));
            continue;
        }
        enabled.insert(gate.name, *is_on);
        warnings.extend(gate.removal_warning(*is_on));
        if gate.default != *is_on && gate.switches_in(component).is_empty() {
            warnings
                .push(format!("--feature-gates: {name}={is_on} is accepted as by {component}, and has no effect here"));
        }
    }
    if errors.is_empty() {
        errors.extend(known.values().filter_map(|gate| gate.missing_need(&enabled)));
    }
    match errors.as_slice() {
        [] => Ok(warnings),
        [error] => Err(error.clone()),
        errors => Err(format!("[{}]", errors.join(", "))),
    }
}

/// Returns true if a gate of the named original is on. Its own value wins over those for all gates of its stage.
pub fn is_on(component: &str, asked: &GateValues, name: &str) -> bool {
    let by_stage = || gates_of(component).find(|gate| gate.name == name).map(|gate| gate.before_own_value(asked));
    asked.get(name).copied().or_else(by_stage).unwrap_or(false)
}

/// Returns the gates of the named original that are on.
pub fn enabled(component: &str, asked: &GateValues) -> BTreeSet<&'static str> {
    let is_on = |gate: &&Gate| asked.get(gate.name).copied().unwrap_or_else(|| gate.before_own_value(asked));
    gates_of(component).filter(is_on).map(|gate| gate.name).collect()
}

/// Returns what a gate switches here in the named original; `None` if it switches nothing there.
pub fn switches(component: &str, name: &str) -> Option<&'static str> {
    let what = known_to(component).get(name)?.switches_in(component);
    Some(what).filter(|what| !what.is_empty())
}

/// Returns the gates of a component, by name.
fn known_to(component: &str) -> BTreeMap<&'static str, &'static Gate> {
    gates_of(component).map(|gate| (gate.name, gate)).collect()
}

fn gates_of(component: &str) -> impl Iterator<Item = &'static Gate> {
    let own: &[Gate] = if component == CLOUD_CONTROLLER_MANAGER { &[] } else { KUBERNETES };
    LIBRARIES.iter().chain(own).filter(move |gate| gate.unknown_to != component)
}

impl Gate {
    /// Returns the gate's value by default and by `AllAlpha` and `AllBeta`.
    fn before_own_value(&self, asked: &GateValues) -> bool {
        let all = match self.stage {
            Stage::Alpha => "AllAlpha",
            Stage::Beta => "AllBeta",
            Stage::Ga | Stage::Deprecated => return self.default,
        };
        asked.get(all).copied().unwrap_or(self.default)
    }

    /// Returns what the gate switches in a component; empty for nothing.
    fn switches_in(&self, component: &str) -> &'static str {
        match component {
            _ if !self.everywhere.is_empty() => self.everywhere,
            API_SERVER => self.serves,
            CONTROLLER_MANAGER => self.controls,
            SCHEDULER => self.schedules,
            _ => "",
        }
    }

    /// Returns the warning about setting a gate that will be removed.
    fn removal_warning(&self, is_on: bool) -> Option<String> {
        let what = match self.stage {
            Stage::Ga => "GA",
            Stage::Deprecated => "deprecated",
            Stage::Alpha | Stage::Beta => return None,
        };
        Some(format!("Setting {what} feature gate {}={is_on}. It will be removed in a future release.", self.name))
    }

    /// Returns an error if the gate is on and one that it needs is off.
    fn missing_need(&self, enabled: &BTreeMap<&str, bool>) -> Option<String> {
        let is_on = |name: &str| enabled.get(name) == Some(&true);
        let off: Vec<&str> = self.needs.iter().copied().filter(|name| !is_on(name)).collect();
        let is_wrong = is_on(self.name) && !off.is_empty();
        is_wrong.then(|| {
            format!("{} is enabled, but depends on features that are disabled: [{}]", self.name, off.join(" "))
        })
    }
}
