//! The events that tell a Service's owner what the repair loop found.
//!
//! Corresponds to the recorders of pkg/registry/core/service/ipallocator/controller and portallocator/controller.
//!
//! Deviation: an event is recorded once, and again when it has expired. Kubernetes counts every round, and each server
//! counts for itself; here all servers give an event the same name.

use super::{Action, Service};
use crate::own_write::ensure_as;
use crate::{Registry, Result};
use proto::meta::time;
use serde_json::{Value, json};
use strategy::allocation::{Reserved, ServiceNetwork, families};

const OF_ADDRESSES: &str = "ipallocator-repair-controller";
const OF_PORTS: &str = "portallocator-repair-controller";
/// Longest name that the API accepts.
const MAX_NAME: usize = 253;
/// Characters of an event's name after the object's: a dot and 16 digits.
const SUFFIX: usize = 17;

/// One event, without the details of the object that it is about.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    subject: Subject,
    component: &'static str,
    reason: &'static str,
    /// Empty for events of ports, which have none.
    action: &'static str,
    message: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Subject {
    Service(Service),
    /// The IPAddress with this name.
    Address(String),
}

/// Returns the events of an action. `exists` tells whether there is such a Service.
fn notes(action: &Action, network: &ServiceNetwork, exists: impl Fn(&Service) -> bool) -> Vec<Note> {
    let of_address = |service: &Service, reason, message: String| Note {
        subject: Subject::Service(service.clone()),
        component: OF_ADDRESSES,
        reason,
        action: "ClusterIPAllocation",
        message,
    };
    let of_port = |service: &Service, reason, message: String| Note {
        subject: Subject::Service(service.clone()),
        component: OF_PORTS,
        reason,
        action: "",
        message,
    };
    let ports = &network.node_ports;
    match action {
        // An address or a port that is out of range has another event.
        Action::Reserve(Reserved::Address(ip), by) if network.contains(*ip) => {
            let message = format!("Cluster IP [{}]: {ip} is not allocated; repairing", families::of_address(*ip));
            vec![of_address(by, "ClusterIPNotAllocated", message)]
        }
        Action::Reserve(Reserved::NodePort(port), by) if ports.contains(port) => {
            vec![of_port(by, "PortNotAllocated", format!("Port {port} is not allocated; repairing"))]
        }
        Action::Conflict(Reserved::Address(ip), services) => {
            let family = families::of_address(*ip);
            let message =
                format!("Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service");
            let others = services.iter().skip(1);
            others.map(|service| of_address(service, "ClusterIPAlreadyAllocated", message.clone())).collect()
        }
        Action::Conflict(Reserved::NodePort(port), services) => {
            let message = format!("Port {port} was assigned to multiple services; please recreate service");
            let others = services.iter().skip(1);
            others.map(|service| of_port(service, "PortAlreadyAllocated", message.clone())).collect()
        }
        Action::OutOfRange(Reserved::Address(ip), by) => {
            let family = families::of_address(*ip);
            let rest = "is not within any configured Service CIDR; please recreate service";
            vec![of_address(by, "ClusterIPOutOfRange", format!("Cluster IP [{family}]: {ip} {rest}"))]
        }
        Action::OutOfRange(Reserved::NodePort(port), by) => {
            let range = format!("{}-{}", ports.start(), ports.end());
            let message = format!("Port {port} is not within the port range {range}; please recreate service");
            vec![of_port(by, "PortOutOfRange", message)]
        }
        Action::Release(Reserved::Address(ip), reservation) => {
            let Some(holder) = &reservation.holder else { return Vec::new() };
            let (reason, fate) = if exists(holder) {
                ("IPAddressWrongReference", "has a wrong reference; cleaning up")
            } else {
                ("IPAddressNotAllocated", "appears to have leaked: cleaning up")
            };
            let message = format!("IPAddress: {ip} for Service {}/{} {fate}", holder.0, holder.1);
            let subject = Subject::Address(ip.to_string());
            vec![Note { subject, component: OF_ADDRESSES, reason, action: "IPAddressAllocation", message }]
        }
        Action::Reserve(..) | Action::Release(Reserved::NodePort(_), _) => Vec::new(),
    }
}

/// Records the events of an action, unless they exist. Their loss harms nothing, so failures are only logged.
pub(super) async fn record(registry: &Registry, action: &Action, network: &ServiceNetwork) {
    let exists = |(namespace, name): &Service| {
        let services = registry.stored_row_of("", "services");
        services.is_ok_and(|row| row.cacher.get(namespace, name).is_ok_and(|service| service.is_some()))
    };
    for note in notes(action, network, exists) {
        if let Err(error) = write(registry, &note).await {
            tracing::warn!(%error, message = note.message, "an event about a Service could not be recorded");
        }
    }
}

async fn write(registry: &Registry, note: &Note) -> Result<()> {
    let (group, resource, namespace, name) = match &note.subject {
        Subject::Service((namespace, name)) => ("", "services", namespace.as_str(), name),
        Subject::Address(name) => ("networking.k8s.io", "ipaddresses", "", name),
    };
    let row = registry.stored_row_of(group, resource)?;
    let Some(object) = row.cacher.get(namespace, name)? else { return Ok(()) };
    let event = event(note, &object.peek(), object.revision, registry.env.wall());
    ensure_as(registry, "", "events", event, note.component).await
}

