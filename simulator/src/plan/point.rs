//! `Point`: one moment of a run at which a fault can be tried.

use crate::part::Part;
use crate::plan::fault::{Crash, Fault, Freeze, Moment, Swap};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kinds of faults that are tried at points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PointKind {
    Crash,
    Freeze,
    Swap,
}

/// A write or a delivery of an undisturbed run, and the fault to try at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    pub kind: PointKind,
    pub component: Part,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<Moment>,
    /// Number of the write, or of the delivery, over all components.
    pub number: u32,
    /// Verb and resource of the write, or the watch. With the occurrence it names the moment in a scenario.
    pub name: String,
    pub occurrence: u32,
    /// Revision of the delivered event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Request line of the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl Point {
    /// Returns a fault that happens at this point.
    pub fn fault(&self) -> Fault {
        let (component, name, occurrence) = (self.component, self.name.clone(), self.occurrence);
        match self.kind {
            PointKind::Crash => {
                let moment = self.moment.unwrap_or(Moment::After);
                Fault { crash: Some(Crash { component, moment, write: name, occurrence }), ..Fault::default() }
            }
            PointKind::Freeze => {
                let freeze = Freeze { component, watch: name, occurrence, how_long: None };
                Fault { freeze: Some(freeze), ..Fault::default() }
            }
            PointKind::Swap => Fault { swap: Some(Swap { component, watch: name, occurrence }), ..Fault::default() },
        }
    }
}

impl fmt::Display for PointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crash => "crash",
            Self::Freeze => "freeze",
            Self::Swap => "swap",
        })
    }
}

/// The name of a point: `crash-after-7`, `freeze-12`.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.moment {
            Some(moment) => write!(f, "{}-{moment}-{}", self.kind, self.number),
            None => write!(f, "{}-{}", self.kind, self.number),
        }
    }
}
