//! The access chain: what it costs to know a caller, to look up what he may, and to admit what he writes.
//!
//! Callers are measured beside ten thousand RoleBindings; what a member of `system:masters` pays, who is asked for no
//! right, is the line to compare with.

use super::credentials::{self, CROWD, Credential};
use super::load::{Load, closed_loop};
use super::measurement::Measurement;
use super::objects::{NAMESPACE, config_map, pod, post};
use super::process::Usage;
use super::scrape::Scrape;
use super::servers::{Servers, Setup};
use super::{Bench, Error};
use client::Client;
use client::request::Call;
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ENGINE: &str = "embedded";
const CLIENTS: usize = 16;
const BINDINGS: usize = 10_000;
const READS: usize = 20_000;
const BINDING_WRITES: usize = 1000;
const PODS: usize = 4000;
/// With one client, so that time in a plugin is hardly anything but its own.
const LONE_PODS: usize = 1000;
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const BINDINGS_PATH: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
/// May read what is read here.
const READER: &str = "bench-reader";
/// May do nothing that is asked for here.
const BYSTANDER: &str = "bench-bystander";
const ADMINISTRATOR: &str = "administrator";

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let mut measured = callers(bench).await?;
    measured.extend(admission(bench).await?);
    Ok(measured)
}

/// What is measured of one API server, one row after the other.
struct Rows<'a> {
    bench: &'a Bench,
    servers: &'a Servers,
    master: Client,
    measured: Vec<Measurement>,
}

/// The beginning of a row.
struct Begun {
    usage: Usage,
    scrape: Scrape,
}

impl<'a> Rows<'a> {
    fn new(bench: &'a Bench, servers: &'a Servers) -> Result<Self, Error> {
        Ok(Self { bench, servers, master: servers.client()?, measured: Vec::new() })
    }

    async fn begin(&self) -> Result<Begun, Error> {
        Ok(Begun { scrape: Scrape::take(&self.master).await?, usage: self.servers.usage()? })
    }

    async fn end(&mut self, what: String, load: Load, begun: &Begun, with_plugins: bool) -> Result<(), Error> {
        let usage = self.servers.usage()?;
        let scrape = Scrape::take(&self.master).await?;
        let count = load.latencies.len() as u64;
        let row = Measurement::new("access", what, ENGINE, count, load.took, (&begun.usage, &usage));
        let row = row.latencies(load.latencies).errors(load.errors);
        let row = row.store_requests(scrape.store_requests_since(&begun.scrape));
        let seconds = scrape.admission_s_since(&begun.scrape);
        self.measured.push(if with_plugins { row.admission(&seconds) } else { row });
        Ok(())
    }

    /// So many reads of one object, each of which is answered in this way.
    async fn reads(&mut self, who: &Credential, how: &str, is_allowed: bool) -> Result<(), Error> {
        let clients = self.servers.clients_as(CLIENTS, &who.connection)?;
        let begun = self.begin().await?;
        let load = closed_loop(&self.bench.env, &clients, self.bench.count(READS), |client, _| async move {
            match client.call(&Call::new(Method::GET, format!("{NAMESPACE}/configmaps/c"))).await {
                Err(refused) if !is_allowed && refused.is_forbidden() => Ok(()),
                Ok(_) if !is_allowed => Err(client::Error::Decode("this should have been refused".to_owned())),
                answer => answer.map(drop),
            }
        });
        let what = format!("get ConfigMap 1 KiB, {}, {how}, {CLIENTS} clients", who.form);
        self.end(what, load.await, &begun, false).await
    }

    async fn bind(&self, name: &str, who: &Credential) -> Result<(), Error> {
        let binding = role_binding(name, READER, &json!([who.subject]));
        Ok(post(self.master.clone(), BINDINGS_PATH, binding).await?)
    }

    async fn unbind(&self, name: &str) -> Result<(), Error> {
        self.master.call(&Call::new(Method::DELETE, format!("{BINDINGS_PATH}/{name}"))).await?;
        Ok(())
    }

    /// Allowed by the first and by the last of all bindings in the order of their names, and not at all.
    async fn places(&mut self, who: &Credential) -> Result<(), Error> {
        for (name, place) in [("a", "first"), ("z", "last")] {
            self.bind(name, who).await?;
            self.reads(who, &format!("allowed by the {place} RoleBinding"), true).await?;
            self.unbind(name).await?;
        }
        self.reads(who, "denied", false).await
    }
}

