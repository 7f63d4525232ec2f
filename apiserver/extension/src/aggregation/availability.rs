//! Whether those who are said to serve a group do: each is asked for its list of resources, now and then and whenever
//! something about it changes, and the condition `Available` says what came of it.
//!
//! Corresponds to the local and remote availability controllers of k8s.io/kube-aggregator/pkg/controllers/status.

use super::api_service::{ApiService, GROUP, RESOURCE, Verdict};
use super::asking::{get, tree};
use super::openapi;
use super::registration::trees;
use super::table::Aggregation;
use cacher::{Freshness, Snapshot};
use futures::future::join_all;
use registry::Registry;
use registry::mutation::Edit;
use registry::own_write::own_mutation;
use registry::post_start::Hook;
use registry::row::Row;
use registry::upkeep::Upkeep;
use remote::callers::unreachable;
use remote::reference::{ServiceReference, Unresolved};
use request::UserInfo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strategy::object_meta;
use tokio::time::Instant;

/// A server that answers is asked again after this, one that does not after that.
const PASSING: Duration = Duration::from_secs(30);
const FAILING: Duration = Duration::from_secs(2);
/// A list of resources comes quickly or not at all.
const LIMIT: Duration = Duration::from_secs(5);

/// When an APIService was looked at, and what it was then.
struct Checked {
    again: Instant,
    spec: Value,
    resolved: Result<String, Unresolved>,
}

/// Until shutdown.
pub async fn run(upkeep: Upkeep, aggregation: Arc<Aggregation>) {
    let examiner = Examiner { upkeep: &upkeep, aggregation: &aggregation };
    let follow = async {
        let registry = &upkeep.registry;
        let (Ok((_, services)), Ok((_, endpoints)), Ok((_, own))) = (
            registry.row_of("", "services"),
            registry.row_of("discovery.k8s.io", "endpointslices"),
            registry.row_of(GROUP, RESOURCE),
        ) else {
            upkeep.hooks.finished(Hook::LocalAvailability);
            upkeep.hooks.finished(Hook::RemoteAvailability);
            return;
        };
        let mut checked: BTreeMap<String, Checked> = BTreeMap::new();
        loop {
            let Ok(snapshot) = own.cacher.read(Freshness::Any).await else {
                registry.env.sleep(FAILING).await;
                continue;
            };
            // One loop judges both kinds.
            upkeep.hooks.finished(Hook::LocalAvailability);
            upkeep.hooks.finished(Hook::RemoteAvailability);
            let seen = (services.cacher.snapshot(), endpoints.cacher.snapshot());
            let next = examiner.pass(&trees(&snapshot), &mut checked).await;
            examiner.wait((&own, &snapshot), [(&services, seen.0.ok()), (&endpoints, seen.1.ok())], next).await;
        }
    };
    upkeep.until_end(follow).await;
}

/// Examines the servers that APIServices point to.
struct Examiner<'a> {
    upkeep: &'a Upkeep,
    aggregation: &'a Aggregation,
}

