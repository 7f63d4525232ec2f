//! Metrics of the process itself (CPU, memory, files), which every Prometheus client library has.
//!
//! Linux only, from `/proc/self`; elsewhere they are missing.

use crate::metrics::{FloatCounters, FloatGauges, Gauges, Metrics};
use parking_lot::Mutex;
use std::fs;

/// Positions of fields of `/proc/self/stat`, counted from the one after the name, which may hold blanks.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const START_TICKS: usize = 19;
const VIRTUAL_BYTES: usize = 20;
const RESIDENT_PAGES: usize = 21;

/// Resources that the process uses.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    /// Start of the process, in seconds after the machine's.
    start_seconds: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
}

/// Adds the metrics of the process; each scrape updates them.
pub fn show(metrics: &Metrics) {
    let Some(first) = read_usage() else { return };
    let none = vec![];
    let cpu: FloatCounters = metrics.float_counters("process_cpu_seconds_total", "Processor time in seconds");
    let started: FloatGauges = metrics.float_gauges("process_start_time_seconds", "Start in seconds since the epoch");
    if let Some(booted) = boot_seconds() {
        started.get_or_create(&none).set(booted + first.start_seconds);
    }
    let gauges = |name, help| -> Gauges { metrics.gauges(name, help) };
    let resident = gauges("process_resident_memory_bytes", "Memory that is in use");
    let whole = gauges("process_virtual_memory_bytes", "Addresses that are in use");
    let open = gauges("process_open_fds", "Open files");
    let most = gauges("process_max_fds", "Files that may be open at once");
    let counted = Mutex::new(0.0);
    metrics.before_encoding(move || {
        let none = vec![];
        let Some(usage) = read_usage() else { return true };
        let mut counted = counted.lock();
        cpu.get_or_create(&none).inc_by((usage.cpu_seconds - *counted).max(0.0));
        *counted = usage.cpu_seconds;
        let set = |gauge: &Gauges, value: u64| {
            gauge.get_or_create(&none).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&resident, usage.resident_bytes);
        set(&whole, usage.virtual_bytes);
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            set(&open, files.count() as u64);
        }
        let limit = fs::read_to_string("/proc/self/limits").ok();
        if let Some(limit) = limit.as_deref().and_then(open_files_limit) {
            set(&most, limit);
        }
        true
    });
}

fn read_usage() -> Option<Usage> {
    let ticks = rustix::param::clock_ticks_per_second();
    let page = rustix::param::page_size() as u64;
    usage(&fs::read_to_string("/proc/self/stat").ok()?, ticks, page)
}

fn usage(stat: &str, ticks_per_second: u64, page_bytes: u64) -> Option<Usage> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<u64> = after_name.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect();
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second as f64;
    Some(Usage {
        cpu_seconds: seconds(fields.get(USER_TICKS)? + fields.get(SYSTEM_TICKS)?),
        start_seconds: seconds(*fields.get(START_TICKS)?),
        virtual_bytes: *fields.get(VIRTUAL_BYTES)?,
        resident_bytes: fields.get(RESIDENT_PAGES)? * page_bytes,
    })
}

/// Returns the start of the machine, in seconds since the epoch.
fn boot_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

fn open_files_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_read_as_proc_describes_it() {
        let stat =
            "42 (a (b) c) S 1 42 42 0 -1 4194560 900 0 3 0 150 50 0 0 20 0 9 0 700 20480000 512 18446744073709551615";
        let seen = usage(stat, 100, 4096);
        let expected =
            Usage { cpu_seconds: 2.0, start_seconds: 7.0, virtual_bytes: 20_480_000, resident_bytes: 512 * 4096 };
        assert_eq!(seen, Some(expected));
        assert_eq!(usage("nonsense", 100, 4096), None);
        let limits = "Limit    Soft Limit   Hard Limit   Units\nMax open files            1024                 4096                 files\n";
        assert_eq!(open_files_limit(limits), Some(1024));
    }

    #[test]
    fn this_process_is_seen() {
        let metrics = Metrics::default();
        show(&metrics);
        let text = metrics.encode();
        for name in
            ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"]
        {
            assert!(text.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} in {text}");
        }
    }
}
