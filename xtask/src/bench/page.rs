//! The tables of docs/performance.md.

use super::measurement::Measurement;
use comfy_table::{Table, presets};
use std::path::Path;
use std::{fs, io};

pub const PATH: &str = "docs/performance.md";
const BEGIN: &str = "<!-- written by `cargo xtask bench --write` -->";

/// Replaces everything below the mark; what stands above it is written by hand.
pub fn write(root: &Path, measured: &[Measurement]) -> io::Result<()> {
    let path = root.join(PATH);
    let page = fs::read_to_string(&path)?;
    let head = page.split_once(BEGIN).map_or(page.as_str(), |(head, _)| head);
    fs::write(path, format!("{}\n\n{BEGIN}\n\n{}\n", head.trim_end(), table(measured)))
}

fn table(measured: &[Measurement]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "what",
        "engine",
        "server CPU ms per operation",
        "per s",
        "p50 ms",
        "p99 ms",
        "resident (peak) MiB",
        "errors",
    ]);
    for one in measured {
        let latency = |of: fn(&super::measurement::Latency) -> f64| {
            one.latency.as_ref().map_or("".to_owned(), |latency| format!("{:.2}", of(latency)))
        };
        // What has ended holds none.
        let memory = one.rss_mib.iter().filter(|(_, mib)| **mib > 0.0);
        let peak = |name: &str| one.peak_mib.get(name).copied().unwrap_or_default();
        let memory: Vec<String> = memory.map(|(name, mib)| format!("{name} {mib:.0} ({:.0})", peak(name))).collect();
        table.add_row([
            one.what.clone(),
            one.engine.to_owned(),
            cpu(one),
            format!("{:.0}", one.per_s),
            latency(|latency| latency.p50_ms),
            latency(|latency| latency.p99_ms),
            memory.join(", "),
            one.errors.to_string(),
        ]);
    }
    table
}

/// The sum, and the share of each server where there are several.
fn cpu(one: &Measurement) -> String {
    let share = |(name, cpu_s): (&String, &f64)| format!("{name} {:.3}", cpu_s * 1000.0 / one.operations.max(1) as f64);
    let shares: Vec<String> = one.cpu_s.iter().map(share).collect();
    let whole = format!("{:.3}", one.server_cpu_ms_per_operation);
    if shares.len() > 1 { format!("{whole} ({})", shares.join(", ")) } else { whole }
}
