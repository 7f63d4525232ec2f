//! Tests that every component starts with the shortest command line with which Kubernetes' component of that name
//! starts.

use crate::program;
use component_base::lifecycle::PARENT_PIPE;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::processes::free_ports;
use e2e::store::Store;
use e2e::wait;
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A component's process. It is killed when this value is dropped.
pub struct Running(Child);

impl Running {
    /// Starts a component that listens on loopback. Its working directory is `directory`, where it also writes `log`.
    pub fn start(directory: &Path, component: &str, arguments: &[String]) -> Self {
        let child = Command::new(program())
            .arg(component)
            .args(arguments)
            .arg("--bind-address=127.0.0.1")
            .current_dir(directory)
            .env_remove("KUBECONFIG")
            .env(PARENT_PIPE, "1") // it ends with this process
            .stdin(Stdio::piped())
            .stderr(File::create(directory.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A component, the identity that it uses, the arguments that Kubernetes' component needs, the files of the certificate
/// that it issues to itself, and the flag for its port.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str], &'static str);

const ROWS: &[Row] = &[
    ("controller-manager", "controller-manager", "--kubeconfig=KUBECONFIG", &[], "secure-port"),
    ("scheduler", "scheduler", "--kubeconfig=KUBECONFIG", &[], "secure-port"),
    (
        "cloud-controller-manager",
        "admin",
        "--kubeconfig=KUBECONFIG --cloud-provider=orrery --cloud-config=KUBECONFIG --configure-cloud-routes=false",
        &[],
        "secure-port",
    ),
    // The default of `--cert-dir` is a folder of the machine.
    ("kubelet-sim", "kubelet-sim", "--kubeconfig=KUBECONFIG --cert-dir=made", &["kubelet.crt", "kubelet.key"], "port"),
    ("proxy-sim", "proxy-sim", "--kubeconfig=KUBECONFIG", &[], "secure-port"),
    (
        "apiserver",
        "admin",
        "--cert-dir=made --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=SA_KEY \
         --service-account-signing-key-file=SA_KEY --data-dir=store",
        &["apiserver.crt", "apiserver.key"],
        "secure-port",
    ),
];

/// Writes a kubeconfig that accepts any server certificate, since no authority has signed a self-signed one.
fn trusting_kubeconfig(server: &ApiServer, directory: &Path, port: u16) -> PathBuf {
    let admin = server.data_dir.pki_of("admin");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "own",
        "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        "clusters": [{"name": "own", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true,
        }}],
        "users": [{"name": "own", "user": {
            "client-certificate": admin.join("client.crt"), "client-key": admin.join("client.key"),
        }}],
    });
    let path = directory.join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// Starts the component with its arguments and with a port on loopback, and waits until it is healthy.
fn try_row(server: &ApiServer, directory: &Path, row: &Row) {
    let (component, identity, line, files, port_flag) = *row;
    let own = directory.join(component);
    fs::create_dir(&own).unwrap();
    let kubeconfig = server.data_dir.pki_of(identity).join("kubeconfig");
    let line = line.replace("KUBECONFIG", &kubeconfig.display().to_string());
    let line = line.replace("SA_KEY", &server.data_dir.pki_of("apiserver").join("sa.key").display().to_string());
    let port = free_ports();
    let mut arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    arguments.push(format!("--{port_flag}={port}"));
    let mut running = Running::start(&own, component, &arguments);
    let stranger = Kubectl::new(&trusting_kubeconfig(server, &own, port), &own);
    wait::until(&format!("{component} is well"), || {
        let ended = running.0.try_wait().unwrap();
        assert!(ended.is_none(), "{component} ended: {}", fs::read_to_string(own.join("log")).unwrap());
        stranger.run("get --raw /healthz").stdout == "ok"
    });
    for file in files {
        assert!(own.join("made").join(file).exists(), "{component}: {file}");
    }
    // A component without `--cert-dir` writes no key to the disk.
    let left: Vec<_> = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let pems = left.iter().filter(|name| name.to_string_lossy().ends_with(".key")).count();
    assert_eq!(pems, 0, "{component}: {left:?}");
}

#[tokio::test]
async fn every_component_starts_with_the_shortest_command_line() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Memory).await;
    for row in ROWS {
        try_row(&server, directory.path(), row);
    }
}
