//! Compares policies, paired by seed: under one seed both have met the same pods and the same failures, so the difference
//! within a pair is due to the policy.

pub mod bootstrap;
pub mod wilcoxon;
mod sentence;

pub use sentence::{LEVEL, sentence};

use crate::draw::Draw;
use crate::manifest::Manifest;
use crate::metrics::Values;
use crate::statistics::{deviation, mean};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a finished cell says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// `CLUSTER/WORKLOAD/FAULTS`.
    pub setting: String,
    pub policy: String,
    pub seed: u64,
    /// Hash of everything but the policy that decides the result: nodes, pods, faults, times.
    pub inputs: String,
    /// Hash of the setting as the study has it, whatever a seed draws of it.
    pub definition: String,
    /// Hash of the policy's configuration.
    pub configuration: String,
    /// Version of the program.
    pub version: String,
    /// Whether the run would give the same bytes again.
    pub is_repeatable: bool,
    pub values: Values,
}

impl Run {
    /// Makes a run of what a finished cell has written.
    pub fn new(manifest: Manifest, values: Values) -> Self {
        Self {
            setting: manifest.setting,
            policy: manifest.policy,
            seed: manifest.seed,
            inputs: manifest.inputs,
            definition: manifest.definition,
            configuration: manifest.configuration,
            version: manifest.version,
            is_repeatable: manifest.repeatable,
            values,
        }
    }
}

/// A metric of two policies in one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub setting: String,
    pub metric: String,
    pub policy: String,
    pub baseline: String,
    pub seeds: usize,
    pub mean: f64,
    pub baseline_mean: f64,
    /// Mean of the differences, and its 95 % bootstrap interval.
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    /// Cohen's d of paired differences: their mean divided by their standard deviation. 0 if they do not vary.
    pub cohens_d: f64,
    pub rank_biserial: f64,
    pub p: f64,
    /// By Holm's method, over all metrics of the comparison.
    pub p_adjusted: f64,
    /// Whether all runs of both policies would give the same bytes again.
    pub is_repeatable: bool,
}

/// What is compared with what.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    pub policy: &'q str,
    pub baseline: &'q str,
    /// All that both have if empty. The fewer there are, the less the correction for their number takes.
    pub metrics: &'q [String],
    /// Whether runs count that are not repeatable.
    pub takes_unrepeatable: bool,
}

/// Compares a policy with a baseline in the settings of `runs`, or says why the runs cannot be compared. `draws` begins one stream of
/// numbers, the same each time, so that an interval does not depend on which other metrics are compared.
pub fn compare(
    runs: &[Run],
    question: Question<'_>,
    draws: &dyn Fn() -> Box<dyn Draw>,
) -> Result<Vec<Comparison>, Vec<String>> {
    let Question { policy, baseline, metrics, .. } = question;
    let settings: BTreeSet<&str> = runs.iter().map(|run| run.setting.as_str()).collect();
    let (mut all, mut refusals) = (Vec::new(), Vec::new());
    if policy == baseline {
        refusals.push(format!("{policy} cannot be compared with itself"));
    }
    for setting in settings {
        let of = |policy: &str| -> BTreeMap<u64, &Run> {
            let wanted = runs.iter().filter(|run| run.setting == setting && run.policy == policy);
            wanted.map(|run| (run.seed, run)).collect()
        };
        let (ours, theirs) = (of(policy), of(baseline));
        let found = refusal(setting, question, &ours, &theirs);
        if found.is_empty() {
            let compared = of_setting(setting, question, &ours, &theirs, draws);
            let absent = metrics.iter().filter(|name| !compared.iter().any(|one| one.metric == **name));
            refusals.extend(absent.map(|name| format!("{setting}: not all runs have the metric {name}")));
            all.extend(compared);
        }
        refusals.extend(found);
    }
    if all.is_empty() && refusals.is_empty() {
        refusals.push("there are no runs".to_owned());
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let adjusted = holm(&all.iter().map(|one| one.p).collect::<Vec<_>>());
    for (one, p) in all.iter_mut().zip(adjusted) {
        one.p_adjusted = p;
    }
    Ok(all)
}

/// Returns why the runs of a setting cannot be compared; empty if they can.
fn refusal(
    setting: &str,
    question: Question<'_>,
    ours: &BTreeMap<u64, &Run>,
    theirs: &BTreeMap<u64, &Run>,
) -> Vec<String> {
    let Question { policy, baseline, takes_unrepeatable, .. } = question;
    let mut why = Vec::new();
    for (name, runs) in [(policy, ours), (baseline, theirs)] {
        if runs.is_empty() {
            why.push(format!("{setting}: {name} has no runs"));
        }
        if !takes_unrepeatable && runs.values().any(|run| !run.is_repeatable) {
            why.push(format!(
                "{setting}: runs of {name} are not repeatable; --not-repeatable compares them all the same"
            ));
        }
        if !are_equal(runs.values().map(|run| &run.configuration)) {
            why.push(format!("{setting}: {name} has not had the same configuration under all seeds"));
        }
        if !are_equal(runs.values().map(|run| &run.definition)) {
            why.push(format!("{setting}: not all seeds of {name} are of the same study"));
        }
    }
    if !why.is_empty() {
        return why;
    }
    for (name, has, lacks) in [(policy, theirs, ours), (baseline, ours, theirs)] {
        let missing: Vec<String> =
            has.keys().filter(|seed| !lacks.contains_key(seed)).map(ToString::to_string).collect();
        if !missing.is_empty() {
            why.push(format!("{setting}: {name} has no runs with the seeds {}", missing.join(", ")));
        }
    }
    for (seed, run) in ours {
        let Some(other) = theirs.get(seed) else { continue };
        if run.inputs != other.inputs {
            why.push(format!("{setting}: seed {seed}: the policies have met other nodes, pods or faults"));
        }
        if run.version != other.version {
            why.push(format!("{setting}: seed {seed}: versions {} and {} differ", run.version, other.version));
        }
    }
    why
}

fn are_equal<'a>(mut hashes: impl Iterator<Item = &'a String>) -> bool {
    let first = hashes.next();
    hashes.all(|hash| Some(hash) == first)
}

