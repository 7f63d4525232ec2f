//! The named health checks of `healthz`, `livez` and `readyz`.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/healthz and the checks that kube-apiserver installs.
//!
//! Deviation: the lists of `?verbose` lack the checks of hooks that this server does not have: a loopback
//! certificate, the watermarks of priority and fairness, trackers of object counts, endpoints of peers, identity
//! leases, the reload of the proxy certificate, and controllers for the discovery and OpenAPI of extension servers
//! (both are read here when a server is found available). `readyz` lists the store, as Kubernetes' documentation
//! does. Kubernetes v1.36.2 itself lists it in `livez` and `healthz` only.

use crate::server::Server;
use component_base::health_checks::Check;
use registry::post_start::Hook;
use registry::post_start::Milestone;
use std::sync::Arc;

type ServerCheck = fn(&Server) -> Result<(), String>;

/// The hook after which Kubernetes lists the check `autoregister-completion`.
const LAST_BEFORE_COMPLETION: Hook = Hook::Autoregistration;

/// Returns the checks of an endpoint, in the order of `?verbose`.
pub fn checks(server: &Arc<Server>, endpoint: &str) -> Vec<Check> {
    let check = |name, look: ServerCheck| {
        let server = server.clone();
        Check::new(name, move || look(&server))
    };
    let for_traffic = endpoint == "readyz";
    let mut checks = vec![Check::ping(), Check::new("log", || Ok(())), check("etcd", store)];
    if for_traffic {
        checks.push(check("etcd-readiness", store));
        checks.push(check("informer-sync", caches));
    }
    for (hook, name) in server.lifecycle.hooks.iter() {
        let hooks = server.lifecycle.hooks.clone();
        checks.push(Check::new(name, move || hooks.check(hook)));
        if hook == LAST_BEFORE_COMPLETION {
            checks.push(check("autoregister-completion", api_services));
        }
    }
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

fn api_services(server: &Server) -> Result<(), String> {
    let registered = server.lifecycle.hooks.has_reached(Milestone::ApiServicesRegistered);
    if registered { Ok(()) } else { Err("missing APIService".into()) }
}

fn ending(server: &Server) -> Result<(), String> {
    let is_ending = server.env.shutdown().is_cancelled() || server.lifecycle.ending.is_cancelled();
    if is_ending { Err("process is shutting down".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::testing::Api;
    use component_base::env::Env;
    use registry::post_start::HOOKS;
    use std::time::Duration;
    use storage::fault::{Fault, Faults};
    use storage::memory::Memory;

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
        // The order is Kubernetes'.
        let in_order =
            ["config-consumer", "crd-informer-synced", "storage-readiness", "rbac/bootstrap-roles", "autoregistration"];
        let places: Vec<_> = in_order.iter().map(|name| live.find(&format!("{name} ok\n"))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{live}");
    }

    /// Each hook has a check of its own, which depends on no other hook.
    #[tokio::test(start_paused = true)]
    async fn a_hook_that_has_not_finished_fails_its_own_row_alone() {
        let api = Api::start().await;
        let hooks = &api.server.server.lifecycle.hooks;
        for (hook, name) in HOOKS {
            hooks.forget(hook);
            for endpoint in ["healthz", "livez", "readyz"] {
                let verbose = api.get(&format!("/{endpoint}?verbose")).await.text;
                let failed: Vec<&str> = verbose.lines().filter(|line| line.starts_with("[-]")).collect();
                assert_eq!(failed, [format!("[-]{name} failed: reason withheld")], "{verbose}");
                assert_eq!(api.get(&format!("/{endpoint}?exclude={name}")).await.text, "ok");
                assert_eq!(api.get(&format!("/{endpoint}/{name}")).await.code, 500, "{name}");
            }
            hooks.finished(hook);
            assert_eq!(api.get(&format!("/readyz/{name}")).await.text, "ok");
        }
    }

    /// Hooks that wait for a write are shown as failed, the others as finished.
    #[tokio::test(start_paused = true)]
    async fn a_start_that_is_stuck_shows_where() {
        let env = Env::simulated(1);
        let store = Fault::new(&env, Memory::new(&env));
        store.set(Faults { lost_request: 1.0, ..Faults::default() });
        let api = Api::starting(&env, store.clone(), Config::default());
        env.sleep(Duration::from_secs(60)).await;
        let stuck = api.get("/livez?verbose").await.text;
        for name in
            ["crd-informer-synced", "storage-readiness", "rbac/bootstrap-roles", "apiservice-wait-for-first-sync"]
        {
            assert!(stuck.contains(&format!("[-]poststarthook/{name} failed: reason withheld\n")), "{stuck}");
        }
        for name in ["generic-apiserver-start-informers", "start-apiextensions-informers"] {
            assert!(stuck.contains(&format!("[+]poststarthook/{name} ok\n")), "{stuck}");
        }
        store.set(Faults::default());
        let ready = api.until("/readyz?verbose", |answer| answer.code == 200).await;
        assert!(!ready.text.contains("[-]"), "{}", ready.text);
    }

    /// A ready server has an APIService for every version that it serves.
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

        api.server.server.lifecycle.ending.cancel();
        let ending = api.get("/readyz").await;
        assert_eq!(ending.code, 500);
        assert!(ending.text.ends_with("[-]shutdown failed: reason withheld\nreadyz check failed\n"), "{}", ending.text);
        assert_eq!((api.get("/livez").await.code, api.get("/readyz/etcd").await.text.as_str()), (200, "ok"));
        assert_eq!(api.get("/readyz/none").await.code, 404);
    }
}
