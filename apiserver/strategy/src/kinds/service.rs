//! The strategy of Services: allocation of their cluster IPs, IP families and node ports.
//!
//! Corresponds to pkg/registry/core/service/storage/alloc.go. A Service of type ClusterIP, NodePort or LoadBalancer
//! holds a cluster IP unless it is headless. A NodePort or LoadBalancer also holds a node port for each of its ports.

use crate::allocation::{Holder, Reserved, ServiceNetwork, families};
use crate::kinds::rules::ByRules;
use crate::write_context::WriteContext;
use crate::{Grace, Reservation, Reservations, Stored, Strategy};
use async_trait::async_trait;
use ipnet::IpNet;
use proto::meta::status::FieldError;
use proto::{Object, Status};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const HEALTH_CHECK: &str = "healthCheckNodePort";

/// A dry run reports the free node ports after this one, without reserving them.
const DRY_RUN_PORTS_AFTER: u16 = 32768;

/// The strategy of Services: their rules, and the addresses and ports that they hold.
pub struct ServiceStrategy(pub ByRules);

#[async_trait]
impl Strategy for ServiceStrategy {
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) {
        self.0.prepare_for_create(context, object);
        align_cluster_ips(object, None);
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) {
        self.0.prepare_for_update(context, object, old);
        if context.subresource.is_empty() {
            keep_allocated(object, old);
            align_cluster_ips(object, Some(old));
            drop_type_dependent_fields(object, old);
        }
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        self.0.validate(context, object)
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        self.0.validate_update(context, object, old)
    }

    fn warnings_on_create(&self, context: &WriteContext<'_>, object: &Value) -> Vec<String> {
        self.0.warnings_on_create(context, object)
    }

    fn warnings_on_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<String> {
        self.0.warnings_on_update(context, object, old)
    }

    fn canonicalize(&self, object: &mut Value) {
        self.0.canonicalize(object);
    }

    fn allow_create_on_update(&self) -> bool {
        self.0.allow_create_on_update()
    }

    fn allow_unconditional_update(&self) -> bool {
        self.0.allow_unconditional_update()
    }

    fn graceful_delete(&self, context: &WriteContext<'_>, object: &Value, requested_s: Option<i64>) -> Grace {
        self.0.graceful_delete(context, object, requested_s)
    }

    fn status_resets(&self) -> &'static [&'static [&'static str]] {
        self.0.status_resets()
    }

    async fn begin_create(
        &self,
        context: &WriteContext<'_>,
        object: &mut Value,
        reservations: &dyn Reservations,
    ) -> Result<Reservation, Status> {
        init_families(context, object, None, reservations)?;
        reserve(context, object, None, reservations).await
    }

    async fn begin_update(
        &self,
        context: &WriteContext<'_>,
        object: &mut Value,
        old: &Value,
        reservations: &dyn Reservations,
    ) -> Result<Reservation, Status> {
        if !context.subresource.is_empty() {
            return Ok(Reservation::default());
        }
        init_families(context, object, Some(old), reservations)?;
        reserve(context, object, Some(old), reservations).await
    }

    async fn after_delete(&self, object: &Object, reservations: &dyn Reservations) -> Result<(), Status> {
        for held in held_by(&object.peek()) {
            reservations.release(&held).await?;
        }
        Ok(())
    }
}

fn init_families(
    context: &WriteContext<'_>,
    service: &mut Value,
    old: Option<&Value>,
    reservations: &dyn Reservations,
) -> Result<(), Status> {
    let errors = families::init(service, old, reservations.service_network().families());
    if errors.is_empty() { Ok(()) } else { Err(context.invalid(context.name, &errors)) }
}

fn spec<'v>(service: &'v Value, field: &str) -> &'v Value {
    &service["spec"][field]
}

fn text<'v>(service: &'v Value, field: &str) -> &'v str {
    spec(service, field).as_str().unwrap_or_default()
}

fn needs_cluster_ip(service: &Value) -> bool {
    text(service, "type") != "ExternalName"
}

fn needs_node_ports(service: &Value) -> bool {
    match text(service, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec(service, "allocateLoadBalancerNodePorts") != &json!(false),
        _ => false,
    }
}

fn ports(service: &Value) -> impl Iterator<Item = &Value> {
    spec(service, "ports").as_array().into_iter().flatten()
}

fn node_port(port: &Value) -> Option<u16> {
    port["nodePort"].as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)
}

/// A load balancer with the traffic policy Local needs health checks, which tell it which nodes have pods of the Service.
fn needs_health_check_port(service: &Value) -> bool {
    text(service, "type") == "LoadBalancer" && text(service, "externalTrafficPolicy") == "Local"
}

fn health_check_port(service: &Value) -> Option<u16> {
    spec(service, HEALTH_CHECK).as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)
}

