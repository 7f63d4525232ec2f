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
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A running `orrery apiserver` with the files and flags that `orrery up` gives it.
#[derive(Debug)]
pub struct ApiServer {
    child: Child,
    pub env: Env,
    pub data_dir: Arc<DataDir>,
    /// As the administrator.
    pub admin: Connection,
    /// What it says.
    pub log: PathBuf,
}

impl ApiServer {
    /// Starts the server and waits until it is ready.
    pub async fn start(program: &Path, directory: &Path, store: Store<'_>) -> Self {
        let data_dir = DataDir::open(&directory.join("data")).expect("the directory is ours");
        Self::start_in(program, Arc::new(data_dir), store, &[]).await
    }

    /// The same in a directory whose certificates others may use too, with further flags.
    pub async fn start_in(program: &Path, data_dir: Arc<DataDir>, store: Store<'_>, flags: &[&str]) -> Self {
        let port = crate::processes::free_ports();
        let options = store.options(Options { port: Some(port), ..Options::defaults(data_dir.root().to_owned()) });
        let env = Env::system();
        let admin = certificates::prepare(&identities(&options, &data_dir), env.wall()).expect("the directory is ours");
        let components = components(&options, 2, &data_dir);
        let apiserver = components.first().expect("the API server comes first");
        let log = data_dir.log_of(&format!("apiserver-{port}"));
        let child = Command::new(program)
            .arg(apiserver.name)
            .args(&apiserver.arguments)
            .args(flags)
            .env(PARENT_PIPE, "1") // it ends with this process
            .stdin(Stdio::piped())
            .stderr(File::create(&log).expect("the directory is ours"))
            .spawn()
            .expect("the program starts");
        let waiting = Waiting::new(&env, &admin, &options).expect("the connection was just made");
        waiting.component(apiserver).await.expect("the API server gets ready");
        Self { child, env, data_dir, admin, log }
    }

    /// A clean stop.
    pub fn stop(&mut self) {
        crate::processes::signal("TERM", self.child.id());
        let status = self.child.wait().expect("a started process can be waited for");
        assert!(status.success(), "a clean stop ends with 0, not {status}");
    }

    /// As a crash does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
        self.kill();
    }
}