impl Examiner<'_> {
    /// Until there is something to be looked at. Services matter only where some APIService names one.
    async fn wait(
        &self,
        (own, snapshot): (&Row, &Snapshot),
        others: [(&Arc<Row>, Option<Snapshot>); 2],
        next: Option<Instant>,
    ) {
        let Some(next) = next else {
            return own.cacher.changed(snapshot).await;
        };
        let [(services, known_services), (endpoints, known_endpoints)] = others;
        let changed = |row: &Arc<Row>, known: Option<Snapshot>| {
            let row = row.clone();
            async move {
                match known {
                    Some(known) => row.cacher.changed(&known).await,
                    None => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            biased;
            () = own.cacher.changed(snapshot) => {}
            () = self.aggregation.suspected.notified() => {}
            () = changed(services, known_services) => {}
            () = changed(endpoints, known_endpoints) => {}
            () = self.upkeep.env.sleep_until(next) => {}
        }
    }

    /// Looks at all APIServices that it is time for; when the next one is due, if any points to another server.
    async fn pass(&self, all: &[Arc<Value>], checked: &mut BTreeMap<String, Checked>) -> Option<Instant> {
        let suspects = self.aggregation.take_suspects();
        let now = self.upkeep.env.now();
        checked.retain(|name, _| all.iter().any(|service| ApiService(service).name() == name));
        let mut due: Vec<(&Arc<Value>, Option<Result<String, Unresolved>>)> = Vec::new();
        for tree in all {
            let service = ApiService(tree);
            let Some(reference) = service.service() else {
                checked.remove(service.name());
                if !Verdict::local().is_in(tree) {
                    due.push((tree, None));
                }
                continue;
            };
            let resolved = self.aggregation.callers.resolve(&*self.upkeep.registry, &reference);
            let is_known = checked.get(service.name()).is_some_and(|known| {
                now < known.again
                    && known.spec == tree["spec"]
                    && (known.resolved == resolved || (known.resolved.is_ok() && resolved.is_ok()))
            });
            if !is_known || suspects.contains(service.name()) {
                due.push((tree, Some(resolved)));
            }
        }
        let outcomes = join_all(due.into_iter().map(|(tree, resolved)| async move {
            let verdict = match &resolved {
                None => Verdict::local(),
                Some(resolved) => self.examine(ApiService(tree), resolved.clone()).await,
            };
            let is_written = write(&self.upkeep.registry, tree, &verdict).await;
            (tree, resolved, verdict, is_written)
        }))
        .await;
        self.aggregation.refresh(&self.upkeep.registry);
        for (tree, resolved, verdict, is_written) in outcomes {
            let pause = if verdict.status == "True" && is_written.is_ok() { PASSING } else { FAILING };
            if let Err(error) = is_written {
                tracing::debug!(service = ApiService(tree).name(), %error, "the condition is not written");
            }
            let Some(resolved) = resolved else { continue };
            let again = self.upkeep.env.now() + pause;
            checked.insert(ApiService(tree).name().to_owned(), Checked { again, spec: tree["spec"].clone(), resolved });
        }
        checked.values().map(|checked| checked.again).min()
    }

    /// Asks a server for what it serves, and keeps what it says.
    ///
    /// Deviation: its certificate is checked as for every other request, where the original does not look at it here.
    async fn examine(&self, service: ApiService<'_>, resolved: Result<String, Unresolved>) -> Verdict {
        let Some(reference) = service.service() else { return Verdict::local() };
        let authority = match resolved {
            Ok(authority) => authority,
            Err(error) => return unresolved(&reference, &error),
        };
        let path = format!("/apis/{}/{}", service.group(), service.version());
        let url = format!("https://{authority}{path}");
        let failed = |why: String| {
            Verdict::failed("FailedDiscoveryCheck", format!("failing or missing response from {url}: {why}"))
        };
        let client = match self.aggregation.callers.client(&authority, &service.trust()) {
            Ok(client) => client,
            Err(error) => return failed(error.to_string()),
        };
        let mut learnt = self.aggregation.learnt(service.name());
        let exchange = async {
            let answer = get(&client, &path, &[])
                .await
                .map_err(|error| failed(format!("Get {url:?}: {}", unreachable(&authority, &error))))?;
            let code = answer.status().as_u16();
            if !(200..300).contains(&code) {
                return Err(failed(format!("bad status from {url}: {code}")));
            }
            if let Some(list) = tree(answer).await.filter(|list| list["kind"] == "APIResourceList") {
                learnt.resources = Some(Arc::new(list));
            }
            Ok(())
        };
        match self.upkeep.env.timeout(LIMIT, exchange).await {
            Err(_) => return failed(format!("Get {url:?}: context deadline exceeded")),
            Ok(Err(verdict)) => return verdict,
            Ok(Ok(())) => {}
        }
        // What is not told stays as it was: nothing but documentation depends on it.
        let _ = self.upkeep.env.timeout(LIMIT, openapi::learn(&client, service, &mut learnt)).await;
        self.aggregation.learn(service.name(), learnt);
        Verdict::passed()
    }
}

/// What the condition says where a reference leads nowhere.
fn unresolved(reference: &ServiceReference, error: &Unresolved) -> Verdict {
    let ServiceReference { namespace, name, port, .. } = reference;
    match error {
        Unresolved::NoService { .. } => {
            Verdict::failed("ServiceNotFound", format!("service/{name} in {namespace:?} is not present"))
        }
        Unresolved::NoPort { .. } => Verdict::failed(
            "ServicePortError",
            format!("service/{name} in {namespace:?} is not listening on port {port}"),
        ),
        Unresolved::NoSlices { .. } => Verdict::failed(
            "EndpointsNotFound",
            format!("cannot find endpointslices for service/{name} in {namespace:?}"),
        ),
        Unresolved::NoEndpoints { port_name, .. } => {
            let what = format!("endpointslices for service/{name} in {namespace:?}");
            Verdict::failed("MissingEndpoints", format!("{what} have no addresses with port name {port_name:?}"))
        }
        Unresolved::Unreadable(status) => {
            let message = format!("service/{name} in {namespace:?} cannot be checked due to: {status}");
            Verdict { status: "Unknown", reason: "ServiceAccessError", message }
        }
        Unresolved::Simulated { .. } | Unresolved::Malformed { .. } => {
            Verdict::failed("FailedDiscoveryCheck", error.to_string())
        }
    }
}

/// Writes the condition unless it says so already.
async fn write(registry: &Registry, service: &Value, verdict: &Verdict) -> registry::Result<()> {
    if verdict.is_in(service) {
        return Ok(());
    }
    let (target, _) = registry.row_of(GROUP, RESOURCE)?;
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, "", ApiService(service).name());
    mutation.subresource = "status";
    let now = object_meta::time(registry.env.wall());
    let edit = Edit(|current: &Value| {
        let mut object = current.clone();
        // Somebody may have changed it meanwhile: then it is looked at again.
        if current["spec"] == service["spec"] {
            verdict.set_in(&mut object, &now);
        }
        Ok(object)
    });
    match registry.update(&mut mutation, &edit).await {
        Err(gone) if gone.is_not_found() => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_worded_as_in_kubernetes() {
        let reference = ServiceReference::read(&json!({"namespace": "n", "name": "s", "port": 8443})).unwrap();
        let name = || "s".to_owned();
        for (error, expected) in [
            (Unresolved::NoService { name: name() }, r#"ServiceNotFound: service/s in "n" is not present"#),
            (
                Unresolved::NoPort { name: name(), port: 8443 },
                r#"ServicePortError: service/s in "n" is not listening on port 8443"#,
            ),
            (
                Unresolved::NoSlices { name: name() },
                r#"EndpointsNotFound: cannot find endpointslices for service/s in "n""#,
            ),
            (
                Unresolved::NoEndpoints { name: name(), port_name: "web".into() },
                r#"MissingEndpoints: endpointslices for service/s in "n" have no addresses with port name "web""#,
            ),
        ] {
            let verdict = unresolved(&reference, &error);
            assert_eq!(
                (verdict.status, format!("{}: {}", verdict.reason, verdict.message).as_str()),
                ("False", expected)
            );
        }
    }
}
