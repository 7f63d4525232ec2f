//! `Stages`: all stages, and the choice among those that match an object.

use crate::stage::{Stage, Subject};
use serde_json::Value;

/// All stages, in the order in which they were read.
#[derive(Clone, Debug, Default)]
pub struct Stages(Vec<Stage>);

impl Stages {
    /// Takes stages; a later one takes the place of an earlier one with its name.
    pub fn new(stages: impl IntoIterator<Item = Stage>) -> Self {
        let mut known: Vec<Stage> = Vec::new();
        for stage in stages {
            match known.iter_mut().find(|other| other.name == stage.name) {
                Some(other) => *other = stage,
                None => known.push(stage),
            }
        }
        Self(known)
    }

    /// Returns whether any stage is for objects of this kind.
    pub fn has(&self, subject: Subject) -> bool {
        self.0.iter().any(|stage| stage.subject == subject)
    }

    /// Chooses one of the stages that match an object, by their weights. `draw` lies in `0..1`.
    ///
    /// Stages whose weight cannot be read count only if no other matches. If all weights are zero, each stage has the
    /// same chance; otherwise one with the weight zero has none.
    pub fn choose(&self, subject: Subject, object: &Value, draw: f64) -> Option<&Stage> {
        let matching: Vec<&Stage> = self.0.iter().filter(|stage| stage.matches(subject, object)).collect();
        if let [] | [_] = matching.as_slice() {
            return matching.first().copied();
        }
        let weighed: Vec<(&Stage, i64)> =
            matching.iter().filter_map(|stage| Some((*stage, stage.weight(object)?))).collect();
        let total: i128 = weighed.iter().map(|(_, weight)| i128::from(*weight)).sum();
        let alike: Vec<&Stage> = match (weighed.as_slice(), total) {
            ([], _) => matching,
            (weighed, 0) => weighed.iter().map(|(stage, _)| *stage).collect(),
            _ => {
                let mut left = total as f64 * draw.clamp(0.0, 1.0);
                let with_chance = weighed.iter().filter(|(_, weight)| *weight > 0);
                let mut last = None;
                for (stage, weight) in with_chance {
                    last = Some(*stage);
                    left -= *weight as f64;
                    if left < 0.0 {
                        break;
                    }
                }
                return last;
            }
        };
        let place = (alike.len() as f64 * draw.clamp(0.0, 1.0)) as usize;
        alike.get(place.min(alike.len() - 1)).copied()
    }
}
