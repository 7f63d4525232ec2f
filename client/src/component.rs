//! `Component`: a component other than the API server: a client with its own port and, if several run, leader election.
//!
//! ```text
//! let client = COMPONENT.connect(&env, &config.client)?;
//! COMPONENT.serve(&client, &config.serving, HealthServer::new()).await?;
//! COMPONENT.lead(&client, &config.election, "kube-scheduler", |client| work(client)).await?;
//! ```
//!
//! Corresponds to Run in cmd/kube-scheduler/app/server.go and cmd/kube-controller-manager/app/controllermanager.go.

use crate::client::{Client, ConnectError};
use crate::delegated_auth::DelegatedAuth;
use crate::leader::{LeaderElection, LeadershipLost, identity};
use component_base::env::Env;
use component_base::health_server::{HealthServer, HealthServerError};
use component_base::options::{
    ClientOptions, ConfigFileError, LeaderElectionOptions, OptionsError, OwnCertificate, ServingOptions,
};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Name of the program in user agents and identities.
    pub name: &'static str,
    /// Default port.
    pub port: u16,
    /// Name of the original program, and of the files of a self-made certificate.
    pub original: &'static str,
}

/// The reason why a component does not run, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    #[error(transparent)]
    Serving(#[from] HealthServerError),
    #[error(transparent)]
    Leadership(#[from] LeadershipLost),
}

impl Component {
    /// Returns a client of the API server that the flags name. The server need not be up yet.
    pub fn connect(&self, env: &Env, options: &ClientOptions) -> Result<Client, Error> {
        let (client, renewal) = Client::from_options(env, options, self.name)?.renewable();
        if !env.is_simulated() {
            env.spawn(renewal.follow(options.path().map_err(ConnectError::from)?));
        }
        Ok(client)
    }

    /// Adds a self-made certificate, in this folder or in memory, if the options have none.
    pub fn with_certificate(
        &self,
        env: &Env,
        serving: ServingOptions,
        folder: Option<&Path>,
    ) -> Result<ServingOptions, Error> {
        let names = [serving.bind_address].into_iter().filter(|address| !address.is_unspecified());
        let names = names.map(|address| address.to_string()).collect();
        Ok(serving.with_own_certificate(env, &OwnCertificate { folder, name: self.original, names })?)
    }

    /// Serves the component's own port until shutdown: health for everybody, other paths for callers that the API server
    /// admits.
    pub async fn serve(&self, client: &Client, options: &ServingOptions, pages: HealthServer) -> Result<(), Error> {
        self.serve_behind(DelegatedAuth::new(client), client, options, pages).await
    }

    /// Serves the component's own port with another access check.
    pub async fn serve_behind(
        &self,
        gate: DelegatedAuth,
        client: &Client,
        options: &ServingOptions,
        pages: HealthServer,
    ) -> Result<(), Error> {
        Ok(pages.access_check(Arc::new(gate)).start(client.env(), self.name, options, self.port).await?)
    }

    /// Runs `work` once elected, or at once without election. The client that `work` gets stops with the leadership, and
    /// everything that it started has ended before this returns.
    pub async fn lead<Fut>(
        &self,
        client: &Client,
        options: &LeaderElectionOptions,
        lease_name: &str,
        work: impl FnOnce(Client) -> Fut,
    ) -> Result<(), Error>
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        options.validate()?;
        if !options.leader_elect {
            work(client.clone()).await;
            return Ok(());
        }
        let env = client.env();
        let election = LeaderElection {
            lease_name: options.leader_elect_resource_name.clone().unwrap_or_else(|| lease_name.to_owned()),
            namespace: options.leader_elect_resource_namespace.clone(),
            identity: identity(env, self.name),
            lease_duration: options.leader_elect_lease_duration,
            renew_deadline: options.leader_elect_renew_deadline,
            retry_period: options.leader_elect_retry_period,
        };
        Ok(election.run(env, client, |leading| work(client.in_env(&leading))).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use client_testing::FakeServer;
    use std::time::Duration;

    const COMPONENT: Component = Component { name: "scheduler", port: 10259, original: "kube-scheduler" };

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        election: LeaderElectionOptions,
    }

    /// Leads for ten seconds with these flags. Returns the Leases that exist then, and the result.
    async fn lead(flags: &[&str]) -> (Vec<String>, Result<(), Error>) {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let client = Client::from_service(&env, server.service(), "test");
        let options = Command::parse_from([&["scheduler"], flags].concat()).election;
        let seen = server.clone();
        let (leases, held) = tokio::sync::oneshot::channel();
        let work = |client: Client| async move {
            client.env().sleep(Duration::from_secs(10)).await;
            let name = |lease: &serde_json::Value| {
                let meta = &lease["metadata"];
                format!("{}/{}", meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap())
            };
            leases.send(seen.list("leases.coordination.k8s.io").iter().map(name).collect()).unwrap();
        };
        let ended = COMPONENT.lead(&client, &options, "kube-scheduler", work).await;
        (held.await.unwrap_or_default(), ended)
    }

    #[tokio::test(start_paused = true)]
    async fn it_works_once_elected_or_at_once() {
        let (leases, ended) = lead(&[]).await;
        assert_eq!(leases, ["kube-system/kube-scheduler"]);
        ended.unwrap();
        let flags = ["--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=ns"];
        assert_eq!(lead(&flags).await.0, ["ns/mine"]);
        let (leases, ended) = lead(&["--leader-elect=false"]).await;
        assert_eq!(leases, [""; 0]);
        ended.unwrap();
        let refused = lead(&["--leader-elect-lease-duration=3s"]).await.1.unwrap_err().to_string();
        assert_eq!(refused, "--leader-elect-lease-duration: must be greater than --leader-elect-renew-deadline");
    }
}
