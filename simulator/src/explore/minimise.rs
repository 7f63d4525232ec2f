//! Shrinks a scenario that breaks a promise: leaves out faults and steps, or actions of the user, as long as the same promise is
//! broken.

use crate::explore::fault_scenario::FaultScenario;
use crate::explore::step::Step;
use crate::plan::fault::{Drawn, Fault};
use exploration::shrink::shrink;

/// The least scenario that was found.
#[derive(Debug)]
pub struct Minimised {
    pub scenario: FaultScenario,
    /// Number of runs that this took.
    pub runs: usize,
}

/// Why there is nothing to shrink.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    #[error("the scenario keeps every promise")]
    Kept,
    #[error("the scenario does not name its faults; orrery sim explore leaves one that does")]
    Unnamed,
    #[error("the scenario breaks a promise without its faults: {0}")]
    Undisturbed(String),
    #[error(transparent)]
    Run(#[from] E),
}

/// Shrinks a scenario. `play` plays one, and returns the promise that it breaks.
///
/// A story without some of its steps may break the promise by itself: nothing is paid where nothing is ordered. So a part of the
/// steps or actions counts only if it keeps every promise without the faults.
pub fn minimise<E>(
    scenario: &FaultScenario,
    mut play: impl FnMut(&FaultScenario) -> Result<Option<String>, E>,
) -> Result<Minimised, Error<E>> {
    let mut runs = 0;
    let mut promise = |scenario: &FaultScenario| {
        runs += 1;
        play(scenario)
    };
    if scenario.faults.is_none() {
        return Err(Error::Unnamed);
    }
    let broken = promise(scenario)?.ok_or(Error::Kept)?;
    if let Some(promise) = promise(&without_faults(scenario))? {
        return Err(Error::Undisturbed(promise));
    }
    let mut least = FaultScenario { promise: Some(broken.clone()), ..scenario.clone() };
    loop {
        let before = least.clone();
        let with_faults = |part: &[Fault]| FaultScenario { faults: Some(part.to_vec()), ..before.clone() };
        let faults = before.faults.clone().unwrap_or_default();
        let faults = shrink(&faults, |part| Ok::<_, E>(promise(&with_faults(part))?.as_ref() == Some(&broken)))?;
        least.faults = Some(faults);
        if let Some(actions) = &before.actions {
            let part_of = least.clone();
            let with_actions = |part: &[Drawn]| FaultScenario { actions: Some(part.to_vec()), ..part_of.clone() };
            let actions = shrink(actions, |part| {
                let part = with_actions(part);
                Ok::<_, E>(promise(&part)?.as_ref() == Some(&broken) && promise(&without_faults(&part))?.is_none())
            })?;
            least.actions = Some(actions);
        } else if !least.has_drawn_faults() {
            let told = least.told();
            let with_steps = |part: &[Step]| FaultScenario { steps: part.to_vec(), ..told.clone() };
            let steps = shrink(&told.steps, |part| {
                if part.is_empty() {
                    return Ok(false);
                }
                let part = with_steps(part);
                Ok::<_, E>(promise(&part)?.as_ref() == Some(&broken) && promise(&without_faults(&part))?.is_none())
            })?;
            if steps.len() < told.steps.len() {
                least = with_steps(&steps);
            }
        }
        if least == before {
            return Ok(Minimised { scenario: least, runs });
        }
    }
}

/// Returns the scenario without its faults; also without those that its seed draws.
fn without_faults(scenario: &FaultScenario) -> FaultScenario {
    FaultScenario { faults: Some(Vec::new()), ..scenario.clone() }
}
