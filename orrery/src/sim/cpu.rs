//! `CpuSeconds`: the limit of the CPU time of a child process, which it sets on itself. Without one, a process that never ends in
//! virtual time would never end at all.

use clap::Args;
use exploration::cpu_limit;

/// Most CPU seconds of a scenario, which takes seconds: an hour.
pub const SCENARIO: u64 = 3600;
/// Most CPU seconds of a cell: a day.
pub const CELL: u64 = 24 * 3600;

/// The option of a process that limits itself.
#[derive(Args, Clone, Debug, Default)]
pub struct CpuSeconds {
    /// End after so many seconds of CPU time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub cpu_seconds: Option<u64>,
}

impl CpuSeconds {
    /// Sets the limit, if there is one.
    pub fn apply(&self) -> Result<(), Vec<String>> {
        let limited = self.cpu_seconds.map_or(Ok(()), cpu_limit::limit);
        limited.map_err(|error| vec![format!("--cpu-seconds: {error}")])
    }
}