/// Compares each of the wanted metrics that all runs have.
fn of_setting(
    setting: &str,
    question: Question<'_>,
    ours: &BTreeMap<u64, &Run>,
    theirs: &BTreeMap<u64, &Run>,
    draws: &dyn Fn() -> Box<dyn Draw>,
) -> Vec<Comparison> {
    let Question { policy, baseline, metrics: wanted, .. } = question;
    let is_repeatable = ours.values().chain(theirs.values()).all(|run| run.is_repeatable);
    let mut metrics: BTreeSet<&String> = ours.values().flat_map(|run| run.values.keys()).collect();
    metrics.retain(|name| wanted.is_empty() || wanted.contains(*name));
    metrics.retain(|name| ours.values().chain(theirs.values()).all(|run| run.values.contains_key(*name)));
    let mut comparisons = Vec::new();
    for metric in metrics {
        let values = |runs: &BTreeMap<u64, &Run>| runs.values().map(|run| run.values[metric]).collect::<Vec<f64>>();
        let (ours, theirs) = (values(ours), values(theirs));
        let differences: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs).collect();
        let (low, high) = bootstrap::interval(&differences, &mut *draws());
        let test = wilcoxon::test(&differences);
        let spread = deviation(&differences);
        comparisons.push(Comparison {
            setting: setting.to_owned(),
            metric: metric.clone(),
            policy: policy.to_owned(),
            baseline: baseline.to_owned(),
            seeds: differences.len(),
            mean: mean(&ours),
            baseline_mean: mean(&theirs),
            difference: mean(&differences),
            low,
            high,
            cohens_d: if spread > 0.0 { mean(&differences) / spread } else { 0.0 },
            rank_biserial: test.effect,
            p: test.p,
            p_adjusted: test.p,
            is_repeatable,
        });
    }
    comparisons
}