/// Returns the addresses and node ports that a stored Service holds.
pub fn held_by(service: &Value) -> BTreeSet<Reserved> {
    let addresses = spec(service, "clusterIPs").as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut held: BTreeSet<Reserved> =
        addresses.filter_map(|ip| ip.parse::<IpAddr>().ok()).map(Reserved::Address).collect();
    held.extend(ports(service).filter_map(node_port).chain(health_check_port(service)).map(Reserved::NodePort));
    held
}

/// Keeps `clusterIP` and `clusterIPs` equal for clients that set only one of them: the first is the first of the second.
fn align_cluster_ips(service: &mut Value, old: Option<&Value>) {
    let is_given = |service: &Value| spec(service, "clusterIPs").as_array().is_some_and(|ips| !ips.is_empty());
    let ip = text(service, "clusterIP").to_owned();
    let Some(old) = old else {
        if !ip.is_empty() && !is_given(service) {
            set(service, "clusterIPs", json!([ip]));
        }
        return;
    };
    let is_same_ip = text(old, "clusterIP") == ip;
    if is_same_ip && is_given(old) && !is_given(service) {
        set(service, "clusterIPs", spec(old, "clusterIPs").clone());
    }
    if !is_same_ip && (spec(old, "clusterIPs") == spec(service, "clusterIPs") || !is_given(service)) {
        set(service, "clusterIPs", if ip.is_empty() { Value::Null } else { json!([ip]) });
    }
}

fn set(service: &mut Value, field: &str, value: Value) {
    let Some(spec) = service["spec"].as_object_mut() else { return };
    match value {
        Value::Null => drop(spec.remove(field)),
        value => drop(spec.insert(field.to_owned(), value)),
    }
}

/// Keeps the allocated values of the old Service where an update omits them.
fn keep_allocated(service: &mut Value, old: &Value) {
    if needs_cluster_ip(service) && needs_cluster_ip(old) && text(service, "clusterIP").is_empty() {
        set(service, "clusterIP", spec(old, "clusterIP").clone());
    }
    if needs_health_check_port(service)
        && needs_health_check_port(old)
        && health_check_port(service).is_none()
        && let Some(port) = health_check_port(old)
    {
        set(service, HEALTH_CHECK, json!(port));
    }
    if may_have_node_ports(service) && may_have_node_ports(old) {
        keep_node_ports(service, old);
    }
}

/// Gives a port without a node port the one of the old port with the same name, unless another port requests it.
fn keep_node_ports(service: &mut Value, old: &Value) {
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let allocated: BTreeMap<String, u16> =
        ports(old).filter_map(|port| node_port(port).map(|number| (name(port), number))).collect();
    let requested: BTreeSet<u16> = ports(service).filter_map(node_port).collect();
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if node_port(port).is_none()
            && let Some(number) = allocated.get(&name(port)).filter(|number| !requested.contains(number))
        {
            port["nodePort"] = json!(number);
        }
    }
}

/// Drops the fields that the new type does not use, unless the client changed them.
fn drop_type_dependent_fields(service: &mut Value, old: &Value) {
    let was_balancer = text(old, "type") == "LoadBalancer";
    let is_balancer = text(service, "type") == "LoadBalancer";
    let mut unneeded: Vec<&str> = Vec::new();
    let is_same = |field: &str| spec(service, field) == spec(old, field);
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if is_same("clusterIP") && is_same("clusterIPs") {
            unneeded.extend(["clusterIP", "clusterIPs"]);
        }
        unneeded.extend(["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|field| is_same(field)));
    }
    if needs_health_check_port(old) && !needs_health_check_port(service) && is_same(HEALTH_CHECK) {
        unneeded.push(HEALTH_CHECK);
    }
    if was_balancer && !is_balancer {
        let fields = ["allocateLoadBalancerNodePorts", "loadBalancerClass"];
        unneeded.extend(fields.into_iter().filter(|field| is_same(field)));
    }
    if is_reached_from_outside(old) && !is_reached_from_outside(service) && is_same("externalTrafficPolicy") {
        unneeded.push("externalTrafficPolicy");
    }
    unneeded.into_iter().for_each(|field| set(service, field, Value::Null));
    let before: BTreeSet<u16> = ports(old).filter_map(node_port).collect();
    if may_have_node_ports(old)
        && !may_have_node_ports(service)
        && ports(service).filter_map(node_port).all(|port| before.contains(&port))
    {
        for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
            let _ = port.as_object_mut().map(|fields| fields.remove("nodePort"));
        }
    }
    if !is_balancer && service.pointer("/status/loadBalancer/ingress").is_some() {
        service["status"]["loadBalancer"] = json!({});
    }
}

