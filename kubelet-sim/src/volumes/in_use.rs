//! `VolumesInUse`: the attachable volumes that pods of a node use or are about to use.
//!
//! Corresponds to GetVolumesInUse of pkg/kubelet/volumemanager.

use std::collections::{BTreeMap, BTreeSet};

/// The volumes by the uid of the pod that uses them. Volumes have the names that the node's status lists.
#[derive(Debug, Default)]
pub struct VolumesInUse {
    by_pod: BTreeMap<String, BTreeSet<String>>,
    /// Volumes that an earlier run of the agent has reported. They count until all pods are known again.
    left_over: BTreeSet<String>,
    has_adopted: bool,
}

impl VolumesInUse {
    /// Returns those of a machine that has just been started: nothing is mounted.
    pub fn after_boot() -> Self {
        Self { has_adopted: true, ..Self::default() }
    }

    /// Takes over what the node's status lists when the agent starts.
    pub fn adopt<'a>(&mut self, reported: impl IntoIterator<Item = &'a String>) {
        if !std::mem::replace(&mut self.has_adopted, true) {
            self.left_over.extend(reported.into_iter().cloned());
        }
    }

    pub fn has_left_over(&self) -> bool {
        !self.left_over.is_empty()
    }

    /// Forgets what an earlier run has reported, because the volumes of all pods are known.
    pub fn drop_left_over(&mut self) {
        self.left_over.clear();
    }

    /// True if it is known which volumes the pod uses.
    pub fn knows(&self, pod_uid: &str) -> bool {
        self.by_pod.contains_key(pod_uid)
    }

    pub fn use_by(&mut self, pod_uid: &str, volumes: BTreeSet<String>) {
        self.by_pod.insert(pod_uid.to_owned(), volumes);
    }

    pub fn release(&mut self, pod_uid: &str) {
        self.by_pod.remove(pod_uid);
    }

    /// Returns the names for the node's status, in order.
    pub fn names(&self) -> Vec<String> {
        let all: BTreeSet<&String> = self.by_pod.values().flatten().chain(&self.left_over).collect();
        all.into_iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_volume_is_in_use_until_its_last_pod_is_gone() {
        let mut in_use = VolumesInUse::default();
        in_use.use_by("a", volumes(&["v", "w"]));
        in_use.use_by("b", volumes(&["v"]));
        assert_eq!(in_use.names(), ["v", "w"]);
        in_use.release("a");
        assert_eq!(in_use.names(), ["v"]);
        in_use.release("b");
        assert_eq!(in_use.names(), [""; 0]);
    }

    #[test]
    fn an_agent_that_restarts_forgets_no_volume() {
        let mut in_use = VolumesInUse::default();
        in_use.adopt(&volumes(&["v"]));
        in_use.adopt(&volumes(&["w"]));
        assert_eq!(in_use.names(), ["v"], "only what was there at the start");
        in_use.use_by("a", volumes(&["x"]));
        assert_eq!(in_use.names(), ["v", "x"]);
        in_use.drop_left_over();
        assert_eq!(in_use.names(), ["x"]);
        let mut booted = VolumesInUse::after_boot();
        booted.adopt(&volumes(&["v"]));
        assert_eq!(booted.names(), [""; 0], "nothing is mounted after a boot");
    }
}
