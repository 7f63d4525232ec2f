//! Scheduling policies as scripts in Luau: the plugin `Script`, which a configuration names with a file.
//!
//! Kubernetes has no such plugin. A script defines `filter(pod, node)`, `score(pod, node)` and `rank(pod)`, or some of them.
//! `docs/scheduler.md` describes what a script gets and may do.
//!
//! ```text
//! pluginConfig ─▶ plugin ─▶ machine ─▶ sandbox   what a script may use, and how much
//!                              │   └──▶ failure   a message with path, line and column
//!                              └──────▶ values    pods and nodes as tables, kept while they do not change
//! ```

mod failure;
mod sandbox;
mod values;
pub mod machine;
pub mod plugin;

use plugin::Script;
use scheduling_framework::Registry;
use scheduling_framework::configuration::Configuration;
use scheduling_framework::configuration::args::{self, ScriptArgs, script};
use std::path::PathBuf;

/// Adds the plugin under each of its names.
pub fn register(registry: &mut Registry) {
    for name in script::NAMES {
        registry.add(name, move |args| Script::new(name, &args::of(args)?).map(Script::points));
    }
}

/// Returns the files of the scripts that a configuration enables.
pub fn paths(configuration: &Configuration) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for profile in &configuration.profiles {
        let enabled = profile.plugins.names();
        for name in script::NAMES.iter().filter(|name| enabled.contains(*name)) {
            let path = args::of::<ScriptArgs>(profile.args_of(name)).ok().and_then(|args| args.path);
            paths.extend(path.map(PathBuf::from));
        }
    }
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests;
