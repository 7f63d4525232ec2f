//! The server's health checks by name.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/healthz and the checks that kube-apiserver installs. There is no
//! row for hooks that this server does not run.

use crate::server::Server;
use component_base::health_checks::Check;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The checks of `healthz`, `livez` or `readyz`.
pub fn checks(server: &Arc<Server>, endpoint: &str) -> Vec<Check> {
    let mut checks = vec![Check::ping(), Check::new("log", || Ok(()))];
    let of = server.clone();
    let store = Check::new("etcd", move || match of.store_trouble() {
        None => Ok(()),
        Some(why) => Err(why),
    });
    let of = server.clone();
    let informers = Check::new("informer-sync", move || match of.unready_rows().as_slice() {
        [] => Ok(()),
        rows => Err(format!("not read yet: {}", rows.join(", "))),
    });
    let of = server.clone();
    let hooks = [
        "poststarthook/start-system-namespaces-controller",
        "poststarthook/start-service-ip-repair-controllers",
        "poststarthook/rbac/bootstrap-roles",
        "poststarthook/scheduling/bootstrap-system-priority-classes",
        "poststarthook/priority-and-fairness-config-producer",
        "poststarthook/bootstrap-controller",
    ]
    .map(|name| {
        let of = of.clone();
        Check::new(
            name,
            move || if of.bootstrapped.load(Ordering::Acquire) { Ok(()) } else { Err("not finished".into()) },
        )
    });
    let of = server.clone();
    let shutdown = Check::new("shutdown", move || {
        if of.env.shutdown().is_cancelled() || of.ending.is_cancelled() {
            Err("process is shutting down".into())
        } else {
            Ok(())
        }
    });
    checks.push(store);
    match endpoint {
        "readyz" => {
            checks.push(informers);
            checks.extend(hooks);
            checks.push(shutdown);
        }
        _ => checks.extend(hooks),
    }
    checks
}
