//! The line that says what a comparison has found.

use crate::compare::Comparison;
use crate::metrics::NAMES;
use crate::units::rounded;

/// Differences with a larger probability are not called one.
pub const LEVEL: f64 = 0.05;

/// Returns the line, such as `fgd allocates 3.8 ± 0.4 points more gpu than default over 10 seeds, p < 0.01`.
pub fn sentence(of: &Comparison) -> String {
    let mark = if of.is_repeatable { "" } else { "; not repeatable" };
    found(of) + mark
}

fn found(of: &Comparison) -> String {
    let unit = NAMES.iter().find(|(name, _, _)| *name == of.metric).map_or("", |(_, unit, _)| *unit);
    // Parts of a whole are compared in points of a percent.
    let (factor, unit) = match unit {
        "%" => (100.0, " points"),
        "s" => (1.0, " s"),
        "W" => (1.0, " W"),
        "kWh" => (1.0, " kWh"),
        _ => (1.0, ""),
    };
    let half = (of.high - of.low) / 2.0;
    let amount = format!("{} ± {}{unit}", digits(of.difference.abs() * factor), digits(half * factor));
    let (a, b, n) = (&of.policy, &of.baseline, of.seeds);
    let p = probability(of.p_adjusted);
    if of.p_adjusted >= LEVEL {
        let least = 2.0 / libm::exp2(n as f64);
        let few = if least >= LEVEL { format!("; {n} seeds cannot show one") } else { String::new() };
        return format!("{a} and {b} show no difference in {} ({amount}) over {n} seeds, {p}{few}", of.metric);
    }
    let more = of.difference > 0.0;
    match of.metric.split_once('.') {
        Some(("allocation", resource)) => {
            format!(
                "{a} allocates {amount} {} {resource} than {b} over {n} seeds, {p}",
                if more { "more" } else { "less" }
            )
        }
        _ => {
            let word = if more { "higher" } else { "lower" };
            format!("{} of {a} is {amount} {word} than of {b} over {n} seeds, {p}", of.metric)
        }
    }
}

fn probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "p < 0.001".to_owned(),
        p if p < 0.01 => "p < 0.01".to_owned(),
        p => format!("p = {p:.2}"),
    }
}

/// Writes a number with three significant digits.
fn digits(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => rounded((number * 1000.0).round() / 1000.0).to_string(),
    }
}
