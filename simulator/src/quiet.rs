//! Lists the writes that never stop in a converged cluster. Any other write means that a component has not converged.

use super::convergence::Unconverged;
use super::history::{TimedEvent, changes};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::Entry;

/// A kind of write that never stops.
struct Allowed {
    prefix: &'static str,
    /// Checks that a write is of this kind.
    write: fn(&TimedEvent) -> bool,
    /// Shortest time between two writes of one key.
    period: Duration,
}

const ALLOWED: &[Allowed] = &[
    // Nodes renew their leases after a quarter of 40 s.
    Allowed { prefix: "/registry/leases/kube-node-lease/", write: is_renewal, period: Duration::from_secs(10) },
    // Leaders renew their leases every two seconds.
    Allowed { prefix: "/registry/leases/kube-system/", write: is_renewal, period: Duration::from_secs(2) },
    // Nodes report an unchanged status every five minutes.
    Allowed { prefix: "/registry/minions/", write: is_heartbeat, period: Duration::from_secs(300) },
    // Events are kept for an hour, and each is deleted once. The scheduler writes the number of a series when it has ended.
    Allowed { prefix: "/registry/events/", write: is_deletion_or_number, period: Duration::from_secs(1800) },
];

/// Returns the writes that the list does not allow, and the keys that were written too often.
pub fn unexpected_writes(events: &[TimedEvent], observed: Duration) -> Vec<Unconverged> {
    let mut found = Vec::new();
    let mut counts: BTreeMap<&str, (u32, Duration)> = BTreeMap::new();
    for timed in events {
        let key = &*timed.event.key;
        match ALLOWED.iter().find(|allowed| key.starts_with(allowed.prefix)) {
            Some(allowed) if (allowed.write)(timed) => counts.entry(key).or_insert((0, allowed.period)).0 += 1,
            _ => {
                let what = changes(&value(timed.event.previous.as_ref()), &value(timed.event.current.as_ref()));
                found.push(Unconverged { key: key.to_owned(), why: format!("was written at {}: {what}", timed.at) });
            }
        }
    }
    for (key, (count, period)) in counts {
        let most = observed.as_secs().div_ceil(period.as_secs()) + 1;
        if u64::from(count) > most {
            found.push(Unconverged {
                key: key.to_owned(),
                why: format!("was written {count} times, {most} is the most"),
            });
        }
    }
    found
}

fn value(entry: Option<&Entry>) -> Value {
    entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()).unwrap_or(Value::Null)
}

/// Returns true if both states are equal after `forget` has removed the fields that may differ.
fn equal_but_for(timed: &TimedEvent, forget: impl Fn(&mut Value)) -> bool {
    let (mut before, mut after) = (value(timed.event.previous.as_ref()), value(timed.event.current.as_ref()));
    for object in [&mut before, &mut after] {
        forget(object);
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
    }
    before == after && !after.is_null()
}

/// Returns true if only the renew time changed.
fn is_renewal(timed: &TimedEvent) -> bool {
    equal_but_for(timed, |lease| lease["spec"]["renewTime"] = Value::Null)
}

/// Returns true if only the heartbeat times of conditions changed.
fn is_heartbeat(timed: &TimedEvent) -> bool {
    equal_but_for(timed, |node| {
        for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastHeartbeatTime"] = Value::Null;
        }
    })
}

fn is_deletion_or_number(timed: &TimedEvent) -> bool {
    timed.event.current.is_none() || equal_but_for(timed, |event| event["series"] = Value::Null)
}
