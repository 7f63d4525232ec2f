//! The server's health checks by name.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/healthz and the checks that kube-apiserver installs.
//!
//! Deviation: the lists of `?verbose` have no row for what this server has no hook for: a loopback certificate, trackers of
//! object counts, endpoints of peers, identity leases, a proxy certificate that is read again. `readyz` names the store,
//! as Kubernetes' documentation does, where a v1.36.2 was seen to leave it to `livez` and `healthz`.

use crate::server::Server;
use component_base::health_checks::Check;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Look = fn(&Server) -> Result<(), String>;

/// What starts with the server, in the original's order, and what shows that it has started.
const HOOKS: [(&str, Look); 27] = [
    ("poststarthook/start-apiserver-admission-initializer", caches),
    ("poststarthook/generic-apiserver-start-informers", caches),
    ("poststarthook/priority-and-fairness-config-consumer", caches),
    ("poststarthook/priority-and-fairness-filter", caches),
    ("poststarthook/start-apiextensions-informers", caches),
    ("poststarthook/start-apiextensions-controllers", custom_resources),
    ("poststarthook/crd-informer-synced", custom_resources),
    ("poststarthook/start-system-namespaces-controller", bootstrap),
    ("poststarthook/start-cluster-authentication-info-controller", bootstrap),
    ("poststarthook/storage-readiness", caches),
    ("poststarthook/start-legacy-token-tracking-controller", caches),
    ("poststarthook/start-service-ip-repair-controllers", bootstrap),
    ("poststarthook/rbac/bootstrap-roles", bootstrap),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", bootstrap),
    ("poststarthook/priority-and-fairness-config-producer", bootstrap),
    ("poststarthook/bootstrap-controller", bootstrap),
    ("poststarthook/start-kubernetes-service-cidr-controller", bootstrap),
    ("poststarthook/start-kube-aggregator-informers", caches),
    ("poststarthook/apiservice-status-local-available-controller", caches),
    ("poststarthook/apiservice-status-remote-available-controller", caches),
    ("poststarthook/apiservice-registration-controller", caches),
    ("poststarthook/apiservice-wait-for-first-sync", api_services),
    ("poststarthook/apiservice-discovery-controller", caches),
    ("poststarthook/kube-apiserver-autoregistration", api_services),
    ("autoregister-completion", api_services),
    ("poststarthook/apiservice-openapi-controller", caches),
    ("poststarthook/apiservice-openapiv3-controller", caches),
];
/// Those that a server without priority and fairness does not have.
const OF_FAIRNESS: [&str; 2] =
    ["poststarthook/priority-and-fairness-config-consumer", "poststarthook/priority-and-fairness-filter"];

/// The checks of `healthz`, `livez` or `readyz`.
pub fn checks(server: &Arc<Server>, endpoint: &str) -> Vec<Check> {
    let check = |name, look: Look| {
        let of = server.clone();
        Check::new(name, move || look(&of))
    };
    let for_traffic = endpoint == "readyz";
    let is_fair = server.flow_control.fairness().is_some();
    let mut checks = vec![Check::ping(), Check::new("log", || Ok(())), check("etcd", store)];
    if for_traffic {
        checks.push(check("etcd-readiness", store));
        checks.push(check("informer-sync", caches));
    }
    let hooks = HOOKS.into_iter().filter(|(name, _)| is_fair || !OF_FAIRNESS.contains(name));
    checks.extend(hooks.map(|(name, look)| check(name, look)));
    if for_traffic {
        checks.push(check("shutdown", ending));
    }
    checks
}

fn store(server: &Server) -> Result<(), String> {
    server.store_trouble().map_or(Ok(()), Err)
}

fn caches(server: &Server) -> Result<(), String> {
    match server.unready_rows().as_slice() {
        [] => Ok(()),
        rows => Err(format!("not read yet: {}", rows.join(", "))),
    }
}

fn custom_resources(server: &Server) -> Result<(), String> {
    let are_served = server.custom_resources_served.load(Ordering::Acquire);
    if are_served { Ok(()) } else { Err("not served yet".into()) }
}

fn api_services(server: &Server) -> Result<(), String> {
    let are_there = server.api_services_registered.load(Ordering::Acquire);
    if are_there { Ok(()) } else { Err("missing APIService".into()) }
}

fn bootstrap(server: &Server) -> Result<(), String> {
    if server.bootstrapped.load(Ordering::Acquire) { Ok(()) } else { Err("not finished".into()) }
}

fn ending(server: &Server) -> Result<(), String> {
    let is_ending = server.env.shutdown().is_cancelled() || server.ending.is_cancelled();
    if is_ending { Err("process is shutting down".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use crate::testing::Api;

    #[tokio::test(start_paused = true)]
    async fn readiness_ends_first_and_every_check_has_a_path() {
        let api = Api::start().await;
        assert_eq!(api.get("/readyz").await.text, "ok");
        let verbose = api.get("/readyz?verbose&exclude=shutdown&exclude=none").await.text;
        assert!(verbose.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n"), "{verbose}");
        let end = "[+]shutdown excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"none\"\nreadyz check passed\n";
        assert!(verbose.ends_with(end), "{verbose}");
        let live = api.get("/livez?verbose").await.text;
        assert!(!live.contains("shutdown"));
        // In the original's order.
        let in_order =
            ["filter", "crd-informer-synced", "storage-readiness", "rbac/bootstrap-roles", "openapiv3-controller"];
        let places: Vec<_> = in_order.iter().map(|name| live.find(&format!("{name} ok\n"))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{live}");
    }

    /// Nobody who waited for a server finds it still announcing what it serves.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_ready_has_announced_what_it_serves() {
        let api = Api::start().await;
        let services = api.get("/apis/apiregistration.k8s.io/v1/apiservices").await.body;
        let announced = services["items"].as_array().unwrap().len();
        let groups = api.get("/apis").await.body;
        let served = groups["groups"].as_array().unwrap().iter();
        let served: usize = served.map(|group| group["versions"].as_array().unwrap().len()).sum();
        // The core group is not in the list.
        assert_eq!(announced, served + 1);
        assert!(api.get("/livez?verbose").await.text.contains("[+]autoregister-completion ok\n"));

        api.server.server.ending.cancel();
        let ending = api.get("/readyz").await;
        assert_eq!(ending.code, 500);
        assert!(ending.text.ends_with("[-]shutdown failed: reason withheld\nreadyz check failed\n"), "{}", ending.text);
        assert_eq!((api.get("/livez").await.code, api.get("/readyz/etcd").await.text.as_str()), (200, "ok"));
        assert_eq!(api.get("/readyz/none").await.code, 404);
    }
}
