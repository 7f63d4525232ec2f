//! `Calculator`: the number of pods that one metric asks for.
//!
//! In general `ceil(pods × current / target)`, unless the ratio of both is within the tolerance. Pods without a value
//! count in the way that changes least: as if they used all while others use too little, and nothing while others use
//! too much.
//!
//! ```text
//!   3 pods at 60% of their request, target 50%, tolerance 0.1:   60 / 50 = 1.2  →  ceil(3 × 1.2) = 4
//!   the same, and a fourth that has just started:  (60 + 60 + 60 + 0) / 4 = 45,  45 / 50 < 1  →  no change
//! ```
//!
//! Corresponds to pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go.

use super::pods::{Groups, Readiness};
use super::requests;
use super::samples::{PodSamples, Sample};
use controller_base::pod;
use jiff::Timestamp;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

/// Fractions of the target by which a metric may differ from it without a change of size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    fn allow(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// What is known of a target beside its metrics.
#[derive(Clone, Copy, Debug)]
pub struct Calculator<'a> {
    pub pods: &'a [Arc<Pod>],
    /// The number of pods that are wanted at present.
    pub wanted: i32,
    /// The number of pods that the target's controller has counted.
    pub counted: i32,
    pub tolerances: Tolerances,
    pub readiness: Readiness,
    pub now: Timestamp,
}

/// A number of pods, and the metric's present value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sized {
    pub replicas: i32,
    /// In thousandths; for metrics of pods, the average of those that count.
    pub value: i64,
    /// Only for targets in percent of the requests.
    pub utilization: Option<i32>,
}

/// The present value of a metric, beside its target.
#[derive(Clone, Copy, Debug)]
struct Usage {
    ratio: f64,
    value: i64,
    utilization: Option<i32>,
}

/// How a pod without a value counts on a scale-down: as if it had this one.
type Fallback<'a> = &'a dyn Fn(&str) -> i64;

