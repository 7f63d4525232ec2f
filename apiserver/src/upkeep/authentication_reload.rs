//! Reloads the file of `--authentication-config` when it changes.
//!
//! Corresponds to the reloading of pkg/kubeapiserver/options/authentication.go.

use crate::config::Config;
use access::authn::jwt::options::IssuerOptions;
use access::authn::{ActiveConfiguration, Authentication};
use access::configuration_file;
use access::configuration_file::ReloadMetrics;
use component_base::env::Env;
use std::path::PathBuf;
use std::sync::Arc;

const RELOADS: ReloadMetrics = ReloadMetrics {
    total: "apiserver_authentication_config_controller_automatic_reloads_total",
    last: "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
};

/// Follows the file until shutdown.
pub async fn run(env: Env, config: Config, authentication: Arc<Authentication>, path: PathBuf) {
    let file = path.clone();
    let apply = || {
        let configured =
            IssuerOptions::of_file(&file, &config.service_account_issuer).map_err(|error| error.to_string())?;
        authentication.replace(ActiveConfiguration::new(&env, configured, config.allows_anonymous()));
        Ok(())
    };
    configuration_file::follow(env.clone(), path, RELOADS, apply).await;
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::testing::Api;
    use http::Method;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn who_may_be_anonymous_is_what_the_file_says_now() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |anonymous: &str| {
            let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
            std::fs::write(file.path(), format!("{head}{anonymous}")).unwrap();
        };
        write("");
        let mut config = Config::default();
        config.issuers.authentication_config = Some(file.path().to_owned());
        let api = Api::with(config).await;
        let nobody = [("authorization", "")];
        let codes = async || {
            api.server.server.env.sleep(Duration::from_secs(2)).await;
            let code = async |path: &str| api.ask(Method::GET, path, "", &nobody).await.code;
            (code("/livez").await, code("/version").await, code("/api/v1/secrets").await)
        };
        for (anonymous, expected) in [
            ("", (200, 200, 403)),
            ("anonymous: {enabled: false}", (401, 401, 401)),
            ("anonymous: {enabled: true, conditions: [{path: /livez}]}", (200, 401, 401)),
            ("anonymous: {enabled: maybe}", (200, 401, 401)),
            ("anonymous: {enabled: true}", (200, 200, 403)),
        ] {
            write(anonymous);
            assert_eq!(codes().await, expected, "{anonymous}");
        }
    }
}
