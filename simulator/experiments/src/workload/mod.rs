//! Pods and when they arrive: from traces, from the pods of a cluster, or drawn from distributions.

mod pod;
pub mod priority;
mod openb;
mod csv_map;
mod kubectl;
mod distribution;
mod generator;
mod load_file;
mod deployment;
#[cfg(test)]
mod tests;

pub use deployment::{DEPLOYMENT, Deployment, deployments, sample_pods};
pub(crate) use kubectl::{Stripped, anew, finished, keep_duration};
pub use pod::{GANG, USER};

use crate::amounts::Amounts;
use crate::draw::Draw;
use crate::files::Files;
use crate::problem::Problem;
use crate::study::Workload;
use crate::units::micros;
use proto::kinds::api::core::v1::Pod;
use std::time::Duration;

/// Most pods of a workload.
pub const MAX_PODS: usize = 2_000_000;
/// Longest run, so that a workload that never ends does end: a year.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Most pods that are named because of the same mistake.
const MOST_NAMED: usize = 20;

/// A pod that a user creates at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Time since the beginning of the run.
    pub at: Duration,
    pub pod: Pod,
    /// Time that the pod runs once started; `None` runs until the end.
    pub duration: Option<Duration>,
    pub facts: PodFacts,
}

/// What metrics need to know about a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    pub requests: Amounts,
    /// Number of its GPUs, and thousandths of each.
    pub gpu_count: u32,
    pub gpu_milli: u32,
    /// Models of GPUs that will do; all if empty.
    pub gpu_models: Vec<String>,
    pub user: String,
    pub gang: Option<String>,
    pub priority: i32,
}

/// Returns the arrivals of a workload in the order of time, or every mistake. `place` is the workload's path in the study.
pub fn arrivals(
    workload: &Workload,
    files: &dyn Files,
    draw: &mut dyn Draw,
    place: &str,
) -> Result<Vec<Arrival>, Vec<Problem>> {
    let mut arrivals = if let Some(generate) = &workload.generate {
        generator::arrivals(generate, draw, &format!("{place}.generate"))?
    } else if let Some(file) = &workload.openb_pods {
        openb::arrivals(file, files, &format!("{place}.openbPods"))?
    } else if let Some(csv) = &workload.csv {
        csv_map::arrivals(csv, files, &format!("{place}.csv"))?
    } else if let Some(file) = &workload.kubectl_pods {
        kubectl::arrivals(file, files, &format!("{place}.kubectlPods"))?
    } else {
        Vec::new()
    };
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals = scaled(arrivals, workload);
    check(&arrivals, place)?;
    if workload.pod_groups {
        arrivals.iter_mut().for_each(pod::join_group);
    }
    if arrivals.is_empty() && workload.deployments.is_empty() {
        return Err(vec![Problem::new(place, "has no pods")]);
    }
    if arrivals.len() > MAX_PODS {
        let message = format!("has {} pods; at most {MAX_PODS} are possible", arrivals.len());
        return Err(vec![Problem::new(place, message)]);
    }
    Ok(arrivals)
}

/// Returns pods that stand for all of a workload, with their places in the study: one of each kind of a generator, of a Deployment, and all
/// of a file.
pub fn samples(workload: &Workload, files: &dyn Files, draw: &mut dyn Draw, place: &str) -> Vec<(String, Arrival)> {
    let mut found = match &workload.generate {
        Some(generate) => generator::samples(generate, &format!("{place}.generate")),
        None => {
            let arrivals = arrivals(workload, files, draw, place).unwrap_or_default();
            let field = [
                ("openbPods", workload.openb_pods.is_some()),
                ("csv", workload.csv.is_some()),
                ("kubectlPods", workload.kubectl_pods.is_some()),
            ];
            let field = field.iter().find(|(_, is_set)| *is_set).map_or("", |(name, _)| *name);
            arrivals.into_iter().map(|arrival| (format!("{place}.{field}"), arrival)).collect()
        }
    };
    if workload.pod_groups {
        found.iter_mut().for_each(|(_, arrival)| pod::join_group(arrival));
    }
    let deployments = sample_pods(workload).into_iter().enumerate();
    found.extend(deployments.map(|(index, arrival)| (format!("{place}.deployments[{index}]"), arrival)));
    found
}

/// Says which pods no run can have. Of pods that come too late, one says it for all.
fn check(arrivals: &[Arrival], place: &str) -> Result<(), Vec<Problem>> {
    let name = |arrival: &Arrival| arrival.pod.metadata.name.clone().unwrap_or_default();
    let wrong = arrivals.iter().filter_map(|arrival| {
        let why = priority::check(arrival.facts.priority).err()?;
        Some(Problem::new(place, format!("pod {}: priority {}: {why}", name(arrival), arrival.facts.priority)))
    });
    let mut problems: Vec<Problem> = wrong.take(MOST_NAMED).collect();
    if let Some(late) = arrivals.iter().find(|arrival| arrival.at > LONGEST) {
        let (after, days) = (late.at.as_secs() / 86_400, LONGEST.as_secs() / 86_400);
        let message = format!(
            "pod {} arrives {after} days after the beginning, and a run ends after {days} days; `from` moves the beginning, and \
             times that are dates need `timeUnit: timestamp`",
            name(late)
        );
        problems.push(Problem::new(place, message));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Cuts the arrivals to those that the workload wants, then scales times.
fn scaled(arrivals: Vec<Arrival>, workload: &Workload) -> Vec<Arrival> {
    let from = workload.from.as_ref().map_or(Duration::ZERO, |span| span.duration);
    let until = workload.until.as_ref().map_or(Duration::MAX, |span| span.duration);
    let faster = workload.arrival_scale.unwrap_or(1.0);
    let longer = workload.duration_scale.unwrap_or(1.0);
    let wanted = arrivals.into_iter().filter(|arrival| arrival.at >= from && arrival.at < until);
    let scale = |span: Duration, factor: f64| match factor {
        1.0 => span,
        factor => micros(span.as_micros() as f64 * factor),
    };
    let scaled = wanted.take(workload.limit.unwrap_or(usize::MAX)).map(|arrival| {
        let duration = arrival.duration.map(|duration| scale(duration, longer));
        pod::with_duration(Arrival { at: scale(arrival.at - from, 1.0 / faster), duration, ..arrival })
    });
    scaled.collect()
}
