//! The machine on which a container runs, as the files of `/proc` show it.

/// What programs can see of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub cpus: u32,
    pub memory_bytes: u64,
    /// Seconds since the start of the machine.
    pub up_s: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Self { cpus: 2, memory_bytes: 8 << 30, up_s: 0 }
    }
}

impl Machine {
    /// Returns a file of `/proc` that is about the machine.
    pub fn file(&self, name: &str) -> Option<String> {
        Some(match name {
            "meminfo" => {
                let total = self.memory_bytes >> 10;
                let (free, available) = (total / 2, total / 4 * 3);
                format!(
                    "MemTotal:       {total:>8} kB\nMemFree:        {free:>8} kB\nMemAvailable:   {available:>8} kB\n\
                     Buffers:               0 kB\nCached:         {:>8} kB\nSwapTotal:             0 kB\n\
                     SwapFree:              0 kB\n",
                    available - free
                )
            }
            "cpuinfo" => {
                let cpu = |number| {
                    format!(
                        "processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: Simulated CPU\n\
                         cpu MHz\t\t: 2000.000\ncpu cores\t: {}\n\n",
                        self.cpus
                    )
                };
                (0..self.cpus).map(cpu).collect()
            }
            "loadavg" => "0.00 0.00 0.00 1/100 1\n".to_owned(),
            "uptime" => format!("{}.00 {}.00\n", self.up_s, self.up_s.saturating_mul(u64::from(self.cpus))),
            "version" => "Linux version 6.8.0 (simulated)\n".to_owned(),
            _ => return None,
        })
    }
}
