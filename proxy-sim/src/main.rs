//! The `proxy-sim` program.

use clap::Parser;
use component_base::{lifecycle, logging};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "proxy-sim", version, about = "Simulated service proxies of all nodes")]
struct Arguments {
    #[command(flatten)]
    config: proxy_sim::Config,
}

fn main() -> ExitCode {
    let Arguments { config } = Arguments::parse();
    logging::init(2);
    lifecycle::run_main("proxy-sim", |env| proxy_sim::run(config, env))
}
