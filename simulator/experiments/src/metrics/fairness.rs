//! Fairness: Jain's index between users, and finish-time fairness of pods.

use crate::metrics::replay::{GPUS, MEASURED, Replay};
use crate::metrics::rows::PodRow;
use crate::metrics::{Values, distribution, set};
use crate::statistics::mean;
use std::collections::BTreeMap;

pub fn add(replay: &Replay, values: &mut Values) {
    let mut users: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // The pods of Deployments have no end.
    for pod in replay.pods.values().filter(|pod| pod.created.deployment.is_none()) {
        users.entry(&pod.created.user).or_default().push(progress(pod));
    }
    let means: Vec<f64> = users.values().map(|progress| mean(progress)).collect();
    if let Some(index) = jain(&means) {
        set(values, "jain", index);
    }
    let count = users.len() as f64;
    let ratios = replay.pods.values().filter_map(|pod| finish_time_ratio(replay, pod, count)).collect::<Vec<f64>>();
    if let Some(worst) = ratios.iter().copied().reduce(f64::max) {
        set(values, "finish-time-fairness.max", worst);
    }
    distribution(values, "finish-time-fairness", ratios);
}

/// Returns how fast a pod got done, compared with an empty cluster: 1 without any delay, 0 if it did not complete.
fn progress(pod: &PodRow) -> f64 {
    match (pod.jct_us(), pod.created.duration_us) {
        (Some(jct_us), Some(duration_us)) if jct_us > 0 => duration_us as f64 / jct_us as f64,
        (Some(_), _) => 1.0,
        (None, _) => 0.0,
    }
}

/// Jain's index `(Σx)² / (n · Σx²)`: 1 if all are equal, `1/n` if one has everything.
fn jain(numbers: &[f64]) -> Option<f64> {
    let sum: f64 = numbers.iter().sum();
    let squares: f64 = numbers.iter().map(|number| number * number).sum();
    (squares > 0.0).then(|| sum * sum / (numbers.len() as f64 * squares))
}

/// Returns the time to completion divided by that in a cluster of one's own, of which each of `users` gets an equal part. A pod
/// whose dominant share is larger than that part would run there as many times longer.
fn finish_time_ratio(replay: &Replay, pod: &PodRow, users: f64) -> Option<f64> {
    let jct_us = pod.jct_us()? as f64;
    let duration_us = pod.created.duration_us.filter(|duration_us| *duration_us > 0)? as f64;
    let share = |resource: &str| {
        let all = replay.integrals.peak_allocatable.get(resource).copied().unwrap_or_default() as f64;
        let needs = match resource {
            GPUS => i64::from(pod.created.gpu_count) * i64::from(pod.created.gpu_milli),
            _ => pod.created.requests.get(resource).copied().unwrap_or_default(),
        };
        if all > 0.0 { needs as f64 / all } else { 0.0 }
    };
    let dominant = MEASURED.into_iter().map(share).fold(0.0, f64::max);
    Some(jct_us / (duration_us * (users * dominant).max(1.0)))
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn the_index_is_between_one_nth_and_one() {
        assert_eq!(jain(&[0.5, 0.5]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[1.0, 0.5]), Some(0.9));
        assert_eq!(jain(&[0.0]), None);
    }
}
