//! The version that clients are told: of the Kubernetes release whose behaviour is modelled.
//!
//! Corresponds to k8s.io/component-base/version.

use component_base::metrics::Labels;
use serde::Serialize;

/// What clients compare with, letter by letter: the original's. Whose server it is says the `compiler` beside it, and the
/// metric `orrery_build_info`.
///
/// Deviation: this server was not built from a commit of Kubernetes and names none, so the flag `--match-server-version` of
/// kubectl, which compares commits too, still refuses it.
pub const GIT_VERSION: &str = "v1.36.2";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

pub fn info() -> Info {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    Info {
        major: "1",
        minor: "36",
        emulation_major: "1",
        emulation_minor: "36",
        min_compatibility_major: "1",
        min_compatibility_minor: "35",
        git_version: GIT_VERSION,
        git_commit: "",
        git_tree_state: "",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "",
        compiler: "rustc",
        platform: format!("{}/{arch}", std::env::consts::OS),
    }
}

/// The same for a metric.
pub fn labels() -> Labels {
    let info = info();
    let fixed = [
        ("build_date", info.build_date),
        ("compiler", info.compiler),
        ("git_commit", info.git_commit),
        ("git_tree_state", info.git_tree_state),
        ("git_version", info.git_version),
        ("go_version", info.go_version),
        ("major", info.major),
        ("minor", info.minor),
    ];
    let mut labels: Labels = fixed.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
    labels.push(("platform", info.platform));
    labels
}

/// Whose server it is, for a metric.
pub fn own_labels() -> Labels {
    vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("models", GIT_VERSION.to_owned())]
}

#[cfg(test)]
mod tests {
    use crate::testing::Api;

    /// Tools compare the whole text.
    #[tokio::test(start_paused = true)]
    async fn clients_are_told_the_originals_version_and_a_metric_whose_server_it_is() {
        let api = Api::start().await;
        let version = api.get("/version").await.body;
        assert_eq!((version["gitVersion"].as_str(), version["compiler"].as_str()), (Some("v1.36.2"), Some("rustc")));
        let metrics = api.get("/metrics").await.text;
        let own = format!("orrery_build_info{{version=\"{}\",models=\"v1.36.2\"}} 1\n", env!("CARGO_PKG_VERSION"));
        assert!(metrics.contains(&own), "{metrics}");
        assert!(metrics.contains("git_version=\"v1.36.2\""), "{metrics}");
    }
}
