//! Logs on standard error, one line an event.

use tracing_subscriber::EnvFilter;

/// The target under which a server tells of every request, from `-v 3` on.
pub const REQUESTS: &str = "requests";

/// Installs the process's logger. `verbosity` is Kubernetes' `-v`: 0 and 1 say what an operator needs, 4 is debugging,
/// 6 and more is everything. `RUST_LOG` wins. Calling it again changes nothing.
pub fn init(verbosity: u8) {
    let level = match verbosity {
        0 | 1 => "warn",
        2 | 3 => "info",
        4 | 5 => "debug",
        _ => "trace",
    };
    let requests = if verbosity < 3 { "off" } else { "info" };
    // Libraries are never louder than their warnings, unless somebody asks by name.
    let default = format!(
        "warn,apiserver={level},client={level},component_base={level},controller_manager={level},scheduler={level},kubelet_sim={level},proxy_sim={level},orrery={level},{REQUESTS}={requests}"
    );
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
}
