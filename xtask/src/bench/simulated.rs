//! Virtual time: how much faster than the clock the simulated cluster lives through an hour of nothing.

use super::measurement::Measurement;
use super::process::{self, Usage};
use super::{Bench, Error};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the scenario is called, and how long its cluster is at rest; the rollout before that is not counted.
const SCENARIO: &str = "quiet-hour";
const HOUR: Duration = Duration::from_secs(3600);
const SEED: &str = "1";

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let program = bench.simulation()?;
    let before = Usage::from([("simulation".to_owned(), process::used_by_children()?)]);
    let began = bench.env.now();
    let status = Command::new(&program)
        .args([SCENARIO, SEED])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| Error::Io(program.display().to_string(), error))?;
    let took = bench.env.now().duration_since(began);
    if !status.success() {
        return Err(Error::Failed(format!("{SCENARIO} under seed {SEED}: {status}")));
    }
    let after = Usage::from([("simulation".to_owned(), process::used_by_children()?)]);
    let what = "an hour of a quiet cluster of 3 nodes in virtual time, per virtual second".to_owned();
    Ok(vec![Measurement::new("simulated", what, "memory", HOUR.as_secs(), took, (&before, &after))])
}
