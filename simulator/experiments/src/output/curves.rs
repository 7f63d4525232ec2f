//! The plots of a setting: a line for each policy, with the 95 % interval over the seeds.

use crate::metrics::Sample;
use crate::output::Outcome;
use crate::output::plot::{Plot, Point, Series};
use crate::statistics::{deviation, mean};
use crate::study::Study;
use crate::units::seconds;
use std::collections::BTreeMap;

/// Name of the file, title, unit, and the value of a sample.
type Kind = (&'static str, &'static str, &'static str, fn(&Sample) -> f64);

const KINDS: [Kind; 7] = [
    ("allocated-cpu", "Allocated CPU", "%", |sample| sample.cpu * 100.0),
    ("allocated-gpus", "Allocated GPUs", "%", |sample| sample.gpu * 100.0),
    ("fragmentation", "Fragmentation of unallocated GPUs", "%", |sample| sample.fragmentation * 100.0),
    ("waiting-pods", "Pods that wait", "pods", |sample| sample.pending as f64),
    ("replicas", "Pods of Deployments that run", "pods", |sample| sample.replicas as f64),
    ("load", "CPU that the users of Deployments ask for", "cores", |sample| sample.load_cpu),
    ("power", "Power", "W", |sample| sample.power_w),
];

/// Units of the time axis with their seconds. A plot has the largest of which there are at least so many.
const TIME_UNITS: [(&str, f64); 4] = [("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0)];
const LEAST_UNITS: f64 = 3.0;

/// Returns the plots of a setting that show something, with the names of their files.
pub fn plots(study: &Study, of: &[&Outcome]) -> Vec<(&'static str, Plot)> {
    let policies = by_policy(study, of);
    let plot = |(name, title, unit, field): Kind| {
        let series = policies
            .iter()
            .map(|(policy, outcomes)| Series { name: (*policy).to_owned(), points: band(outcomes, field) });
        let mut series: Vec<Series> = series.collect();
        let time = in_suitable_unit(&mut series);
        let (x, y) = (format!("virtual time in {time}"), unit.to_owned());
        (name, Plot { title: title.to_owned(), x, y, series })
    };
    let shows = |(_, plot): &(&str, Plot)| plot.series.iter().flat_map(|one| &one.points).any(|point| point.1 > 0.0);
    KINDS.into_iter().map(plot).filter(shows).collect()
}

/// Turns the seconds of all points into a unit that suits the longest run, and returns its name.
fn in_suitable_unit(series: &mut [Series]) -> &'static str {
    let points = || series.iter().flat_map(|one| &one.points);
    let end_s = points().map(|point| point.0).fold(0.0, f64::max);
    let fits = |(_, unit_s): &&(&str, f64)| end_s >= unit_s * LEAST_UNITS;
    let (name, unit_s) = TIME_UNITS.iter().find(fits).copied().unwrap_or(("seconds", 1.0));
    series.iter_mut().flat_map(|one| &mut one.points).for_each(|point| point.0 /= unit_s);
    name
}

/// Returns the policies in the order of the study, with their outcomes.
pub fn by_policy<'o>(study: &'o Study, of: &[&'o Outcome]) -> Vec<(&'o str, Vec<&'o Outcome>)> {
    let runs = |name: &str| of.iter().filter(|outcome| outcome.policy == name).copied().collect::<Vec<_>>();
    let all = study.policies.iter().map(|policy| (policy.name.as_str(), runs(&policy.name)));
    all.filter(|(_, outcomes)| !outcomes.is_empty()).collect()
}

/// Half of the 95 % interval of a mean, by the normal distribution. Plots and tables show it; the comparison computes better.
pub fn half_interval(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 { 0.0 } else { 1.96 * deviation(numbers) / libm::sqrt(numbers.len() as f64) }
}

/// Returns the mean over the seeds at each sample time in seconds, with its interval. A run that has ended counts no more.
fn band(outcomes: &[&Outcome], field: fn(&Sample) -> f64) -> Vec<Point> {
    let mut by_time: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for outcome in outcomes {
        // The last sample is at the end of the run, a time that other seeds do not have.
        let regular = outcome.summary.samples.len().saturating_sub(1).max(1);
        for sample in outcome.summary.samples.iter().take(regular) {
            by_time.entry(sample.at_us).or_default().push(field(sample));
        }
    }
    let point = |(at_us, values): (u64, Vec<f64>)| {
        let (middle, half) = (mean(&values), half_interval(&values));
        (seconds(at_us), middle, (middle - half).max(0.0), middle + half)
    };
    by_time.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_axis_suits_the_run() {
        let last = |end_s: f64| {
            let of = |end_s| Series { points: vec![(0.0, 0.0, 0.0, 0.0), (end_s, 1.0, 1.0, 1.0)], ..Series::default() };
            let mut series = [of(1.0), of(end_s)];
            (in_suitable_unit(&mut series), series[1].points[1].0)
        };
        assert_eq!(last(0.0), ("seconds", 0.0));
        assert_eq!(last(150.0), ("seconds", 150.0));
        assert_eq!(last(300.0), ("minutes", 5.0));
        assert_eq!(last(10_800.0), ("hours", 3.0));
        assert_eq!(last(604_800.0), ("days", 7.0));
    }
}
