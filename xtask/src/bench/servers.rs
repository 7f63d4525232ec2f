//! The servers under measurement: processes of the one program, on loopback, with certificates made for the occasion.

use super::process::{self, Usage};
use super::{Bench, Error};
use client::Client;
use client::request::Call;
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection};
use component_base::pki::{self, Authority, Subject};
use component_base_testing::etcd_process::{EtcdOptions, EtcdProcess};
use http::Method;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A member of `system:masters`, as the load generators of the original's benchmarks are.
const TOKEN: &str = "benchmark";
const READY_WITHIN: Duration = Duration::from_secs(30);
const READY_LOOK: Duration = Duration::from_millis(5);

/// How an API server is started.
#[derive(Debug, Default)]
pub struct Setup {
    /// More lines of the file of static tokens.
    pub tokens: String,
    /// Client certificates of the servers' own authority are known.
    pub knows_certificates: bool,
    pub arguments: Vec<String>,
}

impl Setup {
    /// As most scenarios measure it: no accounts are there that pods could use.
    pub fn usual() -> Self {
        Self { arguments: vec!["--disable-admission-plugins=ServiceAccount".to_owned()], ..Self::default() }
    }
}

/// An API server and the components that a scenario wants beside it. They end with this.
pub struct Servers {
    env: Env,
    /// Of the member of `system:masters`.
    pub connection: Connection,
    authority: Authority,
    children: Vec<(&'static str, Child)>,
    etcd: Option<EtcdProcess>,
    directory: TempDir,
    /// From the start of the process to the first success of `/readyz`.
    pub ready_after: Duration,
}

impl Servers {
    /// Starts an API server on `engine` (`memory`, `embedded`, or `etcd` with a member of its own) and waits until it is
    /// ready.
    pub async fn start(bench: &Bench, engine: &'static str) -> Result<Self, Error> {
        Self::start_as(bench, engine, &Setup::usual()).await
    }

    /// The same, started in another way.
    pub async fn start_as(bench: &Bench, engine: &'static str, setup: &Setup) -> Result<Self, Error> {
        let directory = tempfile::tempdir().map_err(|error| Error::Io("temporary directory".to_owned(), error))?;
        let at = |name: &str| directory.path().join(name);
        let authority = Authority::load_or_create(&at("ca"), bench.env.wall())?;
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let subject = Subject { common_name: "kube-apiserver", organizations: &[], names: &names };
        let pair = authority.issue(&subject, bench.env.wall())?;
        write(&at("tls.crt"), &pair.cert_pem)?;
        write(&at("tls.key"), &pair.key_pem)?;
        write(&at("sa.key"), &pki::signing_key()?)?;
        write(&at("tokens.csv"), &format!("{TOKEN},benchmark,benchmark,\"system:masters\"\n{}", setup.tokens))?;
        let port = free_port()?;
        let connection = Connection {
            server: format!("https://127.0.0.1:{port}"),
            ca_pem: Some(authority.cert_pem.clone()),
            token: Some(TOKEN.to_owned()),
            ..Connection::default()
        };
        kubeconfig::write(&at("kubeconfig"), &connection, "orrery", "benchmark")?;
        let etcd = (engine == "etcd").then(|| EtcdProcess::start(directory.path(), &EtcdOptions::default()));
        let urls = etcd.as_ref().map(|etcd| format!("--etcd-servers={}", etcd.urls().join(",")));
        let (env, children) = (bench.env.clone(), Vec::new());
        let ready_after = Duration::ZERO;
        let mut servers = Self { env, connection, authority, children, etcd, directory, ready_after };
        let began = bench.env.now();
        let path = |name: &str| servers.directory.path().join(name).display().to_string();
        let mut arguments = vec![
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", path("tls.crt")),
            format!("--tls-private-key-file={}", path("tls.key")),
            format!("--service-account-signing-key-file={}", path("sa.key")),
            format!("--token-auth-file={}", path("tokens.csv")),
            format!("--store={engine}"),
            format!("--data-dir={}", path("store")),
            "--max-requests-inflight=0".to_owned(),
            "--max-mutating-requests-inflight=0".to_owned(),
        ];
        arguments.extend(urls);
        if setup.knows_certificates {
            write(Path::new(&path("clients.crt")), &servers.authority.cert_pem)?;
            arguments.push(format!("--client-ca-file={}", path("clients.crt")));
        }
        arguments.extend(setup.arguments.iter().cloned());
        servers.spawn(bench, "apiserver", &arguments)?;
        servers.ready().await?;
        servers.ready_after = bench.env.now().duration_since(began);
        Ok(servers)
    }

