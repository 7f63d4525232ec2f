//! Plans the steps between what a Service asks for and what the cloud has.
//!
//! Every round observes the cloud first, so that a round after a crash goes on where the one before has ended. Corresponds to
//! syncLoadBalancerIfNeeded in k8s.io/cloud-provider/controllers/service/controller.go.

use super::wanted;
use crate::steps::{Order, Steps};
use client::{Action, Patch};
use controller_base::actions;
use controller_base::clock::TICK;
use proto::Kind;
use proto::kinds::api::core::v1::Service;
use serde_json::{Value, json};
use simulated_cloud::model::{LoadBalancer, LoadBalancerSpec};
use std::sync::Arc;

pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

const ENSURE: &str = "failed to ensure load balancer";
const DELETE: &str = "failed to delete load balancer";
const ADD_FINALIZER: &str = "failed to add load balancer cleanup finalizer";
const REMOVE_FINALIZER: &str = "failed to remove load balancer cleanup finalizer";
const UPDATE_STATUS: &str = "failed to update load balancer status";
/// The failure of a change of backends alone, which has an event of its own.
pub const UPDATE_HOSTS: &str = "failed to update load balancer hosts";

/// A Service, and the cloud's load balancer for it.
#[derive(Clone, Debug)]
pub struct Observed {
    pub service: Arc<Service>,
    pub balancer: Option<LoadBalancer>,
    pub backends: Vec<String>,
}

