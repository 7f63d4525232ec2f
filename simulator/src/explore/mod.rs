//! Fault exploration: plays a scenario with faults at chosen moments, and says which promise it breaks.
//!
//! Sieve explores controllers in the same way: a crash at a write leaves an *intermediate state*, a frozen watch makes a
//! component act on *stale state* and leaves states *unobserved*. Read first: `fault_scenario`, `step`, `plan::FaultPlan`.

pub mod stories;
pub mod fault_scenario;
pub mod step;
mod player;
pub mod minimise;

use crate::drawn_list::Listener;
use crate::plan::FaultPlan;
use crate::plan::crash_point::CrashPoint;
use crate::plan::fault::{Drawn, Fault};
use crate::scenario::SCENARIOS;
use crate::{Run, Simulation, Start};
use fault_scenario::FaultScenario;
use player::Player;

/// Plays a scenario. The trace of the run has its points.
pub fn play(scenario: &FaultScenario) -> Run<()> {
    play_with(scenario, None, None)
}

/// Plays a scenario like `play`. The listener learns of each fault and action that the seed draws, when it does.
pub fn play_aloud(scenario: &FaultScenario, listener: Listener) -> Run<()> {
    play_with(scenario, None, Some(listener))
}

/// Plays a story, with a kill at one point, or without. Returns `None` if there is no such story.
pub fn play_story(story: &str, seed: u64, point: Option<CrashPoint>) -> Option<Run<()>> {
    stories::text(story)?;
    Some(play_with(&FaultScenario::of_story(story, seed), point, None))
}

fn play_with(scenario: &FaultScenario, point: Option<CrashPoint>, listener: Option<Listener>) -> Run<()> {
    let drawn = scenario.story.as_deref().and_then(|story| SCENARIOS.iter().find(|scenario| scenario.name == story));
    if let Some(drawn) = drawn {
        let faults = |faults: &[Fault]| faults.iter().filter_map(|fault| Some(fault.drawn.as_ref()?.number)).collect();
        let actions = |actions: &[Drawn]| actions.iter().map(|action| action.number).collect();
        return (drawn.run)(Start {
            seed: scenario.seed,
            kept_faults: scenario.faults.as_deref().map(faults),
            kept_actions: scenario.actions.as_deref().map(actions),
            listener,
        });
    }
    let told = scenario.told();
    let layout = told.cluster.clone().unwrap_or_default().layout();
    Simulation::run_layout(told.seed, layout, async |simulation| {
        let player = Player::new(simulation, layout.nodes);
        simulation.wire.begin(FaultPlan::new(told.faults.as_deref().unwrap_or_default(), point));
        for step in &told.steps {
            player.take(step).await;
        }
        simulation.converges().await;
        let (count, reached) = simulation.wire.plan(|plan| (plan.writes(), plan.reached().to_vec()));
        simulation.cluster.log_line(&format!("{count} crash points"));
        if let Some(point) = point.filter(|_| reached.is_empty()) {
            simulation.fail(format!("there is no crash point {point}"), Vec::new()).await;
        }
    })
}

#[cfg(test)]
mod tests;