/// Returns whether Services of the type can have node ports, even if none is allocated without a request.
fn may_have_node_ports(service: &Value) -> bool {
    matches!(text(service, "type"), "NodePort" | "LoadBalancer")
}

fn is_reached_from_outside(service: &Value) -> bool {
    let has_external_ips = || spec(service, "externalIPs").as_array().is_some_and(|ips| !ips.is_empty());
    may_have_node_ports(service) || (text(service, "type") == "ClusterIP" && has_external_ips())
}

/// Reserves the addresses and ports that the Service needs and does not hold yet. A failure releases them again.
async fn reserve(
    context: &WriteContext<'_>,
    service: &mut Value,
    old: Option<&Value>,
    reservations: &dyn Reservations,
) -> Result<Reservation, Status> {
    let mut allocator = Allocator {
        context,
        reservations,
        network: reservations.service_network(),
        before: old.map(held_by).unwrap_or_default(),
        reservation: Reservation::default(),
        last_dry_run_port: DRY_RUN_PORTS_AFTER,
    };
    let outcome = allocator.allocate(service).await;
    let Allocator { before, mut reservation, .. } = allocator;
    if let Err(refused) = outcome {
        reservation.finish(Stored::No, reservations).await;
        return Err(refused);
    }
    let now = held_by(service);
    reservation.if_stored = before.difference(&now).copied().collect();
    Ok(reservation)
}

/// The allocation of one write of a Service.
struct Allocator<'a> {
    context: &'a WriteContext<'a>,
    reservations: &'a dyn Reservations,
    network: ServiceNetwork,
    /// The addresses and ports that the old Service holds.
    before: BTreeSet<Reserved>,
    reservation: Reservation,
    /// The last node port that a dry run reported.
    last_dry_run_port: u16,
}