pub fn has_finalizer(service: &Service) -> bool {
    service.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Returns true if the controller has something to do with the service.
pub fn is_concerned(service: &Service) -> bool {
    wanted::is_wanted(service) || has_finalizer(service)
}

/// Returns the steps, or what is wrong with the service.
pub fn plan(observed: &Observed) -> Result<Steps, String> {
    let service = &*observed.service;
    if service.is_deleting() || !wanted::is_wanted(service) {
        return Ok(release(service, observed.balancer.as_ref()));
    }
    let spec = wanted::wanted(service, &observed.backends).map_err(|why| format!("{ENSURE}: {why}"))?;
    Ok(ensure(service, observed.balancer.as_ref(), spec))
}

fn ensure(service: &Service, balancer: Option<&LoadBalancer>, spec: LoadBalancerSpec) -> Steps {
    let mut steps = Steps::default();
    let has_backends = !spec.backends.is_empty();
    let name = wanted::name(service.uid());
    match balancer {
        Some(balancer) if is_same_but_for_backends(&balancer.spec, &spec) && has_finalizer(service) => {
            let shows_address = shows(service, balancer);
            if balancer.spec.backends != spec.backends {
                steps.order(Order::SetBackends { name, backends: spec.backends }, UPDATE_HOSTS);
                steps.event(match has_backends {
                    true => actions::normal(service, "UpdatedLoadBalancer", "Updated load balancer with new hosts"),
                    false => unavailable(service),
                });
            }
            if !shows_address {
                steps.request(set_status(service, balancer), UPDATE_STATUS);
                steps.event(actions::normal(service, "EnsuredLoadBalancer", "Ensured load balancer"));
            }
        }
        _ => {
            steps.event(actions::normal(service, "EnsuringLoadBalancer", "Ensuring load balancer"));
            // The finalizer comes first: without it, the service could be gone before its load balancer is.
            if !has_finalizer(service) {
                steps.request(add_finalizer(service), ADD_FINALIZER);
            }
            if !has_backends {
                steps.event(unavailable(service));
            }
            let keeps_address = balancer.filter(|balancer| {
                spec.requested_address.is_none_or(|requested| requested == balancer.address) && shows(service, balancer)
            });
            steps.order(Order::PutLoadBalancer { name, spec }, ENSURE);
            if keeps_address.is_some() {
                steps.event(actions::normal(service, "EnsuredLoadBalancer", "Ensured load balancer"));
            } else {
                // The next round sees which address the cloud has chosen.
                steps.requeue_after = Some(TICK);
            }
        }
    }
    steps
}

fn release(service: &Service, balancer: Option<&LoadBalancer>) -> Steps {
    let mut steps = Steps::default();
    if balancer.is_some() {
        steps.event(actions::normal(service, "DeletingLoadBalancer", "Deleting load balancer"));
        steps.order(Order::DeleteLoadBalancer { name: wanted::name(service.uid()) }, DELETE);
    }
    if has_finalizer(service) {
        steps.request(remove_finalizer(service), REMOVE_FINALIZER);
    }
    if !steps.is_empty() {
        steps.event(actions::normal(service, "DeletedLoadBalancer", "Deleted load balancer"));
    }
    steps
}

fn is_same_but_for_backends(present: &LoadBalancerSpec, wanted: &LoadBalancerSpec) -> bool {
    *present == LoadBalancerSpec { backends: present.backends.clone(), ..wanted.clone() }
}

/// Returns true if the service's status has the address of the load balancer, and no other.
fn shows(service: &Service, balancer: &LoadBalancer) -> bool {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let points = status.into_iter().flat_map(|status| status.ingress.iter().flatten());
    points.map(|point| point.ip.as_deref()).eq([Some(balancer.address.to_string().as_str())])
}

fn unavailable(service: &Service) -> Action {
    let message = "There are no available nodes for LoadBalancer";
    actions::warning(service, "UnAvailableLoadBalancer", message)
}

fn add_finalizer(service: &Service) -> Action {
    patch(service, json!({"metadata": {"uid": service.uid(), "finalizers": [FINALIZER]}}))
}

fn set_status(service: &Service, balancer: &LoadBalancer) -> Action {
    let ingress = json!([{"ip": balancer.address, "ipMode": "VIP"}]);
    let status = json!({"loadBalancer": {"ingress": ingress}});
    patch(service, json!({"metadata": {"uid": service.uid()}, "status": status}))
}

fn remove_finalizer(service: &Service) -> Action {
    let metadata = json!({"uid": service.uid(), "$deleteFromPrimitiveList/finalizers": [FINALIZER]});
    patch(service, json!({"metadata": metadata, "status": {"loadBalancer": {"ingress": Value::Null}}}))
}

/// Returns a patch of the status, which writes finalizers too: the controller may patch nothing else of a service.
fn patch(service: &Service, patch: Value) -> Action {
    Action::patch_status::<Service>(service.namespace(), service.name(), Patch::Strategic(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use expect_test::{Expect, expect};

    const UID: &str = "uid-web";

    fn service(type_: &str, address: &str, has_finalizer: bool) -> Service {
        let mut service = Service { metadata: fixture::meta("web"), ..Service::default() };
        let ports = json!([{"port": 80, "nodePort": 30080}]);
        service.spec = Some(serde_json::from_value(json!({"type": type_, "ports": ports})).unwrap());
        service.metadata.finalizers = has_finalizer.then(|| vec![FINALIZER.to_owned()]);
        if !address.is_empty() {
            let status = json!({"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}});
            service.status = Some(serde_json::from_value(status).unwrap());
        }
        service
    }

    /// Returns the load balancer that fits the service, with these backends.
    fn balancer(service: &Service, backends: &[&str]) -> LoadBalancer {
        let backends: Vec<String> = backends.iter().map(|name| (*name).to_owned()).collect();
        let spec = wanted::wanted(service, &backends).unwrap();
        LoadBalancer { name: wanted::name(UID), address: "203.0.113.1".parse().unwrap(), spec }
    }

    fn check(service: Service, balancer: Option<LoadBalancer>, backends: &[&str], expected: Expect) {
        let backends = backends.iter().map(|name| (*name).to_owned()).collect();
        let planned = plan(&Observed { service: Arc::new(service), balancer, backends });
        expected.assert_eq(&planned.map_or_else(|why| why, |steps| steps.to_string()));
    }

    #[test]
    fn a_new_service_gets_its_finalizer_then_a_load_balancer_then_its_address() {
        check(
            service("LoadBalancer", "", false),
            None,
            &["n1", "n2"],
            expect![[r#"
                event Normal EnsuringLoadBalancer Service default/web: Ensuring load balancer
                strategic patch services/status default/web {"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"],"uid":"uid-web"}}
                cloud: put load balancer auidweb for default/web 80/TCP->30080 backends n1,n2
                look again after 1s
            "#]],
        );
        let known = service("LoadBalancer", "", true);
        check(
            known.clone(),
            Some(balancer(&known, &["n1", "n2"])),
            &["n1", "n2"],
            expect![[r#"
                strategic patch services/status default/web {"metadata":{"uid":"uid-web"},"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.1","ipMode":"VIP"}]}}}
                event Normal EnsuredLoadBalancer Service default/web: Ensured load balancer
            "#]],
        );
        let ready = service("LoadBalancer", "203.0.113.1", true);
        check(ready.clone(), Some(balancer(&ready, &["n1"])), &["n1"], expect![[""]]);
    }

    #[test]
    fn backends_follow_nodes_and_other_changes_are_ensured() {
        let ready = service("LoadBalancer", "203.0.113.1", true);
        check(
            ready.clone(),
            Some(balancer(&ready, &["n1"])),
            &["n2"],
            expect![[r#"
                cloud: set backends of load balancer auidweb: n2
                event Normal UpdatedLoadBalancer Service default/web: Updated load balancer with new hosts
            "#]],
        );
        check(
            ready.clone(),
            Some(balancer(&ready, &["n1"])),
            &[],
            expect![[r#"
                cloud: set backends of load balancer auidweb: none
                event Warning UnAvailableLoadBalancer Service default/web: There are no available nodes for LoadBalancer
            "#]],
        );
        let mut changed = ready.clone();
        changed.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 81;
        check(
            changed,
            Some(balancer(&ready, &["n1"])),
            &["n1"],
            expect![[r#"
                event Normal EnsuringLoadBalancer Service default/web: Ensuring load balancer
                cloud: put load balancer auidweb for default/web 81/TCP->30080 backends n1
                event Normal EnsuredLoadBalancer Service default/web: Ensured load balancer
            "#]],
        );
        let mut moved = ready.clone();
        moved.spec.as_mut().unwrap().load_balancer_ip = Some("203.0.113.9".into());
        check(
            moved,
            Some(balancer(&ready, &["n1"])),
            &["n1"],
            expect![[r#"
                event Normal EnsuringLoadBalancer Service default/web: Ensuring load balancer
                cloud: put load balancer auidweb for default/web at 203.0.113.9 80/TCP->30080 backends n1
                look again after 1s
            "#]],
        );
    }

    #[test]
    fn a_service_without_a_load_balancer_gives_it_back() {
        let other = service("ClusterIP", "203.0.113.1", true);
        check(
            other.clone(),
            Some(balancer(&other, &["n1"])),
            &["n1"],
            expect![[r#"
                event Normal DeletingLoadBalancer Service default/web: Deleting load balancer
                cloud: delete load balancer auidweb
                strategic patch services/status default/web {"metadata":{"$deleteFromPrimitiveList/finalizers":["service.kubernetes.io/load-balancer-cleanup"],"uid":"uid-web"},"status":{"loadBalancer":{"ingress":null}}}
                event Normal DeletedLoadBalancer Service default/web: Deleted load balancer
            "#]],
        );
        let mut leaving = service("LoadBalancer", "203.0.113.1", true);
        leaving.metadata.deletion_timestamp = Some(fixture::time(1));
        check(
            leaving,
            None,
            &["n1"],
            expect![[r#"
                strategic patch services/status default/web {"metadata":{"$deleteFromPrimitiveList/finalizers":["service.kubernetes.io/load-balancer-cleanup"],"uid":"uid-web"},"status":{"loadBalancer":{"ingress":null}}}
                event Normal DeletedLoadBalancer Service default/web: Deleted load balancer
            "#]],
        );
        check(service("ClusterIP", "", false), None, &["n1"], expect![[""]]);
    }

    #[test]
    fn what_cannot_be_ensured_is_said() {
        let mut wrong = service("LoadBalancer", "", false);
        wrong.spec.as_mut().unwrap().load_balancer_ip = Some("home".into());
        check(
            wrong,
            None,
            &["n1"],
            expect![[r#"failed to ensure load balancer: loadBalancerIP "home" is no IPv4 address"#]],
        );
    }
}
