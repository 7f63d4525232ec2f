//! The load of a Deployment: CPU that its users ask for, as a function of time, and how its pods share it. Pure.

use crate::amounts::{CPU, amount};
use crate::draw::Draw;
use crate::study::Load;
use crate::units::micros_of;
use std::f64::consts::TAU;
use std::time::Duration;

/// Time for which a load stays as it is, as long as a metrics server measures.
pub const RESOLUTION: Duration = Duration::from_secs(15);
/// Steps of the load after which noise is drawn anew: a minute.
const NOISE_STEPS: u32 = 4;
const DAY_S: f64 = 86_400.0;

/// Returns the steps that a study writes down, each with its time, in thousandths of a core.
pub fn steps(load: &Load) -> Vec<(Duration, f64)> {
    load.steps.iter().map(|step| (step.at.duration, amount(CPU, &step.cpu.quantity) as f64)).collect()
}

/// Returns the times at which a load changes until `until`, each with what it is from then on, in thousandths of a core. `steps` are in
/// the order of their times, and without any it is the load of a day.
pub fn changes(load: &Load, steps: &[(Duration, f64)], until: Duration, draw: &mut dyn Draw) -> Vec<(Duration, i64)> {
    let (mut changes, mut factor) = (Vec::new(), 1.0);
    let mut last = 0;
    for (step, at) in (0..).map(|step: u32| (step, RESOLUTION * step)).take_while(|(_, at)| *at < until) {
        if let Some(noise) = load.noise
            && step % NOISE_STEPS == 0
        {
            factor = (1.0 + noise * draw.normal()).max(0.0);
        }
        let now = (at_time(load, steps, at) * factor).round() as i64;
        if now != last {
            changes.push((at, now));
            last = now;
        }
    }
    changes
}

/// Returns the load without its noise, in thousandths of a core.
fn at_time(load: &Load, steps: &[(Duration, f64)], at: Duration) -> f64 {
    if let Some(diurnal) = &load.diurnal {
        let span_s = |span: Option<&crate::study::Span>, default: f64| {
            span.map_or(default, |span| micros_of(span.duration) as f64 / 1e6)
        };
        let (period_s, peak_s) = (span_s(diurnal.period.as_ref(), DAY_S), span_s(diurnal.peak.as_ref(), 0.0));
        let phase = TAU * (at.as_secs_f64() - peak_s) / period_s;
        return amount(CPU, &diurnal.cpu.quantity) as f64 * (1.0 + diurnal.swing * libm::cos(phase));
    }
    let begun = steps.partition_point(|(from, _)| *from <= at);
    begun.checked_sub(1).map_or(0.0, |last| steps[last].1)
}

/// Returns what each of the pods uses, in thousandths of a core. All get the same part of the load, and none uses more than its
/// limit.
pub fn share(load_milli: i64, pods: usize, limit_milli: Option<i64>) -> i64 {
    let part = load_milli / i64::try_from(pods.max(1)).unwrap_or(i64::MAX);
    part.min(limit_milli.unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::seeded;

    fn load(text: &str) -> Load {
        let value = proto::serializer::yaml::parse(text.as_bytes()).unwrap().value;
        serde_json::from_value(value).unwrap()
    }

    fn seconds(text: &str, until_s: u64) -> Vec<(u64, i64)> {
        let changes = changes(&load(text), &steps(&load(text)), Duration::from_secs(until_s), &mut seeded(1));
        changes.into_iter().map(|(at, milli)| (at.as_secs(), milli)).collect()
    }

    #[test]
    fn a_load_changes_every_15_seconds_at_most() {
        let steps = "steps: [{at: 0s, cpu: 1}, {at: 20s, cpu: 2500m}, {at: 31s, cpu: 3}, {at: 40s, cpu: 0}]";
        assert_eq!(seconds(steps, 3600), [(0, 1000), (30, 2500), (45, 0)]);
        assert_eq!(seconds(steps, 30), [(0, 1000)]);
        // 4 · (1 + 0.5 · cos(2π (t − 30) / 60)) at 0, 15, 30, 45 and 60 s.
        let diurnal = "diurnal: {cpu: 4, swing: 0.5, period: 1m, peak: 30s}";
        assert_eq!(seconds(diurnal, 61), [(0, 2000), (15, 4000), (30, 6000), (45, 4000), (60, 2000)]);
    }

    #[test]
    fn noise_is_drawn_each_minute() {
        let found = seconds("{steps: [{at: 0s, cpu: 10}], noise: 0.1}", 6000);
        assert!(found.iter().all(|(at_s, _)| at_s % 60 == 0) && found.len() > 95, "{found:?}");
        let mean = found.iter().map(|(_, milli)| *milli as f64).sum::<f64>() / found.len() as f64;
        assert!((mean - 10_000.0).abs() < 400.0, "{mean}");
    }

    #[test]
    fn pods_share_a_load_up_to_their_limit() {
        for (load, pods, limit, expected) in
            [(1000, 4, None, 250), (1000, 3, None, 333), (1000, 2, Some(400), 400), (1000, 0, None, 1000)]
        {
            assert_eq!(share(load, pods, limit), expected, "{load} {pods} {limit:?}");
        }
    }
}