impl Allocator<'_> {
    async fn allocate(&mut self, service: &mut Value) -> Result<(), Status> {
        if needs_cluster_ip(service) {
            self.allocate_cluster_ips(service).await?;
        }
        self.allocate_node_ports(service).await?;
        self.allocate_health_check_port(service).await
    }

    fn invalid(&self, error: FieldError) -> Status {
        self.context.invalid(self.context.name, &[error])
    }

    /// Reserves an address or port. Returns true also when this Service already holds it.
    async fn reserve(&mut self, what: Reserved) -> Result<bool, Status> {
        if self.before.contains(&what) || self.reservation.if_failed.contains(&what) {
            return Ok(true);
        }
        let holder = Holder { namespace: self.context.namespace, name: self.context.name };
        let is_reserved = self.reservations.reserve(&what, holder, self.context.dry_run).await?;
        if is_reserved && !self.context.dry_run {
            self.reservation.if_failed.push(what);
        }
        Ok(is_reserved)
    }

    /// Allocates one address of each IP family of the Service.
    async fn allocate_cluster_ips(&mut self, service: &mut Value) -> Result<(), Status> {
        let requested = spec(service, "clusterIPs").clone();
        let mut list: Vec<String> =
            requested.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        if list.first().is_some_and(|first| first == "None") {
            return Ok(());
        }
        let (families, mut is_new) = (spec(service, "ipFamilies").clone(), false);
        for (index, family) in families.as_array().into_iter().flatten().filter_map(Value::as_str).enumerate() {
            match list.get(index).map_or("", String::as_str) {
                "" => {
                    // Validation refuses a family that the cluster does not have.
                    if !self.network.families().contains(&family) {
                        break;
                    }
                    let found = self.reserve_free_address(family).await?.to_string();
                    list.truncate(index);
                    list.push(found);
                    is_new = true;
                }
                address => self.reserve_requested_address(address, &requested).await?,
            }
        }
        if is_new {
            set(service, "clusterIP", json!(list[0]));
            set(service, "clusterIPs", json!(list));
        }
        Ok(())
    }

    /// Reserves an address of the list that the client requested.
    async fn reserve_requested_address(&mut self, requested: &str, list: &Value) -> Result<(), Status> {
        // Validation refuses a text that is not an address.
        let Ok(address) = requested.parse::<IpAddr>() else { return Ok(()) };
        let refused = |why: String| {
            let why = format!("failed to allocate IP {address}: {why}");
            self.invalid(FieldError::invalid("spec.clusterIPs", list, why))
        };
        if !self.network.contains(address) && !self.before.contains(&Reserved::Address(address)) {
            let ranges: Vec<IpNet> = self.network.ranges_of(families::of_address(address)).collect();
            return Err(refused(match ranges.as_slice() {
                [range] => {
                    format!("the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}")
                }
                _ => "the provided network does not match the current range".to_owned(),
            }));
        }
        // A dry run does not check whether the address is free, as in Kubernetes.
        if self.context.dry_run {
            return Ok(());
        }
        let taken = refused("provided IP is already allocated".to_owned());
        if self.reserve(Reserved::Address(address)).await? { Ok(()) } else { Err(taken) }
    }

    /// Reserves an address of the first range that has a free one.
    async fn reserve_free_address(&mut self, family: &str) -> Result<IpAddr, Status> {
        let ranges: Vec<IpNet> = self.network.ranges_of(family).collect();
        if let Some(range) = ranges.first().filter(|_| self.context.dry_run) {
            return Ok(range.network());
        }
        let held = self.reservations.list("networking.k8s.io", "ipaddresses", "")?;
        let taken: BTreeSet<IpAddr> = held.iter().filter_map(|object| object.index.name.parse().ok()).collect();
        for range in ranges {
            for candidate in ServiceNetwork::candidates(range, &|ip| taken.contains(&ip), self.context.random) {
                if self.reserve(Reserved::Address(candidate)).await? {
                    return Ok(candidate);
                }
            }
        }
        Err(Status::internal("failed to allocate a serviceIP: range is full"))
    }

    async fn allocate_node_ports(&mut self, service: &mut Value) -> Result<(), Status> {
        let is_wanted = needs_node_ports(service);
        let mut list = spec(service, "ports").as_array().cloned().unwrap_or_default();
        // Ports of the same number but of different protocols share a node port.
        let mut shared: Vec<(Value, Value, u16)> = Vec::new();
        for (i, port) in list.iter_mut().enumerate() {
            let key = (port["port"].clone(), port["protocol"].clone());
            if let Some(requested) = node_port(port) {
                self.reserve_requested_port(i, requested).await?;
                shared.push((key.0, key.1, requested));
            } else if is_wanted {
                let same = shared.iter().find(|(number, protocol, _)| *number == key.0 && *protocol != key.1);
                let found = match same {
                    Some((_, _, port)) => *port,
                    None => self.reserve_free_port().await?,
                };
                port["nodePort"] = json!(found);
                shared.push((key.0, key.1, found));
            }
        }
        if !list.is_empty() {
            service["spec"]["ports"] = json!(list);
        }
        Ok(())
    }

    async fn reserve_requested_port(&mut self, index: usize, port: u16) -> Result<(), Status> {
        let field = format!("spec.ports[{index}].nodePort");
        let is_in_range = self.context.dry_run || self.network.node_ports.contains(&port);
        if !is_in_range && !self.before.contains(&Reserved::NodePort(port)) {
            return Err(self.invalid(FieldError::invalid(field, &json!(port), self.out_of_range())));
        }
        if self.reserve(Reserved::NodePort(port)).await? {
            return Ok(());
        }
        Err(self.invalid(FieldError::invalid(field, &json!(port), "provided port is already allocated")))
    }

    async fn reserve_free_port(&mut self) -> Result<u16, Status> {
        let services = self.reservations.list("", "services", "")?;
        let services: Vec<_> = services.iter().map(|service| service.peek()).collect();
        let taken: BTreeSet<u16> = services.iter().flat_map(|service| ports(service).filter_map(node_port)).collect();
        if self.context.dry_run {
            let free = (self.last_dry_run_port.saturating_add(1)..=u16::MAX).find(|port| !taken.contains(port));
            self.last_dry_run_port = free.unwrap_or(u16::MAX);
            return Ok(self.last_dry_run_port);
        }
        for candidate in self.network.port_candidates(&|port| taken.contains(&port), self.context.random) {
            if self.reserve(Reserved::NodePort(candidate)).await? {
                return Ok(candidate);
            }
        }
        Err(Status::internal("failed to allocate a nodePort: range is full"))
    }

    async fn allocate_health_check_port(&mut self, service: &mut Value) -> Result<(), Status> {
        if !needs_health_check_port(service) {
            return Ok(());
        }
        match health_check_port(service) {
            Some(requested) => {
                let is_in_range = self.context.dry_run || self.network.node_ports.contains(&requested);
                if self.before.contains(&Reserved::NodePort(requested))
                    || (is_in_range && self.reserve(Reserved::NodePort(requested)).await?)
                {
                    return Ok(());
                }
                let why = match is_in_range {
                    true => "provided port is already allocated".to_owned(),
                    false => self.out_of_range(),
                };
                Err(Status::internal(format!("failed to allocate requested HealthCheck NodePort {requested}: {why}")))
            }
            None => {
                let found = self.reserve_free_port().await?;
                set(service, HEALTH_CHECK, json!(found));
                Ok(())
            }
        }
    }

    fn out_of_range(&self) -> String {
        let (first, last) = (self.network.node_ports.start(), self.network.node_ports.end());
        format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
    }
}

#[cfg(test)]
mod tests;
