//! Runs the cloud as a process, or inside another one.

use crate::allowed_clients::AllowedClients;
use crate::cloud::Cloud;
use crate::config::Config;
use crate::model::Holdings;
use crate::problem::Problem;
use crate::routes::routes;
use crate::running::RunningCloud;
use crate::state_file::{StateFile, StateFileError};
use component_base::env::Env;
use component_base::health_server::{HealthServer, HealthServerError};
use component_base::options::{OptionsError, OwnCertificate};
use std::sync::Arc;

/// Name of the program, and its default port.
pub const NAME: &str = "cloud-sim";
pub const PORT: u16 = 10300;

/// Why the cloud does not run, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    State(#[from] StateFileError),
    #[error("the command line does not fit the cloud: {0}")]
    Setup(#[from] Problem),
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Serving(#[from] HealthServerError),
}

/// Serves the cloud until the environment shuts down.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let cloud = start(&config, &env).await?;
    env.shutdown().cancelled().await;
    drop(cloud);
    Ok(())
}

/// Starts to serve the cloud, at its port or, in process, under `cloud-sim:PORT`.
pub async fn start(config: &Config, env: &Env) -> Result<RunningCloud, Error> {
    let file = StateFile::new(config.state_file.clone());
    let cloud = RunningCloud::new(env, set_up(config, file.read()?)?, file.clone());
    file.write(&cloud.look(|cloud| cloud.holdings().clone()))?;
    let own = OwnCertificate { folder: None, name: NAME, names: vec![config.serving.bind_address.to_string()] };
    let serving = config.serving.clone().with_own_certificate(env, &own)?;
    let gate = AllowedClients { names: config.allowed_clients.clone() };
    let pages = HealthServer::new().pages(routes(cloud.clone())).access_check(Arc::new(gate));
    pages.start(env, NAME, &serving, PORT).await?;
    Ok(cloud)
}

/// Returns the cloud of an earlier run, as the command line changes it.
fn set_up(config: &Config, earlier: Holdings) -> Result<Cloud, Problem> {
    let settings = config.settings.applied_to(&earlier.settings);
    let mut cloud = Cloud::new(config.site(), earlier);
    cloud.set_settings(settings)?;
    for group in config.groups() {
        cloud.set_up_group(group)?;
    }
    Ok(cloud)
}
