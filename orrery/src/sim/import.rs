//! `orrery sim import`: a workload out of what a real cluster did.

use clap::Args;
use experiments::recording;
use proto::serializer::yaml;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Options of `orrery sim import`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Audit log (audit.k8s.io/v1, one event a line) or the output of `kubectl get pods --all-namespaces --watch -o json`; `-`
    /// reads standard input
    pub recording: PathBuf,
    /// File to write, for `kubectlPods` of a study; it must not exist yet
    #[arg(long, default_value = "pods.yaml")]
    pub out: PathBuf,
}

/// Imports a recording, and returns what to tell the user.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    let name = options.recording.display().to_string();
    let at = |path: &Path, error: io::Error| vec![format!("{}: {error}", path.display())];
    let text = if name == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(&options.recording)
    };
    let text = text.map_err(|error| at(&options.recording, error))?;
    let found = recording::read(&name, &text)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let written = OpenOptions::new().write(true).create_new(true).open(&options.out);
    let written = written.and_then(|mut file| file.write_all(yaml::to_yaml(&found.list()).as_bytes()));
    written.map_err(|error| at(&options.out, error))?;
    let mut lines: Vec<String> = found.remarks.iter().map(|remark| format!("note: {remark}")).collect();
    let count = found.pods.len();
    lines.push(format!("{} has {count} pods, created within {:.0} s", options.out.display(), found.span_s()));
    Ok(lines.join("\n"))
}