impl Calculator<'_> {
    /// Calculates with the usage of pods in percent of what they request.
    pub fn by_utilization(
        &self,
        samples: &PodSamples,
        resource: &str,
        container: Option<&str>,
        target: i32,
    ) -> Result<Sized, String> {
        let groups = self.groups(samples, resource == "cpu")?;
        let counting = counting(samples, &groups)?;
        let requests = requests::of_pods(self.pods, resource, container)?;
        let request = |pod: &str| requests.get(pod).copied().unwrap_or(0);
        // All of the request; or the target, if that is more.
        let fallback = |pod: &str| of_percent(request(pod), target.max(100));
        let usage = |samples: &PodSamples| {
            let known = samples.iter().filter(|(pod, _)| requests.contains_key(*pod));
            let (mut used, mut requested, mut pods) = (0_i64, 0_i64, 0_i64);
            for (pod, sample) in known {
                used = used.saturating_add(sample.milli);
                requested = requested.saturating_add(request(pod));
                pods += 1;
            }
            if requested == 0 {
                return Err("no metrics returned matched known pods".to_owned());
            }
            let percent = i128::from(used) * 100 / i128::from(requested);
            let percent = i32::try_from(percent).unwrap_or(i32::MAX);
            let ratio = f64::from(percent) / f64::from(target);
            Ok(Usage { ratio, value: used / pods, utilization: Some(percent) })
        };
        self.by_pods(counting, &groups, usage, &fallback)
    }

    /// Calculates with the average value of pods. `is_cpu` leaves out pods that start.
    pub fn by_average(&self, samples: &PodSamples, is_cpu: bool, target: i64) -> Result<Sized, String> {
        let groups = self.groups(samples, is_cpu)?;
        let counting = counting(samples, &groups)?;
        let usage = |samples: &PodSamples| {
            let sum = samples.values().fold(0_i64, |sum, sample| sum.saturating_add(sample.milli));
            let value = sum / i64::try_from(samples.len()).unwrap_or(i64::MAX);
            Ok(Usage { ratio: value as f64 / target as f64, value, utilization: None })
        };
        self.by_pods(counting, &groups, usage, &|_| target)
    }

    /// Calculates with a value that more pods make smaller, such as the length of a queue that all work on.
    pub fn by_value(&self, value: i64, target: i64) -> Result<Sized, String> {
        let ratio = value as f64 / target as f64;
        let replicas = if self.wanted == 0 {
            ceil(ratio)
        } else if self.tolerances.allow(ratio) {
            self.wanted
        } else {
            let is_ready = |pod: &&Arc<Pod>| pod::phase(pod) == "Running" && pod::is_ready(pod);
            let no_pods = |error: String| format!("unable to calculate ready pods: {error}");
            self.not_without_pods().map_err(no_pods)?;
            ceil(ratio * self.pods.iter().filter(is_ready).count() as f64)
        };
        Ok(Sized { replicas, value, utilization: None })
    }

    /// Calculates with a value of which each pod takes a share.
    pub fn by_share(&self, value: i64, target: i64) -> Sized {
        let ratio = value as f64 / (target as f64 * f64::from(self.counted));
        let replicas = if self.tolerances.allow(ratio) { self.counted } else { ceil(value as f64 / target as f64) };
        let share = if self.counted == 0 { 0 } else { (value as f64 / f64::from(self.counted)).ceil() as i64 };
        Sized { replicas, value: share, utilization: None }
    }

    fn not_without_pods(&self) -> Result<(), String> {
        let none = "no pods returned by selector while calculating replica count";
        if self.pods.is_empty() { Err(none.to_owned()) } else { Ok(()) }
    }

    fn groups(&self, samples: &PodSamples, is_cpu: bool) -> Result<Groups<'_>, String> {
        self.not_without_pods()?;
        Ok(Groups::of(self.pods, samples, is_cpu, self.readiness, self.now))
    }

    fn by_pods(
        &self,
        mut samples: PodSamples,
        groups: &Groups<'_>,
        usage: impl Fn(&PodSamples) -> Result<Usage, String>,
        fallback: Fallback<'_>,
    ) -> Result<Sized, String> {
        let Usage { ratio, value, utilization } = usage(&samples)?;
        let sized = |replicas| Ok(Sized { replicas, value, utilization });
        let lessens_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !lessens_with_unready && groups.missing.is_empty() {
            let is_enough = self.tolerances.allow(ratio);
            return sized(if is_enough { self.wanted } else { ceil(ratio * groups.ready as f64) });
        }
        let mut assume = |pod: &str, milli| {
            samples.insert(pod.to_owned(), Sample { milli, ..Sample::default() });
        };
        for pod in &groups.missing {
            if ratio < 1.0 {
                assume(pod, fallback(pod));
            } else if ratio > 1.0 {
                assume(pod, 0);
            }
        }
        if lessens_with_unready {
            groups.unready.iter().for_each(|pod| assume(pod, 0));
        }
        let careful = usage(&samples)?.ratio;
        let is_turned = (ratio < 1.0 && careful > 1.0) || (ratio > 1.0 && careful < 1.0);
        if self.tolerances.allow(careful) || is_turned {
            return sized(self.wanted);
        }
        // Pods that are not counted yet, or no more, must not turn the direction either.
        let replicas = ceil(careful * samples.len() as f64);
        let is_turned = (careful < 1.0 && replicas > self.wanted) || (careful > 1.0 && replicas < self.wanted);
        sized(if is_turned { self.wanted } else { replicas })
    }
}

/// Returns the samples of pods that are neither ignored nor unready.
fn counting(samples: &PodSamples, groups: &Groups<'_>) -> Result<PodSamples, String> {
    let mut counting = samples.clone();
    for pod in groups.ignored.iter().chain(&groups.unready) {
        counting.remove(*pod);
    }
    if counting.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    Ok(counting)
}

fn of_percent(amount: i64, percent: i32) -> i64 {
    i64::try_from(i128::from(amount) * i128::from(percent) / 100).unwrap_or(i64::MAX)
}

/// Rounds up to a number of pods. A number that is too large becomes the largest.
fn ceil(replicas: f64) -> i32 {
    replicas.ceil() as i32
}