    /// Starts a component beside the API server.
    pub fn add(&mut self, bench: &Bench, name: &'static str, arguments: &[&str]) -> Result<(), Error> {
        let kubeconfig = format!("--kubeconfig={}", self.directory.path().join("kubeconfig").display());
        let mut all = vec![kubeconfig, "--secure-port=0".to_owned()];
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self.spawn(bench, name, &all)
    }

    /// Starts a component that serves its pages, and returns a client of them. They are there once the component is ready.
    pub fn add_serving(&mut self, bench: &Bench, name: &'static str, arguments: &[&str]) -> Result<Client, Error> {
        let port = free_port()?;
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let mut all = vec![
            format!("--kubeconfig={}", path("kubeconfig")),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", path("tls.crt")),
            format!("--tls-private-key-file={}", path("tls.key")),
        ];
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self.spawn(bench, name, &all)?;
        let connection = Connection { server: format!("https://127.0.0.1:{port}"), ..self.connection.clone() };
        Ok(Client::connect(&self.env, &connection, "orrery-bench")?)
    }

    fn spawn(&mut self, bench: &Bench, name: &'static str, arguments: &[String]) -> Result<(), Error> {
        let log = self.directory.path().join(format!("{name}.log"));
        let log = fs::File::create(&log).map_err(|error| Error::Io(log.display().to_string(), error))?;
        let child = Command::new(&bench.program)
            .args(["-v", "0", name])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| Error::Io(bench.program.display().to_string(), error))?;
        self.children.push((name, child));
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), Error> {
        let client = self.client()?;
        let ready = async {
            while client.call(&Call::new(Method::GET, "/readyz")).await.is_err() {
                self.env.sleep(READY_LOOK).await;
            }
        };
        if self.env.timeout(READY_WITHIN, ready).await.is_ok() {
            return Ok(());
        }
        let log = fs::read_to_string(self.directory.path().join("apiserver.log")).unwrap_or_default();
        Err(Error::Failed(format!("the API server is not ready after {READY_WITHIN:?}: {}", log.trim())))
    }

    /// A client with a connection of its own.
    pub fn client(&self) -> Result<Client, Error> {
        Ok(Client::connect(&self.env, &self.connection, "orrery-bench")?)
    }

    pub fn clients(&self, count: usize) -> Result<Vec<Client>, Error> {
        self.clients_as(count, &self.connection)
    }

    /// The same as somebody else.
    pub fn clients_as(&self, count: usize, connection: &Connection) -> Result<Vec<Client>, Error> {
        (0..count).map(|_| Ok(Client::connect(&self.env, connection, "orrery-bench")?)).collect()
    }

    /// Without any credential.
    pub fn anonymous(&self) -> Connection {
        Connection { token: None, ..self.connection.clone() }
    }

    /// With a certificate in this name.
    pub fn by_certificate(&self, user: &str) -> Result<Connection, Error> {
        let subject = Subject { common_name: user, organizations: &[], names: &[] };
        let pair = self.authority.issue(&subject, self.env.wall())?;
        let (client_cert_pem, client_key_pem) = (Some(pair.cert_pem), Some(pair.key_pem));
        Ok(Connection { client_cert_pem, client_key_pem, ..self.anonymous() })
    }

    /// Writes a file for a server, and returns its path.
    pub fn file(&self, name: &str, text: &str) -> Result<String, Error> {
        let path = self.directory.path().join(name);
        write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// What each server has used until now.
    pub fn usage(&self) -> Result<Usage, Error> {
        let children = self.children.iter().map(|(name, child)| (*name, child.id()));
        let all = children.chain(self.etcd.iter().map(|etcd| ("etcd", etcd.id(0))));
        all.map(|(name, pid)| Ok((name.to_owned(), process::used(pid)?))).collect()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for (_, child) in self.children.iter_mut().rev() {
            // One that has ended already needs neither.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::Io(path.display().to_string(), error))
}

/// Nothing holds the port, so that another process may still take it.
fn free_port() -> Result<u16, Error> {
    let probe = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    probe.map(|address| address.port()).map_err(|error| Error::Io("loopback".to_owned(), error))
}
