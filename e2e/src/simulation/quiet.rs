//! The closed list of writes in a cluster at rest. Any other write means that a component has not converged.

use super::history::{Moment, changes};
use super::rest::Restless;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::Entry;

/// A kind of write that never stops.
struct Allowed {
    prefix: &'static str,
    /// Checks that a write is of this kind.
    write: fn(&Moment) -> bool,
    /// Least time between two writes of one key.
    period: Duration,
}

const LIST: &[Allowed] = &[
    // Nodes renew their leases after a quarter of 40 s.
    Allowed { prefix: "/registry/leases/kube-node-lease/", write: renews, period: Duration::from_secs(10) },
    // Leaders renew theirs every two seconds.
    Allowed { prefix: "/registry/leases/kube-system/", write: renews, period: Duration::from_secs(2) },
    // Nodes report an unchanged status every five minutes.
    Allowed { prefix: "/registry/minions/", write: beats, period: Duration::from_secs(300) },
    // Events are kept for an hour; each goes once.
    Allowed { prefix: "/registry/events/", write: is_gone, period: Duration::from_secs(3600) },
];

/// Returns the writes that are not on the list, and keys that were written too often.
pub fn unrest(moments: &[Moment], observed: Duration) -> Vec<Restless> {
    let mut found = Vec::new();
    let mut counts: BTreeMap<&str, (u32, Duration)> = BTreeMap::new();
    for moment in moments {
        let key = &*moment.event.key;
        match LIST.iter().find(|allowed| key.starts_with(allowed.prefix)) {
            Some(allowed) if (allowed.write)(moment) => counts.entry(key).or_insert((0, allowed.period)).0 += 1,
            _ => {
                let what = changes(&value(moment.event.previous.as_ref()), &value(moment.event.current.as_ref()));
                found.push(Restless { key: key.to_owned(), why: format!("was written at {}: {what}", moment.at) });
            }
        }
    }
    for (key, (count, period)) in counts {
        let most = observed.as_secs().div_ceil(period.as_secs()) + 1;
        if u64::from(count) > most {
            found.push(Restless { key: key.to_owned(), why: format!("was written {count} times, {most} is the most") });
        }
    }
    found
}

fn value(entry: Option<&Entry>) -> Value {
    entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()).unwrap_or(Value::Null)
}

/// Returns true if both states are equal after `forget` has removed the fields that may differ.
fn equal_but_for(moment: &Moment, forget: impl Fn(&mut Value)) -> bool {
    let (mut before, mut after) = (value(moment.event.previous.as_ref()), value(moment.event.current.as_ref()));
    for object in [&mut before, &mut after] {
        forget(object);
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
    }
    before == after && !after.is_null()
}

/// Returns true if only the renew time changed.
fn renews(moment: &Moment) -> bool {
    equal_but_for(moment, |lease| lease["spec"]["renewTime"] = Value::Null)
}

/// Returns true if only the heartbeat times of conditions changed.
fn beats(moment: &Moment) -> bool {
    equal_but_for(moment, |node| {
        for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastHeartbeatTime"] = Value::Null;
        }
    })
}

fn is_gone(moment: &Moment) -> bool {
    moment.event.current.is_none()
}
