//! `Latency`: how long things take on a simulated machine, unless a story says otherwise.

use clap::Args;
use component_base::duration::parse_duration;
use component_base::options;
use std::time::Duration;

/// How long the actions of a simulated machine take.
#[derive(Args, Clone, Debug)]
pub struct Latency {
    /// Creating a pod's sandbox
    #[arg(long = "sandbox-time", default_value = "0", value_parser = parse_duration)]
    pub sandbox: Duration,
    /// Pulling an image that the node does not have
    #[arg(long = "image-pull-time", default_value = "400ms", value_parser = parse_duration)]
    pub image_pull: Duration,
    /// Creating and starting a container
    #[arg(long = "container-start-time", default_value = "100ms", value_parser = parse_duration)]
    pub container_start: Duration,
    /// From SIGTERM to the end of a container
    #[arg(long = "container-stop-time", default_value = "200ms", value_parser = parse_duration)]
    pub stop: Duration,
    /// How long init containers run
    #[arg(long = "init-run-time", default_value = "500ms", value_parser = parse_duration)]
    pub init_run: Duration,
    /// How long containers of pods with restart policy OnFailure or Never run
    #[arg(long = "job-run-time", default_value = "5s", value_parser = parse_duration)]
    pub job_run: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        options::defaults()
    }
}
