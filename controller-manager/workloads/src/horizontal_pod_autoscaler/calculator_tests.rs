//! Tables of sizes that metrics ask for, worked through by hand from Kubernetes' documentation of the algorithm.
//!
//! Corresponds to pkg/controller/podautoscaler/replica_calculator_test.go.

use super::calculator::{Calculator, Sized, Tolerances};
use super::fixture::requesting;
use super::pods::Readiness;
use super::samples::{PodSamples, Sample};
use controller_base::fixture;
use controller_base::fixture::at;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;
use std::time::Duration;

/// A pod that requests 100m of CPU: `150` uses 150m; `?` has no sample; `pending`, `failed` and `deleted` have one of
/// 1000m.
fn pod(number: usize, text: &str) -> (Pod, Option<i64>) {
    let mut pod = requesting(&format!("pod-{number}"), &[("web", "100m")]);
    match text {
        "?" => return (pod, None),
        "pending" => fixture::set_phase(&mut pod, "Pending"),
        "failed" => fixture::set_phase(&mut pod, "Failed"),
        "deleted" => pod.metadata.deletion_timestamp = Some(fixture::time(1)),
        number => return (pod, Some(number.parse().unwrap())),
    }
    (pod, Some(1000))
}

/// Calculates for pods such as `"90 90 ?"`.
fn with<T>(pods: &str, wanted: i32, tolerances: Tolerances, then: impl FnOnce(&Calculator<'_>, &PodSamples) -> T) -> T {
    let now = at(10_000);
    let described: Vec<(Pod, Option<i64>)> =
        pods.split_whitespace().enumerate().map(|(number, text)| pod(number, text)).collect();
    let sample = |milli| Sample { milli, taken_at: Some(now), window: Duration::from_secs(30) };
    let samples =
        described.iter().filter_map(|(pod, milli)| Some((pod.metadata.name.clone()?, sample((*milli)?)))).collect();
    let pods: Vec<Arc<Pod>> = described.into_iter().map(|(pod, _)| Arc::new(pod)).collect();
    let readiness = Readiness {
        cpu_initialization_period: Duration::from_secs(300),
        initial_readiness_delay: Duration::from_secs(30),
    };
    then(&Calculator { pods: &pods, wanted, counted: wanted, tolerances, readiness, now }, &samples)
}

const TENTH: Tolerances = Tolerances { down: 0.1, up: 0.1 };

fn by_utilization(pods: &str, wanted: i32, target: i32) -> Result<Sized, String> {
    with(pods, wanted, TENTH, |calculator, samples| calculator.by_utilization(samples, "cpu", None, target))
}

fn by_average(pods: &str, wanted: i32, target: i64) -> Result<Sized, String> {
    with(pods, wanted, TENTH, |calculator, samples| calculator.by_average(samples, true, target))
}

#[test]
fn utilization_of_pods_that_all_count() {
    let cases = [
        // The documentation's example: 200m where 100m are wanted doubles the pods, 50m halve them.
        // 2 × 200 / 100 = 4    2 × 50 / 100 = 1
        ("200 200", 2, 100, 4, 200),
        ("50 50", 2, 100, 1, 50),
        // 60 / 50 = 1.2    ceil(3 × 1.2 = 3.6) = 4
        ("60 60 60", 3, 50, 4, 60),
        // (30 + 50 + 100) / 3 = 60    the average counts, not each pod
        ("30 50 100", 3, 50, 4, 60),
        // 55 / 50 = 1.1 and 45 / 50 = 0.9 are within the tolerance; 56 and 44 are not.
        ("55 55", 2, 50, 2, 55),
        ("45 45", 2, 50, 2, 45),
        ("56 56", 2, 50, 3, 56),
        // ceil(2 × 0.88 = 1.76) = 2: outside the tolerance, and yet two pods are needed
        ("44 44", 2, 50, 2, 44),
        // (33 + 34) × 100 / 200 = 33.5, cut to 33    33 / 50 = 0.66    ceil(1.32) = 2
        ("33 34", 2, 50, 2, 33),
        ("0 0 0", 3, 50, 0, 0),
        // The number of pods that count is the base, not the number that is wanted: ceil(2 × 2) = 4.
        ("100 100", 7, 50, 4, 100),
        ("100 failed deleted", 1, 50, 2, 100),
    ];
    for (pods, wanted, target, replicas, utilization) in cases {
        let sized = by_utilization(pods, wanted, target).unwrap();
        assert_eq!((sized.replicas, sized.utilization), (replicas, Some(utilization)), "{pods} {wanted} {target}");
    }
    assert_eq!(by_utilization("30 50 100", 3, 50).unwrap().value, 60);
}

#[test]
fn utilization_of_pods_without_samples() {
    let cases = [
        // They lessen a scale-up as if they used nothing: (150 + 150 + 0) / 3 = 100    100 / 50 = 2    3 × 2 = 6
        ("150 150 ?", 3, 50, 6),
        // (90 + 90 + 0 + 0) / 4 = 45    45 / 50 = 0.9: within the tolerance
        ("90 90 ? ?", 4, 50, 4),
        // (60 + 0 + 0) / 3 = 20    20 / 50 < 1 although 60 / 50 > 1: no change of direction
        ("60 ? ?", 3, 50, 3),
        // They lessen a scale-down as if they used all of their request: (10 + 10 + 100) / 3 = 40
        // 40 / 80 = 0.5    ceil(3 × 0.5 = 1.5) = 2
        ("10 10 ?", 3, 80, 2),
        // (10 + 100 + 100) / 3 = 70    70 / 50 > 1 although 10 / 50 < 1
        ("10 ? ?", 3, 50, 3),
        // Where the target is more than the request, they use the target: (50 + 50 + 200) / 3 = 100
        // 100 / 200 = 0.5    ceil(3 × 0.5) = 2
        ("50 50 ?", 3, 200, 2),
        // The ratio is 1: nothing is assumed of them.
        ("50 50 ?", 3, 50, 3),
    ];
    for (pods, wanted, target, replicas) in cases {
        assert_eq!(by_utilization(pods, wanted, target).unwrap().replicas, replicas, "{pods} {wanted} {target}");
    }
}

#[test]
fn utilization_of_pods_that_start() {
    let cases = [
        // They lessen a scale-up: (150 + 150 + 0) / 3 = 100    100 / 50 = 2    3 × 2 = 6
        ("150 150 pending", 3, 50, 6),
        // (60 + 60 + 60 + 0) / 4 = 45    45 / 50 < 1: no change of direction
        ("60 60 60 pending", 4, 50, 4),
        // They do not lessen a scale-down: ceil(2 × 20 / 50 = 0.8) = 1
        ("20 20 pending", 3, 50, 1),
        // Both kinds: (300 + 0 + 0) / 3 = 100    100 / 50 = 2    3 × 2 = 6
        ("300 pending ?", 3, 50, 6),
        // 4 pods are wanted, and only 2 are there yet: (70 + 70 + 0) / 3 = 46    46 / 40 = 1.15
        // ceil(3 × 1.15 = 3.45) = 4: not fewer than wanted
        ("70 70 pending", 5, 40, 5),
    ];
    for (pods, wanted, target, replicas) in cases {
        assert_eq!(by_utilization(pods, wanted, target).unwrap().replicas, replicas, "{pods} {wanted} {target}");
    }
}

#[test]
fn what_cannot_be_calculated_is_an_error() {
    let none = "did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(by_utilization("", 1, 50).unwrap_err(), "no pods returned by selector while calculating replica count");
    for pods in ["?", "pending", "failed deleted"] {
        assert_eq!(by_utilization(pods, 1, 50).unwrap_err(), none, "{pods}");
        assert_eq!(by_average(pods, 1, 50).unwrap_err(), none, "{pods}");
    }
    let of_memory = with("50", 1, TENTH, |calculator, samples| calculator.by_utilization(samples, "memory", None, 50));
    assert_eq!(of_memory.unwrap_err(), "missing request for memory in container web of Pod pod-0");
    let of_nothing = with("50", 1, TENTH, |calculator, _| {
        let stray = PodSamples::from([("other".to_owned(), Sample { milli: 50, ..Sample::default() })]);
        calculator.by_utilization(&stray, "cpu", None, 50)
    });
    assert_eq!(of_nothing.unwrap_err(), "no metrics returned matched known pods");
}

#[test]
fn averages_of_pods() {
    let cases = [
        // 300 / 200 = 1.5    2 × 1.5 = 3
        ("300 300", 2, 200, 3, 300),
        // (100 + 301) / 2 = 200.5, cut to 200
        ("100 301", 2, 200, 2, 200),
        // Missing on a scale-down, a pod has just the target: (20 + 20 + 200) / 3 = 80    80 / 200 = 0.4
        // ceil(3 × 0.4 = 1.2) = 2
        ("20 20 ?", 3, 200, 2, 20),
        // Missing on a scale-up, it has nothing: (900 + 0) / 2 = 450    450 / 200 = 2.25    ceil(2 × 2.25) = 5
        ("900 ?", 2, 200, 5, 900),
        ("900 pending", 2, 200, 5, 900),
    ];
    for (pods, wanted, target, replicas, value) in cases {
        let sized = by_average(pods, wanted, target).unwrap();
        assert_eq!((sized.replicas, sized.value), (replicas, value), "{pods} {wanted} {target}");
    }
}

#[test]
fn values_of_objects() {
    let cases = [
        // 1000 / 500 = 2    the ready pods count: 3 × 2 = 6
        ("1 1 1", 3, 1000, 500, 6),
        ("1 1 1 pending", 4, 1000, 500, 6),
        // 540 / 500 = 1.08: within the tolerance
        ("1 1 1", 3, 540, 500, 3),
        ("1 1 1", 3, 0, 500, 0),
        // Without pods there is nothing to multiply: ceil(1 / 500) = 1 pod, ceil(1001 / 500) = 3 pods
        ("", 0, 1, 500, 1),
        ("", 0, 1001, 500, 3),
        ("", 0, 0, 500, 0),
        // More than any target has
        ("1 1 1", 3, i64::MAX, 1, i32::MAX),
    ];
    for (pods, wanted, value, target, replicas) in cases {
        let sized = with(pods, wanted, TENTH, |calculator, _| calculator.by_value(value, target)).unwrap();
        assert_eq!((sized.replicas, sized.value), (replicas, value), "{pods} {wanted} {value} {target}");
    }
    let error = with("", 3, TENTH, |calculator, _| calculator.by_value(9, 1)).unwrap_err();
    assert_eq!(error, "unable to calculate ready pods: no pods returned by selector while calculating replica count");
}

#[test]
fn shares_of_values() {
    let cases = [
        // 1000 / (200 × 2) = 2.5    ceil(1000 / 200) = 5 pods, and each of the 2 had 500
        (2, 1000, 200, 5, 500),
        // 1050 / (200 × 5) = 1.05: within the tolerance
        (5, 1050, 200, 5, 210),
        // ceil(1001 / 3 = 333.67) = 334
        (3, 1001, 200, 6, 334),
        // Without pods nobody has a share.
        (0, 1000, 200, 5, 0),
        (0, 0, 200, 0, 0),
        (4, i64::MAX, 1, i32::MAX, i64::MAX / 4 + 1),
    ];
    for (counted, value, target, replicas, share) in cases {
        let sized = with("", counted, TENTH, |calculator, _| calculator.by_share(value, target));
        assert_eq!((sized.replicas, sized.value), (replicas, share), "{counted} {value} {target}");
    }
}

#[test]
fn each_direction_has_a_tolerance_of_its_own() {
    let tolerances = Tolerances { down: 0.5, up: 0.0 };
    let size = |pods| {
        with(pods, 2, tolerances, |calculator, samples| calculator.by_utilization(samples, "cpu", None, 50))
            .unwrap()
            .replicas
    };
    // 51 / 50 = 1.02    ceil(2 × 1.02) = 3
    assert_eq!(size("51 51"), 3);
    // 25 / 50 = 0.5 is within the tolerance, and 24 / 50 = 0.48 is not: ceil(0.96) = 1
    assert_eq!(size("25 25"), 2);
    assert_eq!(size("24 24"), 1);
}
