//! `Progress`: the output of `up`: a line for each component, and how to use the cluster.

use super::data_dir::DataDir;
use super::{Options, StoreKind};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Prints to standard output, one line at a time.
#[derive(Debug)]
pub struct Progress {
    is_terminal: bool,
    colours: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    pub fn new() -> Self {
        // https://no-color.org
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_terminal = std::io::stdout().is_terminal();
        Self { is_terminal, colours: is_terminal && !unwanted }
    }

    fn line(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // The output may be closed; the cluster goes on.
        let _ = writeln!(out, "{text}");
        let _ = out.flush();
    }

    pub fn ready(&self, component: &str, what: &str) {
        let mark = if self.colours { "\u{1b}[32m✓\u{1b}[0m" } else { "✓" };
        self.line(&format!("{mark} {component:<19} {what}"));
    }

    /// Reports that a component ended by itself, with its status and last log line.
    pub fn restarting(&self, component: &str, status: &str, last_log_line: Option<&str>, delay: Duration) {
        let words = last_log_line.map(|words| format!(": {words}")).unwrap_or_default();
        let delay_s = delay.as_secs_f64();
        self.line(&format!("! {component} ended ({status}){words}; starting it again in {delay_s} s"));
    }

    /// Starts a new line after the `^C` that the terminal has echoed.
    pub fn stopping(&self) {
        if self.is_terminal {
            self.line("");
        }
    }

    pub fn stopped(&self, component: &str) {
        self.line(&format!("- {component} stopped"));
    }

    /// Prints how to use the cluster.
    pub fn greet(&self, options: &Options, data_dir: &DataDir) {
        let kubeconfig = options.kubeconfig.clone().unwrap_or_else(|| data_dir.kubeconfig());
        let state = match options.store {
            StoreKind::Embedded => format!("its state stays in {}", data_dir.root().display()),
            StoreKind::Memory => "its state goes with it".to_owned(),
            StoreKind::Etcd => "its state stays in etcd".to_owned(),
        };
        let stop = match (options.detached, options.place.has_default_name()) {
            (false, _) => "Ctrl-C".to_owned(),
            (true, true) => "`orrery down`".to_owned(),
            (true, false) => format!("`orrery down --name {}`", options.place.name),
        };
        self.line(&format!(
            "\nThe cluster is ready. Stop it with {stop}; {state}.\n\n  \
             export KUBECONFIG={}\n  kubectl get nodes\n",
            kubeconfig.display()
        ));
    }
}
