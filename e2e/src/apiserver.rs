//! `ApiServer`: an API server alone, as a process over TLS. Only the test's own requests change its store.

use crate::raw_request::RawRequest;
use crate::store::Store;
use client::Client;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::lifecycle::PARENT_PIPE;
use orrery::certificates;
use orrery::up::components::{Component, components};
use orrery::up::data_dir::DataDir;
use orrery::up::ready::Waiting;
use orrery::up::{Options, identities};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

/// A running `orrery apiserver` with the files and flags that `orrery up` gives it.
pub struct ApiServer {
    program: PathBuf,
    component: Component,
    waiting: Waiting,
    child: Child,
    pub env: Env,
    pub data_dir: Arc<DataDir>,
    /// The administrator's connection.
    pub admin: Connection,
    /// Path of the server's log.
    pub log: PathBuf,
}

impl ApiServer {
    /// Starts the server and waits until it is ready.
    pub async fn start(program: &Path, directory: &Path, store: Store<'_>) -> Self {
        let data_dir = DataDir::open(&directory.join("data")).expect("the directory is ours");
        Self::start_in(program, Arc::new(data_dir), store, &[]).await
    }

    /// Starts the server with further flags in a directory whose certificates several servers may share.
    pub async fn start_in(program: &Path, data_dir: Arc<DataDir>, store: Store<'_>, flags: &[&str]) -> Self {
        let port = crate::processes::free_ports();
        let options = store.options(Options { port: Some(port), ..Options::defaults(data_dir.root().to_owned()) });
        let env = Env::system();
        let admin = certificates::prepare(&identities(&options, &data_dir), env.wall()).expect("the directory is ours");
        let mut component = components(&options, 2, &data_dir).into_iter().next().expect("the API server comes first");
        component.arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let log = data_dir.log_of(&format!("apiserver-{port}"));
        let waiting = Waiting::new(&env, &admin, &options).expect("the connection was just made");
        let child = spawn(program, &component, &log);
        let server = Self { program: program.to_owned(), component, waiting, child, env, data_dir, admin, log };
        server.ready().await;
        server
    }

    /// Stops the server cleanly.
    pub fn stop(&mut self) {
        crate::processes::signal("TERM", self.child.id());
        let status = self.child.wait().expect("a started process can be waited for");
        assert!(status.success(), "a clean stop ends with 0, not {status}");
    }

    /// Waits until the server's process has ended by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        crate::wait::until("the API server has ended", || {
            ended = self.child.try_wait().expect("a started process can be waited for");
            ended.is_some()
        });
        ended.expect("it has just been seen")
    }

    /// Kills the server, like a crash.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Restarts the server after its end, and waits until it is ready.
    pub async fn restart(&mut self) {
        self.child = spawn(&self.program, &self.component, &self.log);
        self.ready().await;
    }

    /// Waits until the server is ready and has written its initial objects. The last of these writes are the conditions
    /// of FlowSchemas and APIServices.
    async fn ready(&self) {
        self.waiting.component(&self.component).await.expect("the API server gets ready");
        let client = self.client(&self.admin);
        let has_conditions = |object: &Value| object["status"]["conditions"].is_array();
        for list in ["/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "/apis/apiregistration.k8s.io/v1/apiservices"]
        {
            let all_have = async || {
                let Ok(answer) = RawRequest::get(list).send(&client).await else { return false };
                // A server that refuses the list, or has no such objects, counts as ready.
                answer.code != 200
                    || answer.body["items"].as_array().is_some_and(|items| items.iter().all(has_conditions))
            };
            crate::wait::until_async("what the server writes by itself has its conditions", all_have).await;
        }
    }

    pub fn client(&self, connection: &Connection) -> Client {
        Client::connect(&self.env, connection, "e2e").expect("the connection is well-formed")
    }

    /// Returns the revision of the whole store.
    pub async fn revision(&self) -> Value {
        let list = RawRequest::get("/api/v1/namespaces/none/configmaps").send(&self.client(&self.admin)).await;
        let list = list.expect("the server is there").body;
        list["metadata"]["resourceVersion"].clone()
    }
}

fn spawn(program: &Path, component: &Component, log: &Path) -> Child {
    Command::new(program)
        .arg(component.name)
        .args(&component.arguments)
        .env(PARENT_PIPE, "1") // it ends with this process
        .stdin(Stdio::piped())
        .stderr(File::create(log).expect("the directory is ours"))
        .spawn()
        .expect("the program starts")
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.kill();
    }
}
