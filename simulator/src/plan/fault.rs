//! `Fault`: one planned fault of a scenario, with the moment at which it happens.
//!
//! A moment is named by what a component does, and not by a time or by a number over all components: the third time that
//! the scheduler requests `create pods/binding`. So it stays the same when other faults are left out. Sieve triggers its
//! actions in the same way.

use crate::part::Part;
use experiments::study::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Time for which a component is down that was killed at a write.
pub const CRASHED_FOR: Duration = Duration::from_secs(1);
/// Time for which a watch is frozen, unless the fault says another one.
pub const FROZEN_FOR: Duration = Duration::from_secs(30);
/// Time that a component has for what came first, before a swapped delivery follows. It covers a few requests.
pub const SWAP_GAP: Duration = Duration::from_millis(100);
/// Longest time for which a delivery waits for the one that is to come before it.
pub const SWAP_LIMIT: Duration = Duration::from_secs(5);

/// A planned fault. Exactly one of its fields is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze: Option<Freeze>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<Drawn>,
}

/// Whether the write reaches the store before its component is killed. The component never gets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Moment {
    Before,
    After,
}

/// Kills a component at one of its writes. It starts again after a second, and finds an intermediate state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Crash {
    pub component: Part,
    pub moment: Moment,
    /// Verb and resource of the write, such as `update replicasets/status`.
    pub write: String,
    /// Which of the component's writes of this kind it is, counted from 1.
    pub occurrence: u32,
}

/// Holds back a delivery of a watch and all later ones. The component acts on stale state, and never observes the states
/// that are overtaken meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Freeze {
    pub component: Part,
    /// The watched resource, such as `pods`, with its selectors if it has some.
    pub watch: String,
    /// Which of the deliveries of this watch it is, counted from 1.
    pub occurrence: u32,
    /// Time until the watch goes on; 30 s if it is not given.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub how_long: Option<Span>,
}

/// Holds back a delivery until the component has got the next one of another watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Swap {
    pub component: Part,
    pub watch: String,
    pub occurrence: u32,
}

/// A fault or an action of the user that the seed draws, by its number from 1. Only the number counts; the rest says to a reader
/// what it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Drawn {
    pub number: u32,
    /// Time since the beginning of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

impl Fault {
    /// Returns how many of the fields are set, of which there must be one.
    pub fn set(&self) -> usize {
        [self.crash.is_some(), self.freeze.is_some(), self.swap.is_some(), self.drawn.is_some()]
            .into_iter()
            .filter(|is_set| *is_set)
            .count()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Before { "before" } else { "after" })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Crash { component, moment, write, occurrence }) = &self.crash {
            write!(f, "{component} crashes {moment} its {write} number {occurrence}")
        } else if let Some(Freeze { component, watch, occurrence, how_long }) = &self.freeze {
            let how_long = how_long.as_ref().map_or(FROZEN_FOR, |span| span.duration);
            write!(f, "the watch of {component} on {watch} freezes at its delivery {occurrence}, for {how_long:?}")
        } else if let Some(Swap { component, watch, occurrence }) = &self.swap {
            write!(f, "delivery {occurrence} of the watch of {component} on {watch} comes after the next one")
        } else if let Some(Drawn { number, what, .. }) = &self.drawn {
            write!(f, "drawn fault {number}: {}", what.as_deref().unwrap_or("as the seed says"))
        } else {
            f.write_str("no fault")
        }
    }
}
