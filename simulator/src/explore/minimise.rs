//! Shrinks a scenario that breaks a promise: leaves out faults and steps, or actions of the user, as long as the same promise is
//! broken.

use crate::explore::fault_scenario::FaultScenario;
use crate::explore::step::Step;
use crate::plan::fault::{Drawn, Fault};
use exploration::shrink::shrink;
use std::cell::Cell;
use std::ops::ControlFlow;

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

/// Takes the place of a scenario and the promise that it breaks, and says whether more are to be played.
pub type Seen<'s, E> = dyn FnMut(usize, Option<String>) -> Result<ControlFlow<()>, E> + 's;

/// Plays scenarios.
pub trait Play {
    type Error;

    /// Plays some, several at the same time perhaps, and passes on what came of them in their order, until `seen` breaks.
    fn play(&self, scenarios: &[FaultScenario], seen: &mut Seen<'_, Self::Error>) -> Result<(), Self::Error>;
}

/// Shrinks a scenario.
///
/// A story without some of its steps may break the promise by itself: nothing is paid where nothing is ordered. So a part of the
/// steps or actions counts only if it keeps every promise without the faults.
pub fn minimise<P: Play>(scenario: &FaultScenario, play: &P) -> Result<Minimised, Error<P::Error>> {
    if scenario.faults.is_none() {
        return Err(Error::Unnamed);
    }
    let mut search = Search { play, broken: String::new(), runs: Cell::new(0) };
    search.broken = search.promise(scenario)?.ok_or(Error::Kept)?;
    if let Some(promise) = search.promise(&without_faults(scenario))? {
        return Err(Error::Undisturbed(promise));
    }
    let mut least = FaultScenario { promise: Some(search.broken.clone()), ..scenario.clone() };
    loop {
        let before = least.clone();
        let with_faults = |part: &Vec<Fault>| FaultScenario { faults: Some(part.clone()), ..before.clone() };
        let faults = before.faults.clone().unwrap_or_default();
        let faults = shrink(&faults, |parts| search.first_failing(parts.iter().map(with_faults).collect(), false))?;
        least.faults = Some(faults);
        if let Some(actions) = &before.actions {
            let part_of = least.clone();
            let with_actions = |part: &Vec<Drawn>| FaultScenario { actions: Some(part.clone()), ..part_of.clone() };
            let actions =
                shrink(actions, |parts| search.first_failing(parts.iter().map(with_actions).collect(), true))?;
            least.actions = Some(actions);
        } else if !least.has_drawn_faults() {
            let told = least.told();
            let with_steps = |part: &Vec<Step>| FaultScenario { steps: part.clone(), ..told.clone() };
            let steps = shrink(&told.steps, |parts| match parts {
                [part] if part.is_empty() => Ok(None),
                parts => search.first_failing(parts.iter().map(with_steps).collect(), true),
            })?;
            if steps.len() < told.steps.len() {
                least = with_steps(&steps);
            }
        }
        if least == before {
            return Ok(Minimised { scenario: least, runs: search.runs.get() });
        }
    }
}

/// Looks for scenarios that break one promise.
struct Search<'p, P> {
    play: &'p P,
    broken: String,
    runs: Cell<usize>,
}

impl<P: Play> Search<'_, P> {
    /// Returns the promise that a scenario breaks.
    fn promise(&self, scenario: &FaultScenario) -> Result<Option<String>, P::Error> {
        let mut broken = None;
        self.play.play(std::slice::from_ref(scenario), &mut |_, promise| {
            self.runs.set(self.runs.get() + 1);
            broken = promise;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(broken)
    }

    /// Returns the place of the first scenario that breaks the promise. With `by_faults`, it has to keep every promise without
    /// its faults.
    fn first_failing(&self, scenarios: Vec<FaultScenario>, by_faults: bool) -> Result<Option<usize>, P::Error> {
        let mut first = None;
        self.play.play(&scenarios, &mut |place, promise| {
            self.runs.set(self.runs.get() + 1);
            let is_broken = promise.as_ref() == Some(&self.broken);
            if is_broken && (!by_faults || self.promise(&without_faults(&scenarios[place]))?.is_none()) {
                first = Some(place);
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(first)
    }
}

/// Returns the scenario without its faults; also without those that its seed draws.
fn without_faults(scenario: &FaultScenario) -> FaultScenario {
    FaultScenario { faults: Some(Vec::new()), ..scenario.clone() }
}
