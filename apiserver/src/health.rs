//! The server's health checks by name.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/healthz and the checks that kube-apiserver installs.
//!
//! Deviation: there is no row for hooks that this server does not run.

use crate::server::Server;
use component_base::health_checks::Check;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Each is done once the objects that it writes are there.
const BOOTSTRAP_HOOKS: [&str; 6] = [
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
];

/// The checks of `healthz`, `livez` or `readyz`.
pub fn checks(server: &Arc<Server>, endpoint: &str) -> Vec<Check> {
    let check = |name, look: fn(&Server) -> Result<(), String>| {
        let of = server.clone();
        Check::new(name, move || look(&of))
    };
    let for_traffic = endpoint == "readyz";
    let mut checks = vec![Check::ping(), Check::new("log", || Ok(())), check("etcd", store)];
    if for_traffic {
        checks.push(check("etcd-readiness", store));
        checks.push(check("informer-sync", caches));
    }
    checks.push(check("poststarthook/storage-readiness", caches));
    checks.push(check("poststarthook/crd-informer-synced", custom_resources));
    checks.extend(BOOTSTRAP_HOOKS.map(|name| check(name, bootstrap)));
    checks.push(check("autoregister-completion", api_services));
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
        assert!(!api.get("/livez?verbose").await.text.contains("shutdown"));
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
