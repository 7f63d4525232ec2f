//! The API server alone, as a process over TLS: whatever changes its store, a test's own requests did it.

use crate::ask::Ask;
use crate::store::Store;
use client::Client;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::lifecycle::PARENT_PIPE;
use orrery::certificates;
use orrery::up::components::components;
use orrery::up::data_dir::DataDir;
use orrery::up::ready::Waiting;
use orrery::up::{Options, identities};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running `orrery apiserver` with the files and flags that `orrery up` gives it.
#[derive(Debug)]
pub struct ApiServer {
    child: Child,
    pub env: Env,
    pub data_dir: DataDir,
    /// As the administrator.
    pub admin: Connection,
}

impl ApiServer {
    /// Starts the server and waits until it is ready.
    pub async fn start(program: &Path, directory: &Path, store: Store<'_>) -> Self {
        let port = crate::processes::free_ports();
        let options = store.options(Options { port: Some(port), ..Options::defaults(directory.join("data")) });
        let data_dir = DataDir::open(&options.place.root()).expect("the directory is ours");
        let env = Env::system();
        let admin = certificates::prepare(&identities(&options, &data_dir), env.wall()).expect("the directory is ours");
        let components = components(&options, 2, &data_dir);
        let apiserver = components.first().expect("the API server comes first");
        let child = Command::new(program)
            .arg(apiserver.name)
            .args(&apiserver.arguments)
            .env(PARENT_PIPE, "1") // it ends with this process
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let waiting = Waiting::new(&env, &admin, &options).expect("the connection was just made");
        waiting.component(apiserver).await.expect("the API server gets ready");
        Self { child, env, data_dir, admin }
    }

    pub fn client(&self, connection: &Connection) -> Client {
        Client::connect(&self.env, connection, "e2e").expect("the connection is well-formed")
    }

    /// The revision of the whole store.
    pub async fn revision(&self) -> Value {
        let list = Ask::get("/api/v1/namespaces/none/configmaps").of(&self.client(&self.admin)).await;
        let list = list.expect("the server is there").body;
        list["metadata"]["resourceVersion"].clone()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
