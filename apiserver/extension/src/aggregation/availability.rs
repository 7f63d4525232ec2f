//! Availability: requests the resource list of every aggregated server, periodically and when its APIService, Service or
//! EndpointSlices change, and writes the result to the condition `Available`.
//!
//! Corresponds to the local and remote availability controllers of k8s.io/kube-aggregator/pkg/controllers/status.

use super::api_service::{ApiService, Availability, GROUP, RESOURCE};
use super::fetch::{get, read_json};
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
use remote::clients::unreachable;
use remote::reference::{ServiceReference, Unresolved};
use request::UserInfo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strategy::object_meta;
use tokio::time::Instant;

/// Time until a server that answers is checked again.
const CHECK_PERIOD: Duration = Duration::from_secs(30);
/// Time until a server that does not answer is checked again.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Timeout of one request to another server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The last check of an APIService: when the next one is due, and the state that was checked.
struct Checked {
    due_at: Instant,
    spec: Value,
    resolved: Result<String, Unresolved>,
}

/// Keeps the `Available` conditions until shutdown.
pub async fn run(upkeep: Upkeep, aggregation: Arc<Aggregation>) {
    let checker = Checker { upkeep: &upkeep, aggregation: &aggregation };
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
                registry.env.sleep(RETRY_PERIOD).await;
                continue;
            };
            // One loop does the work of both controllers.
            upkeep.hooks.finished(Hook::LocalAvailability);
            upkeep.hooks.finished(Hook::RemoteAvailability);
            let known = (services.cacher.snapshot(), endpoints.cacher.snapshot());
            let next = checker.pass(&trees(&snapshot), &mut checked).await;
            checker.wait((&own, &snapshot), [(&services, known.0.ok()), (&endpoints, known.1.ok())], next).await;
        }
    };
    upkeep.until_end(follow).await;
}

/// Checks the servers of APIServices.
struct Checker<'a> {
    upkeep: &'a Upkeep,
    aggregation: &'a Aggregation,
}

impl Checker<'_> {
    /// Waits until a check is due. Changes of Services matter only when an APIService names one.
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
            () = self.aggregation.unreachable_reported.notified() => {}
            () = changed(services, known_services) => {}
            () = changed(endpoints, known_endpoints) => {}
            () = self.upkeep.env.sleep_until(next) => {}
        }
    }

    /// Checks all APIServices that are due. Returns when the next check is due, if any APIService names another server.
    async fn pass(&self, all: &[Arc<Value>], checked: &mut BTreeMap<String, Checked>) -> Option<Instant> {
        let unreachable = self.aggregation.take_unreachable();
        let now = self.upkeep.env.now();
        checked.retain(|name, _| all.iter().any(|service| ApiService(service).name() == name));
        let mut due: Vec<(&Arc<Value>, Option<Result<String, Unresolved>>)> = Vec::new();
        for tree in all {
            let service = ApiService(tree);
            let Some(reference) = service.service() else {
                checked.remove(service.name());
                if !Availability::local().is_in(tree) {
                    due.push((tree, None));
                }
                continue;
            };
            let resolved = self.aggregation.clients.resolve(&*self.upkeep.registry, &reference);
            let is_known = checked.get(service.name()).is_some_and(|known| {
                now < known.due_at
                    && known.spec == tree["spec"]
                    && (known.resolved == resolved || (known.resolved.is_ok() && resolved.is_ok()))
            });
            if !is_known || unreachable.contains(service.name()) {
                due.push((tree, Some(resolved)));
            }
        }
        let outcomes = join_all(due.into_iter().map(|(tree, resolved)| async move {
            let availability = match &resolved {
                None => Availability::local(),
                Some(resolved) => self.check(ApiService(tree), resolved.clone()).await,
            };
            let is_written = write(&self.upkeep.registry, tree, &availability).await;
            (tree, resolved, availability, is_written)
        }))
        .await;
        self.aggregation.refresh(&self.upkeep.registry);
        for (tree, resolved, availability, is_written) in outcomes {
            let pause = if availability.status == "True" && is_written.is_ok() { CHECK_PERIOD } else { RETRY_PERIOD };
            if let Err(error) = is_written {
                tracing::debug!(service = ApiService(tree).name(), %error, "the condition is not written");
            }
            let Some(resolved) = resolved else { continue };
            let due_at = self.upkeep.env.now() + pause;
            checked
                .insert(ApiService(tree).name().to_owned(), Checked { due_at, spec: tree["spec"].clone(), resolved });
        }
        checked.values().map(|checked| checked.due_at).min()
    }

    /// Fetches the documents of a server, and returns its availability.
    ///
    /// Deviation: the server's certificate is verified as for every other request. Kubernetes does not verify it in this
    /// check.
    async fn check(&self, service: ApiService<'_>, resolved: Result<String, Unresolved>) -> Availability {
        let Some(reference) = service.service() else { return Availability::local() };
        let authority = match resolved {
            Ok(authority) => authority,
            Err(error) => return unresolved(&reference, &error),
        };
        let path = format!("/apis/{}/{}", service.group(), service.version());
        let url = format!("https://{authority}{path}");
        let failed = |why: String| {
            Availability::failed("FailedDiscoveryCheck", format!("failing or missing response from {url}: {why}"))
        };
        let client = match self.aggregation.clients.client(&authority, &service.trust()) {
            Ok(client) => client,
            Err(error) => return failed(error.to_string()),
        };
        let mut documents = self.aggregation.documents(service.name());
        let exchange = async {
            let response = get(&client, &path, &[])
                .await
                .map_err(|error| failed(format!("Get {url:?}: {}", unreachable(&authority, &error))))?;
            let code = response.status().as_u16();
            if !(200..300).contains(&code) {
                return Err(failed(format!("bad status from {url}: {code}")));
            }
            if let Some(list) = read_json(response).await.filter(|list| list["kind"] == "APIResourceList") {
                documents.resources = Some(Arc::new(list));
            }
            Ok(())
        };
        match self.upkeep.env.timeout(TIMEOUT, exchange).await {
            Err(_) => return failed(format!("Get {url:?}: context deadline exceeded")),
            Ok(Err(availability)) => return availability,
            Ok(Ok(())) => {}
        }
        // OpenAPI is documentation only. If a document cannot be fetched, the last one is kept.
        let _ = self.upkeep.env.timeout(TIMEOUT, openapi::fetch(&client, service, &mut documents)).await;
        self.aggregation.store_documents(service.name(), documents);
        Availability::passed()
    }
}

