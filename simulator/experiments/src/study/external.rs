//! A scheduler outside the simulation, as a policy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the scheduler of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// Most virtual seconds in a real second. With more, the cluster would go on by seconds between two looks at the clock.
pub const MAX_SPEED: f64 = 1000.0;

/// A scheduler of any make, a process of its own in real time. Its runs are not repeatable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct External {
    /// Program and arguments; a path is relative to the study. KUBECONFIG is in its environment. Without a command the run waits
    /// for a scheduler that you start.
    #[serde(default)]
    pub command: Vec<String>,
    /// `schedulerName` of the pods whose `spec` names none; `default-scheduler` by default.
    #[serde(default)]
    pub scheduler_name: Option<String>,
    /// Most virtual seconds that pass in a real second; 1 by default.
    #[serde(default)]
    pub speed: Option<f64>,
}

impl External {
    pub fn scheduler_name(&self) -> &str {
        self.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER)
    }

    pub fn speed(&self) -> f64 {
        self.speed.unwrap_or(1.0)
    }
}
