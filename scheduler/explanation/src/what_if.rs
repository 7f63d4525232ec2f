//! `WhatIf`, changes of a profile with which the cycle runs again on the snapshot of an attempt.
//!
//! ```text
//! weight=ImageLocality:5   another weight; for a plugin that the profile scores with
//! without=TaintToleration  the profile lacks the plugin
//! node=node-3              only this node is a candidate
//! ```

use crate::attempt::{Attempt, Outcome};
use crate::document::Explanation;
use crate::explain::explain;
use component_base::rng::Random;
use parking_lot::Mutex;
use scheduling_framework::cache::Snapshot;
use scheduling_framework::cycle::{self, Rotation};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    CycleState, MAX_NODE_SCORE, Nomination, Plugin, PreFilter, PreFilterResult, Profile, Rejection,
};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Weight { plugin: String, weight: i64 },
    Without(String),
    Node(String),
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum WhatIfError {
    #[error("{0:?}: want weight=PLUGIN:N, without=PLUGIN or node=NAME")]
    Form(String),
    #[error("weight={0}: the profile does not score with this plugin; it has {1}")]
    NotScored(String, String),
    #[error("weight={0}:{1}: want a weight from 0 to {MAX_WEIGHT}")]
    Weight(String, i64),
    #[error("without={0}: the profile does not have this plugin; it has {1}")]
    NoPlugin(String, String),
    #[error("node={0}: the snapshot of the attempt does not have this node")]
    NoNode(String),
}

/// With it no sum of scores overflows.
const MAX_WEIGHT: i64 = i64::MAX / MAX_NODE_SCORE / 1000;

impl FromStr for Change {
    type Err = WhatIfError;

    fn from_str(text: &str) -> Result<Self, WhatIfError> {
        let wrong = || WhatIfError::Form(text.to_owned());
        let (kind, value) = text.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(wrong)?;
        match kind {
            "weight" => {
                let (plugin, weight) = value.split_once(':').ok_or_else(wrong)?;
                let weight = weight.parse().map_err(|_| wrong())?;
                Ok(Self::Weight { plugin: plugin.to_owned(), weight })
            }
            "without" => Ok(Self::Without(value.to_owned())),
            "node" => Ok(Self::Node(value.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight { plugin, weight } => write!(f, "weight={plugin}:{weight}"),
            Self::Without(plugin) => write!(f, "without={plugin}"),
            Self::Node(node) => write!(f, "node={node}"),
        }
    }
}

/// Parses changes with commas between them.
pub fn parse(text: &str) -> Result<Vec<Change>, WhatIfError> {
    text.split([',', '|']).filter(|part| !part.is_empty()).map(str::parse).collect()
}

/// Runs the cycle of an attempt again with these changes. Returns what would have been tried, and explains it. Extenders are not
/// asked again, which the explanation says.
pub fn what_if(
    attempt: &Attempt,
    snapshot: &Snapshot,
    changes: &[Change],
) -> Result<(Attempt, Explanation), WhatIfError> {
    let mut profile = (*attempt.profile).clone();
    changes.iter().try_for_each(|change| apply(change, &mut profile, snapshot))?;
    let (mut state, pod) = (CycleState::default(), &attempt.pod);
    let (mut rotation, random) = (Rotation::at(attempt.next_start), Random::from_seed(0, "what-if"));
    let decided = cycle::schedule_one(&profile, &mut state, pod, snapshot, &attempt.nominated, &mut rotation, &random);
    let outcome = match decided {
        Ok(decision) => Outcome::Found(decision),
        Err(error) => Outcome::NotFound { error, nomination: Nomination::Keep, victims: Vec::new() },
    };
    let changed = Attempt {
        id: attempt.id,
        at: attempt.at,
        took: attempt.took,
        pod: pod.clone(),
        number: attempt.number,
        moves: Vec::new(),
        rejected_by: Vec::new(),
        profile: Arc::new(profile),
        namespaces: attempt.namespaces.clone(),
        nominated: attempt.nominated.clone(),
        next_start: attempt.next_start,
        timings: Vec::new(),
        outcome: keep_draw(attempt, outcome, snapshot),
        group_preemption: Mutex::default(),
        end: Mutex::default(),
    };
    let without_extenders = attempt.had_extenders().then(|| "without=the extenders".to_owned());
    let explanation = Explanation {
        what_if: changes.iter().map(ToString::to_string).chain(without_extenders).collect(),
        node_before: attempt.node().unwrap_or_default().to_owned(),
        ..explain(&changed, snapshot)
    };
    Ok((changed, explanation))
}

/// Takes the node of then, if it is still among the best. Another draw is no effect of the changes.
fn keep_draw(attempt: &Attempt, outcome: Outcome, snapshot: &Snapshot) -> Outcome {
    let Outcome::Found(mut decision) = outcome else { return outcome };
    let before = attempt.node().unwrap_or_default();
    let totals = cycle::totals(&decision.scores, decision.feasible.len());
    let total = |node: &str| {
        let number = snapshot.index_of(node)?;
        Some(totals[decision.feasible.iter().position(|one| *one == number)?])
    };
    if total(before).is_some() && total(before) == total(&decision.node) {
        before.clone_into(&mut decision.node);
    }
    Outcome::Found(decision)
}

fn apply(change: &Change, profile: &mut Profile, snapshot: &Snapshot) -> Result<(), WhatIfError> {
    match change {
        Change::Weight { plugin, weight } => {
            if !(0..=MAX_WEIGHT).contains(weight) {
                return Err(WhatIfError::Weight(plugin.clone(), *weight));
            }
            let names = joined(profile.score.iter().map(|(plugin, _)| plugin.name()));
            let found = profile.score.iter_mut().find(|(scored, _)| scored.name() == plugin);
            found.ok_or_else(|| WhatIfError::NotScored(plugin.clone(), names))?.1 = *weight;
        }
        Change::Without(plugin) => {
            if !profile.plugins.iter().any(|known| known.name() == plugin) {
                let names = joined(profile.plugins.iter().map(|plugin| plugin.name()));
                return Err(WhatIfError::NoPlugin(plugin.clone(), names));
            }
            profile.pre_filter.retain(|known| known.name() != plugin);
            profile.filter.retain(|known| known.name() != plugin);
            profile.post_filter.retain(|known| known.name() != plugin);
            profile.pre_score.retain(|known| known.name() != plugin);
            profile.score.retain(|(known, _)| known.name() != plugin);
        }
        Change::Node(node) => {
            if snapshot.get(node).is_none() {
                return Err(WhatIfError::NoNode(node.clone()));
            }
            profile.pre_filter.insert(0, Arc::new(OnlyNode(node.clone())));
        }
    }
    Ok(())
}

fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// A PreFilter plugin that allows one node.
struct OnlyNode(String);

impl Plugin for OnlyNode {
    fn name(&self) -> &'static str {
        "WhatIf"
    }
}

impl PreFilter for OnlyNode {
    fn pre_filter(&self, _: &mut CycleState, _: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        Ok(PreFilterResult::Nodes([self.0.clone()].into()))
    }
}