/// Corrects probabilities for their number, by Holm's method: the smallest is multiplied by n, the next by n − 1, and so on,
/// and none gets smaller than one before it.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|one, other| probabilities[*one].total_cmp(&probabilities[*other]).then(one.cmp(other)));
    let (mut adjusted, mut largest) = (vec![0.0; probabilities.len()], 0.0_f64);
    for (rank, index) in order.into_iter().enumerate() {
        let factor = (probabilities.len() - rank) as f64;
        largest = largest.max((probabilities[index] * factor).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::seeded;

    fn run(policy: &str, seed: u64, gpu: f64, jct: f64) -> Run {
        Run {
            setting: "c/w/none".to_owned(),
            policy: policy.to_owned(),
            seed,
            inputs: format!("{seed}"),
            definition: "d".to_owned(),
            configuration: policy.to_owned(),
            version: "1".to_owned(),
            is_repeatable: true,
            values: Values::from([("allocation.gpu".to_owned(), gpu), ("jct.mean".to_owned(), jct)]),
        }
    }

    /// FGD allocates between 3 and 5 points more; completion times differ in both directions.
    fn ten() -> Vec<Run> {
        (1..=10)
            .flat_map(|seed| {
                let noise = seed as f64 / 100.0;
                let sign = if seed % 2 == 0 { 1.0 } else { -1.0 };
                [
                    run("default", seed, 0.5 + noise, 100.0),
                    run("fgd", seed, 0.53 + noise * 1.2, 100.0 + sign * seed as f64),
                ]
            })
            .collect()
    }

    fn draws() -> Box<dyn Draw> {
        Box::new(seeded(1))
    }

    fn asked<'q>(policy: &'q str, metrics: &'q [String]) -> Question<'q> {
        Question { policy, baseline: "default", metrics, takes_unrepeatable: false }
    }

    fn lines(runs: &[Run], policy: &str) -> Vec<String> {
        match compare(runs, asked(policy, &[]), &draws) {
            Ok(found) => found.iter().map(sentence).collect(),
            Err(why) => why,
        }
    }

    #[test]
    fn one_line_says_it() {
        assert_eq!(
            lines(&ten(), "fgd"),
            [
                "fgd allocates 4.1 ± 0.36 points more gpu than default over 10 seeds, p < 0.01",
                "fgd and default show no difference in jct.mean (0.5 ± 3.8 s) over 10 seeds, p = 0.85",
            ]
        );
    }

    #[test]
    fn only_the_wanted_metrics_count_for_the_correction() {
        let of = |metric: &str| compare(&ten(), asked("fgd", &[metric.to_owned()]), &draws);
        let alone = of("allocation.gpu").unwrap();
        assert_eq!((alone.len(), alone[0].p), (1, alone[0].p_adjusted));
        let beside = of("jct.mean").unwrap();
        let all = compare(&ten(), asked("fgd", &[]), &draws).unwrap();
        let intervals = |found: &[Comparison]| found.iter().map(|one| (one.low, one.high)).collect::<Vec<_>>();
        assert_eq!(intervals(&all), intervals(&[alone, beside].concat()), "the intervals stay the same");
        assert_eq!(of("luck"), Err(vec!["c/w/none: not all runs have the metric luck".to_owned()]));
    }

    #[test]
    fn few_seeds_show_nothing() {
        let few: Vec<Run> = ten().into_iter().filter(|run| run.seed <= 4).collect();
        assert!(
            lines(&few, "fgd")[0].ends_with("over 4 seeds, p = 0.25; 4 seeds cannot show one"),
            "{:?}",
            lines(&few, "fgd")
        );
    }

    #[test]
    fn runs_that_are_not_comparable_are_refused() {
        let mut runs = ten();
        runs.retain(|run| run.policy != "fgd" || run.seed != 3);
        runs[0].inputs = "other".to_owned();
        runs[2].version = "2".to_owned();
        assert_eq!(
            lines(&runs, "fgd"),
            [
                "c/w/none: fgd has no runs with the seeds 3",
                "c/w/none: seed 1: the policies have met other nodes, pods or faults",
                "c/w/none: seed 2: versions 1 and 2 differ",
            ]
        );
        assert_eq!(lines(&ten(), "best"), ["c/w/none: best has no runs"]);
        let mut runs = ten();
        runs[5].configuration = "with other arguments".to_owned();
        runs[6].definition = "with more pods".to_owned();
        assert_eq!(
            lines(&runs, "fgd"),
            [
                "c/w/none: fgd has not had the same configuration under all seeds",
                "c/w/none: not all seeds of default are of the same study",
            ]
        );
        assert_eq!(lines(&[], "fgd"), ["there are no runs"]);
    }

    /// The pods and failures are the same, so pairs still say something, but each sentence has the mark.
    #[test]
    fn runs_that_are_not_repeatable_count_on_demand() {
        let mut runs = ten();
        runs.iter_mut().filter(|run| run.policy == "fgd").for_each(|run| run.is_repeatable = false);
        assert_eq!(
            lines(&runs, "fgd"),
            ["c/w/none: runs of fgd are not repeatable; --not-repeatable compares them all the same"]
        );
        let question = Question { takes_unrepeatable: true, ..asked("fgd", &[]) };
        let found = compare(&runs, question, &draws).unwrap();
        assert_eq!(
            sentence(&found[0]),
            "fgd allocates 4.1 ± 0.36 points more gpu than default over 10 seeds, p < 0.01; not repeatable"
        );
    }

    #[test]
    fn holm_worked_by_hand() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