fn cluster_role(name: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get", "list", "watch"]}],
    })
}

fn role_binding(name: &str, role: &str, subjects: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    })
}

/// One of many: of a user of its own, and of the crowd.
fn one_of_many(number: usize) -> Value {
    let subject = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let subjects = json!([subject("User", &format!("user-{number}")), subject("Group", CROWD)]);
    role_binding(&format!("b-{number:05}"), BYSTANDER, &subjects)
}

async fn callers(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let mut setup = credentials::setup();
    setup.arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    setup.tokens.push_str(&format!("{ADMINISTRATOR},{ADMINISTRATOR},{ADMINISTRATOR}\n"));
    let servers = Servers::start_as(bench, ENGINE, &setup).await?;
    let mut rows = Rows::new(bench, &servers)?;
    let master = rows.master.clone();
    for (role, resource) in [(READER, "configmaps"), (BYSTANDER, "endpoints")] {
        post(master.clone(), ROLES, cluster_role(role, resource)).await?;
    }
    let administrators = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ADMINISTRATOR},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ADMINISTRATOR}],
    });
    post(master.clone(), CLUSTER_BINDINGS, administrators).await?;
    post(master.clone(), &format!("{NAMESPACE}/configmaps"), config_map("c", 1024, 0)).await?;
    let bindings = bench.count(BINDINGS);
    let bind = |client, number| post(client, BINDINGS_PATH, one_of_many(number));
    closed_loop(&bench.env, &servers.clients(CLIENTS)?, bindings, bind).await.must_succeed()?;

    let credentials = credentials::make(&servers, &master).await?;
    let unasked = Credential { form: "static token", connection: servers.connection.clone(), subject: Value::Null };
    rows.reads(&unasked, "a member of system:masters", true).await?;
    for who in &credentials {
        rows.places(who).await?;
    }
    rows.places(&credentials::of_the_crowd(&servers)).await?;

    let administrator =
        component_base::kubeconfig::Connection { token: Some(ADMINISTRATOR.to_owned()), ..servers.connection.clone() };
    let clients = servers.clients_as(CLIENTS, &administrator)?;
    let begun = rows.begin().await?;
    let load = closed_loop(&bench.env, &clients, bench.count(BINDING_WRITES), |client, number| {
        post(client, BINDINGS_PATH, one_of_many(bindings + number))
    });
    let what = format!("create RoleBinding beside {bindings} others, by a bound administrator, {CLIENTS} clients");
    rows.end(what, load.await, &begun, false).await?;
    Ok(rows.measured)
}

/// Pods that are created through the plugins that are on by default, and through none: without those that the first
/// server has told of.
async fn admission(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let mut measured: Vec<Measurement> = Vec::new();
    for how in ["default admission", "no admission"] {
        let on: BTreeSet<&str> = measured.iter().flat_map(|row| row.admission_us.keys()).map(String::as_str).collect();
        let on = Vec::from_iter(on);
        let arguments = match on.is_empty() {
            true => Vec::new(),
            false => vec![format!("--disable-admission-plugins={}", on.join(","))],
        };
        let servers = Servers::start_as(bench, ENGINE, &Setup { arguments, ..Setup::default() }).await?;
        let mut rows = Rows::new(bench, &servers)?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        post(rows.master.clone(), &format!("{NAMESPACE}/serviceaccounts"), account).await?;
        for (count, clients) in [(PODS, CLIENTS), (LONE_PODS, 1)] {
            for (kind, tokens) in [("Pod 2 KiB", false), ("Pod 2 KiB that mounts a token", true)] {
                let all = servers.clients(clients)?;
                let begun = rows.begin().await?;
                let load = closed_loop(&bench.env, &all, bench.count(count), |client, number| async move {
                    let mut object = pod(&format!("p-{clients}-{tokens}-{number}"), 2048);
                    object["spec"]["automountServiceAccountToken"] = json!(tokens);
                    post(client, &format!("{NAMESPACE}/pods"), object).await
                });
                rows.end(format!("create {kind}, {how}, {clients} clients"), load.await, &begun, clients == 1).await?;
            }
        }
        let still_on = rows.measured.iter().flat_map(|row| row.admission_us.keys()).next();
        if let (Some(plugin), "no admission") = (still_on, how) {
            return Err(Error::Failed(format!("{plugin} is still on")));
        }
        measured.append(&mut rows.measured);
    }
    Ok(measured)
}
