//! Compares one random history, and makes one on which the decisions differ as short as it can.

use crate::both::Both;
use crate::history::{Change, history};
use crate::world::{World, world};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::Cell;
use std::fmt;

/// Attempts to leave something out of a history.
const MAX_SHRINKS: u32 = 20_000;

/// A history on which scheduler and reference differ. Nothing can be left out of it.
#[derive(Debug)]
pub struct Difference {
    seed: u64,
    what: String,
    world: World,
    history: Vec<Change>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, what, world, history } = self;
        writeln!(f, "seed {seed}: {}", what.lines().next().unwrap_or_default())?;
        what.lines().skip(1).try_for_each(|line| writeln!(f, "  {line}"))?;
        writeln!(f, "the least history that shows it:")?;
        history.iter().try_for_each(|change| writeln!(f, "  {change}"))?;
        writeln!(f, "in a cluster with:")?;
        world.objects().try_for_each(|(kind, object)| writeln!(f, "  {kind} {object}"))
    }
}

/// Runs one history. Returns the number of decisions.
pub fn of(world: &World, history: &[Change]) -> Result<usize, String> {
    let mut both = Both::new(world);
    history.iter().try_for_each(|change| both.apply(change))?;
    both.check_rebuild()?;
    Ok(both.decisions())
}

/// Draws the history of a seed and runs it.
pub fn of_seed(seed: u64) -> Result<usize, Box<Difference>> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: MAX_SHRINKS, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let decisions = Cell::new(0);
    let result = runner.run(&(world(), history()), |(world, history)| {
        let count = of(&world, &history).map_err(TestCaseError::fail)?;
        decisions.set(count);
        Ok(())
    });
    match result {
        Ok(()) => Ok(decisions.get()),
        Err(TestError::Fail(what, (world, history))) => {
            let what = what.message().to_owned();
            Err(Box::new(Difference { seed, what, world, history }))
        }
        Err(TestError::Abort(why)) => unreachable!("no history is refused: {why}"),
    }
}
