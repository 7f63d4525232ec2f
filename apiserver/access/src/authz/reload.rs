//! Reloads the file of `--authorization-config` while the server runs.
//!
//! Corresponds to reload.go of pkg/kubeapiserver/authorizer.

use super::Authorization;
use super::chain::Chain;
use super::options::AuthorizationOptions;
use crate::configuration_file::{self, ReloadMetrics};
use component_base::env::Env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RELOADS: ReloadMetrics = ReloadMetrics {
    total: "apiserver_authorization_config_controller_automatic_reloads_total",
    last: "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
};

/// Replaces the authorizers whenever the file changes, until shutdown.
pub async fn run(env: Env, path: PathBuf, authorization: Arc<Authorization>) {
    let file = path.clone();
    let apply = || {
        authorization.replace(read(&env, &file, &authorization)?);
        Ok(())
    };
    configuration_file::follow(env.clone(), path, RELOADS, apply).await;
}

fn read(env: &Env, path: &Path, authorization: &Authorization) -> Result<Chain, String> {
    let authorizers = AuthorizationOptions::of_file(path).map_err(|error| error.to_string())?;
    let chain = Chain::new(env, authorizers)?;
    let (was, is) = (authorization.chain().own_modes(), chain.own_modes());
    if was != is {
        let list = |modes: &std::collections::BTreeSet<super::Mode>| {
            modes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        return Err(format!(
            "authorizers other than webhooks may not come or go: {} were there, not {}",
            list(&was),
            list(&is)
        ));
    }
    Ok(chain)
}