fn event(note: &Note, about: &Value, revision: u64, now: jiff::Timestamp) -> Value {
    let meta = |field: &str| about["metadata"][field].as_str().unwrap_or_default();
    let namespace = if meta("namespace").is_empty() { "default" } else { meta("namespace") };
    let mut involved = json!({
        "apiVersion": about["apiVersion"], "kind": about["kind"], "name": meta("name"), "uid": meta("uid"),
        "resourceVersion": revision.to_string(),
    });
    if !meta("namespace").is_empty() {
        involved["namespace"] = json!(meta("namespace"));
    }
    let mut event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"namespace": namespace, "name": name(note, meta("name"), meta("uid"))},
        "involvedObject": involved,
        "type": "Warning", "reason": note.reason, "message": note.message,
        "reportingComponent": note.component, "reportingInstance": note.component,
    });
    let seconds = time::format(now);
    if note.action.is_empty() {
        event["count"] = json!(1);
        event["source"] = json!({"component": note.component});
        event["firstTimestamp"] = json!(seconds);
        event["lastTimestamp"] = json!(seconds);
    } else {
        let microseconds = now.as_microsecond().rem_euclid(1_000_000);
        event["action"] = json!(note.action);
        event["eventTime"] = json!(format!("{}.{microseconds:06}Z", seconds.trim_end_matches('Z')));
    }
    event
}

/// Returns a name that follows from what the event says about which object. The digits are the FNV-1a hash.
fn name(note: &Note, object: &str, uid: &str) -> String {
    let texts = [uid, note.reason, &note.message];
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{}.{hash:016x}", object.get(..MAX_NAME - SUFFIX).unwrap_or(object))
}

#[cfg(test)]
mod tests {
    use super::super::Reservation;
    use super::*;

    #[test]
    fn an_event_says_what_is_wrong_in_kubernetes_words() {
        let ranges = ["10.0.0.0/24", "fd00::/112"].map(|range| range.parse().unwrap());
        let network = ServiceNetwork::new(&ranges, 30000..=30010);
        let address = |text: &str| Reserved::Address(text.parse().unwrap());
        let service = |name: &str| ("shop".to_owned(), name.to_owned());
        let held = |name: &str| Reservation { revision: 3, holder: Some(service(name)) };
        let (port, far_port) = (Reserved::NodePort(30001), Reserved::NodePort(31000));
        let all = vec![service("a"), service("b"), service("c")];
        let cases = [
            (
                Action::Reserve(address("10.0.0.9"), service("a")),
                "a ClusterIPNotAllocated ClusterIPAllocation: Cluster IP [IPv4]: 10.0.0.9 is not allocated; repairing",
            ),
            (Action::Reserve(address("10.9.0.9"), service("a")), ""),
            (
                Action::OutOfRange(address("fd01::9"), service("a")),
                "a ClusterIPOutOfRange ClusterIPAllocation: Cluster IP [IPv6]: fd01::9 is not within any configured \
                 Service CIDR; please recreate service",
            ),
            (
                Action::Conflict(address("fd00::9"), all.clone()),
                "b ClusterIPAlreadyAllocated ClusterIPAllocation: Cluster IP [IPv6]:fd00::9 was assigned to multiple \
                 services; please recreate service\n\
                 c ClusterIPAlreadyAllocated ClusterIPAllocation: Cluster IP [IPv6]:fd00::9 was assigned to multiple \
                 services; please recreate service",
            ),
            (Action::Reserve(port, service("a")), "a PortNotAllocated : Port 30001 is not allocated; repairing"),
            (Action::Reserve(far_port, service("a")), ""),
            (
                Action::Conflict(port, all[..2].to_vec()),
                "b PortAlreadyAllocated : Port 30001 was assigned to multiple services; please recreate service",
            ),
            (
                Action::OutOfRange(far_port, service("a")),
                "a PortOutOfRange : Port 31000 is not within the port range 30000-30010; please recreate service",
            ),
            (
                Action::Release(address("10.0.0.9"), held("gone")),
                "10.0.0.9 IPAddressNotAllocated IPAddressAllocation: IPAddress: 10.0.0.9 for Service shop/gone appears \
                 to have leaked: cleaning up",
            ),
            (
                Action::Release(address("10.0.0.9"), held("there")),
                "10.0.0.9 IPAddressWrongReference IPAddressAllocation: IPAddress: 10.0.0.9 for Service shop/there has \
                 a wrong reference; cleaning up",
            ),
            (Action::Release(port, Reservation { revision: 3, holder: None }), ""),
        ];
        for (action, expected) in cases {
            let lines = notes(&action, &network, |(_, name)| name == "there").into_iter().map(|note| {
                let about = match note.subject {
                    Subject::Service((_, name)) | Subject::Address(name) => name,
                };
                format!("{about} {} {}: {}", note.reason, note.action, note.message)
            });
            assert_eq!(lines.collect::<Vec<_>>().join("\n"), expected, "{action}");
        }
    }
}
