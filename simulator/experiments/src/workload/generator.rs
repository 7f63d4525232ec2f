//! Draws a workload: when pods arrive, of which kind they are, and how long they run.

use crate::amounts::amount;
use crate::draw::Draw;
use crate::problem::Problem;
use crate::study::{Arrivals, Diurnal, Generate, Mmpp, Size, Waves};
use crate::units::micros;
use crate::workload::pod::Shape;
use crate::workload::{Arrival, MAX_PODS, distribution};
use std::f64::consts::TAU;
use std::time::Duration;

const DAY_US: f64 = 8.64e10;
/// Most phases that are drawn for a workload: with more of them between two pods, drawing would take longer than anybody waits.
const MAX_PHASES: usize = 10_000_000;

pub fn arrivals(generate: &Generate, draw: &mut dyn Draw, place: &str) -> Result<Vec<Arrival>, Vec<Problem>> {
    let largest = generate.sizes.iter().map(|size| size.gang.unwrap_or(1)).max().unwrap_or(1);
    if generate.count.saturating_mul(largest) > MAX_PODS {
        return Err(vec![Problem::new(format!("{place}.count"), format!("at most {MAX_PODS} pods are possible"))]);
    }
    let weights: f64 = generate.sizes.iter().map(weight).sum();
    let mut drawn = vec![0_usize; generate.sizes.len()];
    let mut arrivals = Vec::new();
    let times = times(&generate.arrivals, generate.count, draw);
    for at in times.map_err(|why| vec![Problem::new(format!("{place}.arrivals.mmpp.phases"), why)])? {
        let index = choose(&generate.sizes, draw.unit() * weights);
        let size = &generate.sizes[index];
        let duration = distribution::draw(&size.duration, draw);
        let number = drawn[index];
        drawn[index] += 1;
        for member in 0..size.gang.unwrap_or(1) {
            let arrival = shape(size, number, member).arrival(at, Some(duration));
            arrivals.push(arrival.map_err(|why| vec![Problem::new(format!("{place}.sizes[{index}].spec"), why)])?);
        }
    }
    Ok(arrivals)
}

/// Returns a pod of each kind, with its place in the study.
pub fn samples(generate: &Generate, place: &str) -> Vec<(String, Arrival)> {
    let sizes = generate.sizes.iter().enumerate();
    let sample = |(index, size): (usize, &Size)| {
        let arrival = shape(size, 0, 0).arrival(Duration::ZERO, Some(Duration::from_secs(1)));
        Some((format!("{place}.sizes[{index}]"), arrival.ok()?))
    };
    sizes.filter_map(sample).collect()
}

fn weight(size: &Size) -> f64 {
    size.weight.unwrap_or(1.0)
}

fn choose(sizes: &[Size], mut at: f64) -> usize {
    let found = sizes.iter().position(|size| {
        at -= weight(size);
        at < 0.0
    });
    found.unwrap_or(sizes.len() - 1)
}

/// Returns the shape of one pod: the `number`th arrival of its kind, and its place in its gang.
fn shape(size: &Size, number: usize, member: usize) -> Shape {
    let gang_size = size.gang.unwrap_or(1);
    let name = format!("{}-{number}", size.name);
    let gpus = size.gpus.clone().unwrap_or_default();
    Shape {
        requests: size.requests.iter().map(|(name, of)| (name.clone(), amount(name, &of.quantity))).collect(),
        gpu_count: gpus.count,
        gpu_milli: gpus.milli.unwrap_or(1000),
        gpu_models: gpus.models,
        user: if size.users.is_empty() { String::new() } else { size.users[number % size.users.len()].clone() },
        gang: (gang_size > 1).then(|| (name.clone(), gang_size)),
        name: if gang_size > 1 { format!("{name}-{member}") } else { name },
        priority: size.priority.unwrap_or_default(),
        labels: size.labels.clone(),
        spec: size.spec.clone(),
    }
}

/// Returns the times of the arrivals, or why phases have too few.
fn times(arrivals: &Arrivals, count: usize, draw: &mut dyn Draw) -> Result<Vec<Duration>, String> {
    if let Some(poisson) = &arrivals.poisson {
        let mut at_us = 0.0;
        let mut next = || {
            at_us += draw.exponential(1e6 / poisson.rate.per_s);
            micros(at_us)
        };
        return Ok((0..count).map(|_| next()).collect());
    }
    if let Some(mmpp) = &arrivals.mmpp {
        return phases(mmpp, count, draw);
    }
    if let Some(diurnal) = &arrivals.diurnal {
        return Ok(of_days(diurnal, count, draw));
    }
    let waves = arrivals.waves.as_ref();
    Ok(waves.map(|waves| (0..count).map(|index| of_wave(waves, index)).collect()).unwrap_or_default())
}

/// A phase lasts an exponential time, and within it arrivals are a Poisson process. An arrival that would come after the end
/// of its phase is drawn again in the next one, because an exponential time has no memory.
fn phases(mmpp: &Mmpp, count: usize, draw: &mut dyn Draw) -> Result<Vec<Duration>, String> {
    let (mut times, mut at_us, mut turn) = (Vec::with_capacity(count), 0.0, 0);
    let length_us = |turn: usize, draw: &mut dyn Draw| {
        draw.exponential(mmpp.phases[turn % mmpp.phases.len()].mean.duration.as_micros() as f64)
    };
    let mut end_us = length_us(0, draw);
    while times.len() < count {
        let next_us = at_us + draw.exponential(1e6 / mmpp.phases[turn % mmpp.phases.len()].rate.per_s);
        if next_us < end_us {
            at_us = next_us;
            times.push(micros(at_us));
        } else {
            at_us = end_us;
            turn += 1;
            if turn == MAX_PHASES {
                let arrived = times.len();
                return Err(format!(
                    "{arrived} of {count} arrivals are within {MAX_PHASES} phases, the most that are drawn: phases must be longer, or rates higher"
                ));
            }
            end_us += length_us(turn, draw);
        }
    }
    Ok(times)
}

/// The rate at time t is `rate · (1 + swing · cos(2π (t − peak) / period))`. Candidates come at the highest rate, and each is
/// kept with the probability of its own rate (thinning).
fn of_days(diurnal: &Diurnal, count: usize, draw: &mut dyn Draw) -> Vec<Duration> {
    let period_us = diurnal.period.as_ref().map_or(DAY_US, |span| span.duration.as_micros() as f64);
    let peak_us = diurnal.peak.as_ref().map_or(0.0, |span| span.duration.as_micros() as f64);
    let highest = 1.0 + diurnal.swing;
    let (mut times, mut at_us) = (Vec::with_capacity(count), 0.0);
    while times.len() < count {
        at_us += draw.exponential(1e6 / (diurnal.rate.per_s * highest));
        let now = 1.0 + diurnal.swing * libm::cos(TAU * (at_us - peak_us) / period_us);
        if draw.unit() * highest < now {
            times.push(micros(at_us));
        }
    }
    times
}

fn of_wave(waves: &Waves, index: usize) -> Duration {
    let (wave, place) = (index / waves.size, index % waves.size);
    let spread_us = waves.spread.as_ref().map_or(0.0, |span| span.duration.as_micros() as f64);
    let start_us = waves.every.duration.as_micros() as f64 * wave as f64;
    micros(start_us + spread_us * place as f64 / waves.size as f64)
}
