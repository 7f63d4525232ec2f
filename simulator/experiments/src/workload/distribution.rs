//! Draws spans of time.

use crate::draw::Draw;
use crate::study::Distribution;
use crate::units::{micros, micros_of};
use std::time::Duration;

/// Draws a span.
///
/// A Pareto number is `min · u^(−1/alpha)` with `u` uniform in (0, 1]; a log-normal one is `median · e^(sigma · z)` with `z`
/// of the standard normal distribution.
pub fn draw(of: &Distribution, draw: &mut dyn Draw) -> Duration {
    let us = |span: &crate::study::Span| span.duration.as_micros() as f64;
    let drawn_us = if let Some(span) = &of.constant {
        us(span)
    } else if let Some(exponential) = &of.exponential {
        draw.exponential(us(&exponential.mean))
    } else if let Some(log_normal) = &of.log_normal {
        us(&log_normal.median) * libm::exp(log_normal.sigma * draw.normal())
    } else if let Some(pareto) = &of.pareto {
        us(&pareto.min) * libm::pow(draw.positive_unit(), -1.0 / pareto.alpha)
    } else {
        0.0
    };
    let max_us = of.max.as_ref().map_or(u64::MAX, |max| micros_of(max.duration));
    micros(drawn_us.min(max_us as f64))
}
