//! `Renewals`: recognizes another agent that runs a node of the same name.
//!
//! Kubelets that share a name overwrite each other's reports and say nothing of it. So do agents here, but each one warns
//! when the lease or the Node shows another one.

use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::NodeStatus;
use proto::kinds::jiff::{SignedDuration, Timestamp};

/// The shortest time between two warnings.
const WARNING_PERIOD: SignedDuration = SignedDuration::from_mins(10);

/// The renewals of a lease by this process. Times are in microseconds, as leases store them.
#[derive(Debug, Default)]
pub struct Renewals {
    known_us: Option<i64>,
    /// A renewal whose answer is not known. The server may have it all the same.
    tried_us: Option<i64>,
    warned_at: Option<Timestamp>,
}

impl Renewals {
    /// Records that this process tries to renew the lease.
    pub fn tries(&mut self, renewed: &Lease) {
        self.tried_us = renewed_us(renewed);
    }

    pub fn succeeded(&mut self) {
        self.known_us = self.tried_us.take();
    }

    /// Observes the lease as the server has it. Returns a warning if another process has renewed it since this one
    /// observed it first.
    pub fn observe(&mut self, found: &Lease) -> Option<String> {
        let renewed = renewed_us(found);
        let is_first = self.known_us.is_none() && self.tried_us.is_none();
        let is_own = is_first || renewed == self.known_us || renewed == self.tried_us;
        (self.known_us, self.tried_us) = (renewed, None);
        let spec = found.spec.as_ref().filter(|_| !is_own)?;
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let at = spec.renew_time.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
        Some(format!("Another agent runs this node: {holder:?} renewed its lease at {at}, and this process did not"))
    }

    /// Returns true when a warning is due. One in ten minutes is enough.
    pub fn may_warn(&mut self, now: Timestamp) -> bool {
        let is_due = self.warned_at.is_none_or(|at| now.duration_since(at).abs() >= WARNING_PERIOD);
        if is_due {
            self.warned_at = Some(now);
        }
        is_due
    }
}

fn renewed_us(lease: &Lease) -> Option<i64> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0.as_microsecond())
}

/// Returns a warning if the stored status of a Node was reported by another machine than its own.
pub fn other_machine(stored: &NodeStatus, own: &NodeStatus) -> Option<String> {
    let (stored, own) = (stored.node_info.as_ref()?, own.node_info.as_ref()?);
    let (other, machine) = (&stored.machine_id, &own.machine_id);
    let boot = &stored.boot_id;
    (!other.is_empty() && other != machine).then(|| {
        format!(
            "Another agent runs this node: machine {other}, boot {boot} reported its status, and this one is {machine}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(renewed_s: i64) -> Lease {
        let time = Timestamp::from_second(renewed_s).unwrap();
        serde_json::from_value(json!({"spec": {"holderIdentity": "node-0", "renewTime": time}})).unwrap()
    }

    #[test]
    fn a_renewal_by_another_process_is_recognized() {
        // Renewals that this process tried, with whether they succeeded, then the lease that it finds.
        let cases: [(&[(i64, bool)], i64, bool); 6] = [
            (&[], 5, false),
            (&[(10, true)], 10, false),
            (&[(10, true), (20, false)], 10, false),
            (&[(10, true), (20, false)], 20, false),
            (&[(10, true), (20, false)], 15, true),
            (&[(10, false)], 5, true),
        ];
        for (tries, found, expected) in cases {
            let mut renewals = Renewals::default();
            for (at, succeeds) in tries {
                renewals.tries(&lease(*at));
                if *succeeds {
                    renewals.succeeded();
                }
            }
            let warning = renewals.observe(&lease(found));
            assert_eq!(warning.is_some(), expected, "{tries:?}, then {found}: {warning:?}");
            assert!(renewals.observe(&lease(found)).is_none(), "the same renewal counts once");
        }
    }

    #[test]
    fn warnings_are_rare() {
        let mut renewals = Renewals::default();
        let due = [0, 1, 599, 600, 700, 1200].map(|s| renewals.may_warn(Timestamp::from_second(s).unwrap()));
        assert_eq!(due, [true, false, false, true, false, true]);
    }

    #[test]
    fn another_machine_is_named() {
        let status = |machine: &str| -> NodeStatus {
            serde_json::from_value(json!({"nodeInfo": {
                "machineID": machine, "bootID": "b1", "systemUUID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "",
                "architecture": "",
            }}))
            .unwrap()
        };
        assert_eq!(other_machine(&status("m1"), &status("m1")), None);
        assert_eq!(other_machine(&status(""), &status("m1")), None, "nobody has reported yet");
        let warning = other_machine(&status("m2"), &status("m1")).unwrap();
        assert!(warning.contains("machine m2, boot b1"), "{warning}");
    }
}
