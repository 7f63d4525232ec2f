//! What there is to try: the points of an undisturbed run; and the processes that try it.

use exploration::campaign::Trial;
use exploration::cpu_limit;
use exploration::pool::{self, Ended, Order};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use simulator::explore::fault_scenario::FaultScenario;
use simulator::plan::point::Point;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

/// File of the baseline, below the folder of a campaign.
const BASELINE: &str = "baseline.json";

/// An undisturbed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Hash of the program. Another one may have other results, even where its undisturbed run is the same.
    #[serde(default)]
    pub program: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    #[serde(default)]
    pub points: Vec<Point>,
}

impl Baseline {
    /// Plays a scenario without faults.
    pub fn of(players: &Players, scenario: &FaultScenario) -> Result<Self, Vec<String>> {
        let program = &players.program;
        let ended =
            pool::run_one(program, &players.order(scenario, None, true)).map_err(|error| vec![error.to_string()])?;
        Ok(Self { program: hash(program)?, ..players.baseline(&ended)? })
    }

    /// Makes the baseline of runs whose faults the seed draws. It has no points.
    pub fn of_program(program: &Path) -> Result<Self, Vec<String>> {
        Ok(Self { program: hash(program)?, promise: None, points: Vec::new() })
    }

    /// Plays several stories.
    pub fn of_all<'s>(players: &Players, stories: &[&'s str], seed: u64) -> Result<Vec<(&'s str, Self)>, Vec<String>> {
        let orders =
            stories.iter().map(|story| (*story, players.order(&FaultScenario::of_story(story, seed), None, true)));
        let mut found = Vec::new();
        let result: io::Result<()> = pool::run(&players.program, players.jobs, orders, |story, ended| {
            found.push((story, players.baseline(&ended)));
            Ok(())
        });
        result.map_err(|error| vec![error.to_string()])?;
        found.into_iter().map(|(story, baseline)| Ok((story, baseline?))).collect()
    }

    /// Keeps the baseline beside the results, or refuses results of another one.
    pub fn keep_in(&self, folder: &Path) -> Result<(), Vec<String>> {
        let path = folder.join(BASELINE);
        let failed = |error: io::Error| vec![format!("{}: {error}", path.display())];
        match fs::read_to_string(&path) {
            Ok(text) if serde_json::from_str::<Self>(&text).is_ok_and(|before| before.program == self.program) => {
                Ok(())
            }
            Ok(_) => {
                let why = "has the results of another program; name another folder by --out";
                Err(vec![format!("{} {why}", folder.display())])
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(folder).map_err(failed)?;
                fs::write(&path, json!(self).to_string()).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the points for which `is_wanted` holds.
    pub fn choose(&self, is_wanted: impl Fn(&Point) -> bool) -> Vec<Point> {
        self.points.iter().filter(|point| is_wanted(point)).cloned().collect()
    }
}

/// The processes that play scenarios.
#[derive(Clone, Debug)]
pub struct Players {
    pub program: PathBuf,
    /// How many play at the same time.
    pub jobs: usize,
    /// Most CPU time of each.
    pub cpu_s: u64,
}

impl Players {
    /// Returns players that are processes of this program. Without a number there is one for each core.
    pub fn new(jobs: Option<u16>, cpu_s: u64) -> Result<Self, Vec<String>> {
        let program = std::env::current_exe().map_err(|error| vec![error.to_string()])?;
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { program, jobs: jobs.map_or_else(cores, usize::from), cpu_s })
    }

    /// Makes the order for a process that plays a scenario.
    pub fn order(&self, scenario: &FaultScenario, folder: Option<&Path>, has_points: bool) -> Order {
        let mut arguments = ["sim", "play", "--cpu-seconds"].map(str::to_owned).to_vec();
        arguments.push(self.cpu_s.to_string());
        if let Some(folder) = folder {
            arguments.extend(["--out".to_owned(), folder.display().to_string()]);
        }
        if has_points {
            arguments.push("--points".to_owned());
        }
        Order { arguments, input: json!(scenario).to_string() }
    }

    /// Reads what a process says of a run without faults.
    fn baseline(&self, ended: &Ended) -> Result<Baseline, Vec<String>> {
        if ended.is_out_of_cpu {
            return Err(vec![format!("the story {} without a fault", cpu_limit::words(self.cpu_s))]);
        }
        let baseline: Baseline = ended.printed().map_err(|why| vec![why])?;
        match baseline.promise {
            Some(promise) => Err(vec![format!("the story breaks a promise without a fault: {promise}")]),
            None => Ok(baseline),
        }
    }

    /// Makes the trial of a fault at a point.
    pub fn trial(&self, scenario: &FaultScenario, point: &Point, folder: &Path) -> Trial {
        let scenario = FaultScenario { faults: Some(vec![point.fault()]), ..scenario.clone() };
        let name = point.to_string();
        let about = match json!(point) {
            Value::Object(about) => about,
            _ => Map::new(),
        };
        Trial { order: self.order(&scenario, Some(&folder.join(&name)), false), name, about }
    }

    /// Makes the trial of a story whose faults the seed draws.
    pub fn seed_trial(&self, story: &str, seed: u64, folder: &Path) -> Trial {
        let name = format!("seed-{seed}");
        let about = Map::from_iter([("kind".to_owned(), json!("drawn")), ("seed".to_owned(), json!(seed))]);
        let scenario = FaultScenario::of_story(story, seed);
        Trial { order: self.order(&scenario, Some(&folder.join(&name)), false), name, about }
    }
}

fn hash(program: &Path) -> Result<String, Vec<String>> {
    let bytes = fs::read(program).map_err(|error| vec![format!("{}: {error}", program.display())])?;
    Ok(format!("{:x}", Sha256::digest(&bytes)))
}

/// Chooses points by their place from 1, or at most `budget` points, evenly spread.
pub fn selected(points: Vec<Point>, budget: Option<usize>, places: Option<&[u64]>) -> Vec<Point> {
    let all = points.len();
    let is_chosen = |index: usize| match (places, budget) {
        (Some(places), _) => places.contains(&(index as u64 + 1)),
        (None, Some(budget)) if budget < all => (index + 1) * budget / all > index * budget / all,
        (None, _) => true,
    };
    points.into_iter().enumerate().filter(|(index, _)| is_chosen(*index)).map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: u32) -> Vec<Point> {
        let point = |number: u32| {
            let text = json!({"kind": "freeze", "component": "scheduler", "number": number, "name": "pods", "occurrence": number});
            serde_json::from_value(text).unwrap()
        };
        (1..=count).map(point).collect()
    }

    fn numbers(budget: Option<usize>, places: Option<&[u64]>) -> Vec<u32> {
        selected(points(10), budget, places).iter().map(|point| point.number).collect()
    }

    #[test]
    fn a_budget_is_spread_evenly() {
        assert_eq!(numbers(Some(3), None), [4, 7, 10]);
        assert_eq!(numbers(Some(10), None).len(), 10);
        assert_eq!(numbers(Some(99), None).len(), 10);
        assert_eq!(numbers(None, None).len(), 10);
        assert_eq!(numbers(None, Some(&[2, 3, 11])), [2, 3]);
    }

    #[test]
    fn results_of_another_baseline_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let baseline = Baseline { program: "a".to_owned(), promise: None, points: points(2) };
        baseline.keep_in(folder.path()).unwrap();
        baseline.keep_in(folder.path()).unwrap();
        let error = Baseline { program: "b".to_owned(), ..baseline }.keep_in(folder.path()).unwrap_err();
        assert!(error[0].ends_with("has the results of another program; name another folder by --out"));
    }

    #[test]
    fn a_trial_has_the_fields_of_its_point() {
        let point = &points(3)[2];
        let players = Players { program: PathBuf::new(), jobs: 1, cpu_s: 60 };
        let trial = players.trial(&FaultScenario::of_story("job", 4), point, Path::new("out"));
        assert_eq!((trial.name.as_str(), &trial.about["component"]), ("freeze-3", &json!("scheduler")));
        assert_eq!(trial.order.arguments, ["sim", "play", "--cpu-seconds", "60", "--out", "out/freeze-3"]);
        let scenario = FaultScenario::read(&trial.order.input).unwrap();
        assert_eq!((scenario.seed, scenario.faults), (4, Some(vec![point.fault()])));
    }
}
