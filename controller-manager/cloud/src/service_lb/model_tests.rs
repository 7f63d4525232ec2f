//! Random histories of Services, Nodes, crashes and a failing cloud: no load balancer outlives its Service, and at rest every
//! load balancer is the one that its Service asks for.

use super::backends::backends;
use super::controller::orphans;
use super::plan::{FINALIZER, Observed, has_finalizer, plan};
use super::wanted;
use crate::steps::{Order, Request, Steps};
use client::{Action, Patch};
use component_base::rng::Random;
use controller_base::fixture;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Service, Taint};
use serde_json::{Value, json};
use simulated_cloud::cloud::{Cloud, Site};
use simulated_cloud::model::{Holdings, Settings};
use std::collections::BTreeMap;
use std::sync::Arc;

const HISTORIES: u64 = 200;
const STEPS: usize = 120;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Fewer than there are names, so that Services wait for each other's load balancers.
const QUOTA: usize = 3;
/// Most rounds until everything rests.
const MAX_ROUNDS: usize = 40;

/// A cluster with a cloud, in which every step is one request of somebody.
struct World {
    chance: Random,
    services: BTreeMap<String, Service>,
    nodes: BTreeMap<String, Node>,
    cloud: Cloud,
    next_uid: u32,
    is_faulty: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut cloud = Cloud::new(Site::default(), Holdings::default());
        cloud.set_settings(Settings { load_balancer_quota: QUOTA, ..Settings::default() }).unwrap();
        let chance = Random::from_seed(seed, "service-lb");
        Self { chance, services: BTreeMap::new(), nodes: BTreeMap::new(), cloud, next_uid: 0, is_faulty: true }
    }

    fn draws(&self, one_in: usize) -> bool {
        self.chance.below(one_in) == 0
    }

    fn pick(&self) -> String {
        NAMES[self.chance.below(NAMES.len())].to_owned()
    }

    /// A user changes something.
    fn edit(&mut self) {
        let name = self.pick();
        match self.chance.below(6) {
            0 => self.create(name),
            1 => self.delete(&name),
            2 => {
                let types = ["LoadBalancer", "ClusterIP"];
                let type_ = types[self.chance.below(2)];
                self.change_spec(&name, |spec| spec.type_ = Some(type_.to_owned()));
            }
            3 => {
                let port = 80 + i32::try_from(self.chance.below(3)).unwrap();
                self.change_spec(&name, |spec| spec.ports.as_mut().unwrap()[0].port = port);
            }
            4 => {
                let host = 7 + self.chance.below(2);
                let ip = self.draws(2).then(|| format!("203.0.113.{host}"));
                self.change_spec(&name, |spec| spec.load_balancer_ip = ip);
            }
            _ => self.change_node(&name),
        }
    }

    fn create(&mut self, name: String) {
        if self.services.contains_key(&name) {
            return;
        }
        self.next_uid += 1;
        let mut service = Service { metadata: fixture::meta(&name), ..Service::default() };
        service.metadata.uid = Some(format!("{:08}-0000", self.next_uid));
        let spec = json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]});
        service.spec = Some(serde_json::from_value(spec).unwrap());
        self.services.insert(name, service);
    }

    fn delete(&mut self, name: &str) {
        if let Some(service) = self.services.get_mut(name) {
            service.metadata.deletion_timestamp = Some(fixture::time(1));
        }
        self.collect();
    }

    /// The API server removes objects that are deleted and have no finalizers.
    fn collect(&mut self) {
        self.services.retain(|_, service| !service.is_deleting() || has_finalizer(service));
    }

    fn change_spec(&mut self, name: &str, change: impl FnOnce(&mut proto::kinds::api::core::v1::ServiceSpec)) {
        if let Some(spec) = self.services.get_mut(name).and_then(|service| service.spec.as_mut()) {
            change(spec);
        }
    }

    fn change_node(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).unwrap_or_else(|| fixture::node(name));
        match self.chance.below(3) {
            0 => return,
            1 => node.metadata.labels = None,
            _ => {
                let taint = Taint { key: "ToBeDeletedByClusterAutoscaler".into(), ..Taint::default() };
                node.spec.get_or_insert_default().taints = self.draws(2).then(|| vec![taint]);
            }
        }
        self.nodes.insert(name.to_owned(), node);
    }

    fn backends(&self) -> Vec<String> {
        backends(&self.nodes.values().cloned().map(Arc::new).collect::<Vec<_>>())
    }

    fn planned(&self, name: &str) -> Option<Steps> {
        let service = self.services.get(name)?;
        let balancer = self.cloud.load_balancer(&wanted::name(service.uid())).ok().cloned();
        plan(&Observed { service: Arc::new(service.clone()), balancer, backends: self.backends() }).ok()
    }

    /// The controller works on one Service, and may crash after any step. Returns true if it changed something.
    fn reconcile(&mut self, name: &str) -> bool {
        let Some(steps) = self.planned(name) else { return false };
        let mut has_changed = false;
        for step in steps.steps {
            if self.is_faulty && self.draws(8) {
                return has_changed;
            }
            let done = match step.request {
                Request::Kubernetes(action) => self.write(name, action),
                Request::Cloud(order) => self.order(order),
            };
            let Some(changed) = done else { return has_changed };
            has_changed |= changed;
            self.check();
        }
        has_changed
    }

    fn write(&mut self, name: &str, action: Action) -> Option<bool> {
        let Action::Patch { patch: Patch::Strategic(patch), .. } = action else { return Some(false) };
        let service = self.services.get_mut(name)?;
        let before = service.clone();
        if !patch["metadata"]["finalizers"].is_null() && !has_finalizer(service) {
            service.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
        }
        if !patch["metadata"]["$deleteFromPrimitiveList/finalizers"].is_null() {
            service.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != FINALIZER);
        }
        if let Some(status) = patch.get("status").filter(|status: &&Value| !status.is_null()) {
            service.status = Some(serde_json::from_value(status.clone()).unwrap());
        }
        let changed = *service != before;
        self.collect();
        Some(changed)
    }

    /// Sends an order to the cloud, which may fail before or after it has carried it out.
    fn order(&mut self, order: Order) -> Option<bool> {
        if self.is_faulty && self.draws(8) {
            return None;
        }
        let before = self.cloud.holdings().clone();
        let done = match order {
            Order::PutLoadBalancer { name, spec } => self.cloud.put_load_balancer(&name, spec),
            Order::SetBackends { name, backends } => self.cloud.set_backends(&name, backends),
            Order::DeleteLoadBalancer { name } => self.cloud.delete_load_balancer(&name),
            Order::PutRoute(_) | Order::DeleteRoute { .. } => panic!("no route belongs to a Service"),
        };
        let is_answered = !(self.is_faulty && self.draws(8));
        (done.is_ok() && is_answered).then(|| *self.cloud.holdings() != before)
    }

    /// Every load balancer has its Service, and the Service has the finalizer that keeps it until then.
    fn check(&self) {
        let names = self.cloud.holdings().load_balancers.keys().map(String::as_str);
        let services: Vec<Arc<Service>> = self.services.values().cloned().map(Arc::new).collect();
        let left_over = orphans(names, &services);
        assert!(left_over.is_empty(), "without a service: {left_over:?}");
        for service in &services {
            let exists = self.cloud.load_balancer(&wanted::name(service.uid())).is_ok();
            assert!(!exists || has_finalizer(service), "{}: nothing keeps the service", service.name());
        }
    }

    /// Lets the controller work until nothing changes any more.
    fn rest(&mut self) {
        self.is_faulty = false;
        for _ in 0..MAX_ROUNDS {
            let names: Vec<String> = self.services.keys().cloned().collect();
            let changes = names.iter().filter(|name| self.reconcile(name)).count();
            if changes == 0 {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn check_at_rest(&self) {
        let balancers = &self.cloud.holdings().load_balancers;
        let concerned = self.services.values().filter(|service| wanted::is_wanted(service));
        let mut waiting = 0;
        for service in concerned {
            let spec = wanted::wanted(service, &self.backends()).unwrap();
            let requested = spec.requested_address;
            match balancers.get(&wanted::name(service.uid())) {
                Some(balancer) if balancer.spec == spec => {
                    let status = json!(service.status);
                    assert_eq!(status["loadBalancer"]["ingress"][0]["ip"], json!(balancer.address));
                }
                // Its address is another's, or the quota is used up by others.
                Some(_) => assert!(balancers.values().any(|other| Some(other.address) == requested)),
                None => waiting += 1,
            }
        }
        let has_rival = self.services.values().any(|service| service.spec.as_ref().unwrap().load_balancer_ip.is_some());
        assert!(waiting == 0 || balancers.len() == QUOTA || has_rival, "{waiting} services wait for nothing");
        for service in self.services.values().filter(|service| !wanted::is_wanted(service)) {
            assert!(!has_finalizer(service) && !balancers.contains_key(&wanted::name(service.uid())));
        }
    }
}

#[test]
fn no_load_balancer_outlives_its_service_and_at_rest_all_are_right() {
    for seed in 0..HISTORIES {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            if world.draws(2) {
                world.edit();
            } else {
                let name = world.pick();
                world.reconcile(&name);
            }
            world.check();
        }
        world.rest();
        world.check_at_rest();
    }
}
