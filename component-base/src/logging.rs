//! Logs to standard error, one line per event.

use tracing_subscriber::EnvFilter;

/// Target under which a server logs every request, from `-v 3` on.
pub const REQUESTS: &str = "requests";

/// Installs the process's logger. `verbosity` is Kubernetes' `-v`: 0 and 1 log what an operator needs, 4 is for
/// debugging, 6 and more logs everything. `RUST_LOG` wins. A second call changes nothing.
pub fn init(verbosity: u8) {
    let level = match verbosity {
        0 | 1 => "warn",
        2 | 3 => "info",
        4 | 5 => "debug",
        _ => "trace",
    };
    let requests = if verbosity < 3 { "off" } else { "info" };
    // Libraries log warnings only, unless `RUST_LOG` names them.
    let default = format!(
        "warn,apiserver={level},client={level},component_base={level},controller_manager={level},scheduler={level},kubelet_sim={level},proxy_sim={level},orrery={level},{REQUESTS}={requests}"
    );
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
}
