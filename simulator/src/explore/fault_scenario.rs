//! `FaultScenario`: what is to be played: a story, its seed, and the faults with their moments. It is read from a file, and written
//! to one that repeats a run.

use crate::cashier::Mistake;
use crate::cluster::Layout;
use crate::explore::step::Step;
use crate::explore::stories;
use crate::plan::fault::{Drawn, Fault};
use crate::scenario::SCENARIOS;
use experiments::Problem;
use experiments::study::schema;
use proto::serializer::yaml;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const API_VERSION: &str = "orrery.dev/v1alpha1";
pub const KIND: &str = "FaultScenario";

/// Number of nodes if a scenario does not say it.
const NODES: u32 = 2;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultScenario {
    /// `orrery.dev/v1alpha1`.
    pub api_version: String,
    /// `FaultScenario`.
    pub kind: String,
    /// Name of a story, as `orrery sim explore --list` prints them; or else the scenario has steps of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub story: Option<String>,
    #[serde(default = "first_seed")]
    pub seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterShape>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// The faults to inject. Without this field none is injected into a story of steps, and all that the seed draws into a
    /// story with drawn faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<Fault>>,
    /// The user's actions in a story with drawn faults. Without this field, all that the seed draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Drawn>>,
    /// The promise that was broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
}

/// What a scenario with steps of its own needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterShape {
    /// Number of nodes; 2 if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Number of devices of each node.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub devices: u32,
    /// Whether the gates of PodGroups are on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub gangs: bool,
    /// A demonstration: a cashier, and what it does wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cashier: Option<Mistake>,
}

fn first_seed() -> u64 {
    1
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl ClusterShape {
    pub fn layout(&self) -> Layout {
        Layout {
            nodes: self.nodes.unwrap_or(NODES),
            devices: self.devices,
            has_gangs: self.gangs,
            cashier: self.cashier,
            ..Layout::default()
        }
    }
}

impl FaultScenario {
    /// Makes the scenario of a story without planned faults.
    pub fn of_story(story: &str, seed: u64) -> Self {
        let (api_version, kind, story) = (API_VERSION.to_owned(), KIND.to_owned(), Some(story.to_owned()));
        Self { api_version, kind, story, seed, ..Self::default() }
    }

    /// Returns the story of a name, with its steps.
    pub fn told_in(story: &str) -> Option<Self> {
        let read = Self::read(stories::text(story)?);
        Some(read.unwrap_or_else(|problems| panic!("the story {story}: {problems:?}")))
    }

    /// Reads a scenario, or returns every mistake.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        let parsed = yaml::parse(text.as_bytes()).map_err(|why| vec![Problem::new("", why)])?;
        let duplicates = parsed.duplicates.iter().map(|path| Problem::new("", format!("duplicate field {path:?}")));
        let mut problems: Vec<Problem> = duplicates.collect();
        problems.extend(schema::check_against(&parsed.value, &Self::schema()));
        if !problems.is_empty() {
            return Err(problems);
        }
        let read = serde_json::from_value(parsed.value);
        let scenario: Self = read.map_err(|error| vec![Problem::new("", error.to_string())])?;
        let problems = scenario.problems();
        if problems.is_empty() { Ok(scenario) } else { Err(problems) }
    }

    /// Returns the JSON Schema of scenarios.
    pub fn schema() -> Value {
        schemars::schema_for!(FaultScenario).to_value()
    }

    /// Returns the text of a file that `read` reads.
    pub fn text(&self) -> String {
        yaml::to_yaml(&serde_json::to_value(self).unwrap_or_default())
    }

    /// Returns true if the seed draws the faults, and the story has no steps.
    pub fn has_drawn_faults(&self) -> bool {
        self.story.as_ref().is_some_and(|story| SCENARIOS.iter().any(|scenario| scenario.name == story))
    }

    /// Returns the scenario with the cluster and the steps of its story.
    pub fn told(&self) -> Self {
        match self.story.as_deref().and_then(Self::told_in) {
            Some(story) => Self { story: None, cluster: story.cluster, steps: story.steps, ..self.clone() },
            None => self.clone(),
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        for (name, value, wanted) in [("apiVersion", &self.api_version, API_VERSION), ("kind", &self.kind, KIND)] {
            if value != wanted {
                found.push(Problem::new(name, format!("must be {wanted}")));
            }
        }
        let is_told = self.story.as_deref().is_some_and(|story| stories::text(story).is_some());
        match &self.story {
            Some(_) if !self.steps.is_empty() => {
                found.push(Problem::new("steps", "a scenario has either a story or steps of its own"));
            }
            Some(story) if !is_told && !self.has_drawn_faults() => {
                found.push(Problem::new(
                    "story",
                    format!("Unsupported value: {story:?}: see orrery sim explore --list"),
                ));
            }
            None if self.steps.is_empty() => found.push(Problem::new("steps", "Required value: a story or steps")),
            _ => {}
        }
        if self.story.is_some() && self.cluster.is_some() {
            found.push(Problem::new("cluster", "the story has a cluster of its own"));
        }
        if self.actions.is_some() && !self.has_drawn_faults() {
            found.push(Problem::new("actions", "the seed draws no actions in this story: it has steps"));
        }
        for (index, step) in self.steps.iter().enumerate() {
            let problems = step.problems().into_iter();
            found.extend(problems.map(|(path, why)| Problem::new(format!("steps[{index}]{path}"), why)));
        }
        for (index, fault) in self.faults.iter().flatten().enumerate() {
            let path = format!("faults[{index}]");
            if fault.set() != 1 {
                found.push(Problem::new(path.as_str(), "must have exactly one of crash, freeze, swap, drawn"));
            }
            let occurrences = [
                ("crash", fault.crash.as_ref().map(|crash| crash.occurrence)),
                ("freeze", fault.freeze.as_ref().map(|freeze| freeze.occurrence)),
                ("swap", fault.swap.as_ref().map(|swap| swap.occurrence)),
            ];
            for (name, _) in occurrences.iter().filter(|(_, occurrence)| *occurrence == Some(0)) {
                let place = format!("{path}.{name}.occurrence");
                found.push(Problem::new(place, "must be greater than or equal to 1"));
            }
            if fault.drawn.is_some() != self.has_drawn_faults() {
                let message = match self.has_drawn_faults() {
                    true => "the seed draws the faults of this story: name them by drawn",
                    false => "the seed draws no faults of this story",
                };
                found.push(Problem::new(path.as_str(), message));
            }
        }
        found
    }
}