/// Returns the condition for an APIService whose Service cannot be resolved.
fn unresolved(reference: &ServiceReference, error: &Unresolved) -> Availability {
    let ServiceReference { namespace, name, port, .. } = reference;
    match error {
        Unresolved::NoService { .. } => {
            Availability::failed("ServiceNotFound", format!("service/{name} in {namespace:?} is not present"))
        }
        Unresolved::NoPort { .. } => Availability::failed(
            "ServicePortError",
            format!("service/{name} in {namespace:?} is not listening on port {port}"),
        ),
        Unresolved::NoSlices { .. } => Availability::failed(
            "EndpointsNotFound",
            format!("cannot find endpointslices for service/{name} in {namespace:?}"),
        ),
        Unresolved::NoEndpoints { port_name, .. } => {
            let what = format!("endpointslices for service/{name} in {namespace:?}");
            Availability::failed("MissingEndpoints", format!("{what} have no addresses with port name {port_name:?}"))
        }
        Unresolved::Unreadable(status) => {
            let message = format!("service/{name} in {namespace:?} cannot be checked due to: {status}");
            Availability { status: "Unknown", reason: "ServiceAccessError", message }
        }
        Unresolved::Simulated { .. } | Unresolved::Malformed { .. } => {
            Availability::failed("FailedDiscoveryCheck", error.to_string())
        }
    }
}

/// Writes the condition, unless the APIService already has it.
async fn write(registry: &Registry, service: &Value, availability: &Availability) -> registry::Result<()> {
    if availability.is_in(service) {
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
        // If the spec has changed meanwhile, the next check writes the condition.
        if current["spec"] == service["spec"] {
            availability.set_in(&mut object, &now);
        }
        Ok(object)
    });
    match registry.update(&mut mutation, &edit).await {
        Err(error) if error.is_not_found() => Ok(()),
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
            let availability = unresolved(&reference, &error);
            assert_eq!(
                (availability.status, format!("{}: {}", availability.reason, availability.message).as_str()),
                ("False", expected)
            );
        }
    }
}
