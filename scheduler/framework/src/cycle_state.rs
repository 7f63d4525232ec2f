//! `CycleState`, the data that plugins keep between the extension points of one scheduling cycle.
//!
//! Corresponds to framework.CycleState.

use crate::batch::BatchTrace;
use crate::plugin_names::PluginNames;
use crate::timings::Timings;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A clone shares the data until one of the two changes it. Preemption clones the state often, to simulate nodes with
/// fewer pods.
#[derive(Clone, Default)]
pub struct CycleState {
    /// A cycle has few values, and reads them often.
    data: Vec<StateEntry>,
    /// Plugins whose Filter is skipped in this cycle.
    pub skip_filter: PluginNames,
    /// Plugins whose Score is skipped in this cycle.
    pub skip_score: PluginNames,
    /// Uids of other pods that a plugin wants to be tried at once if this cycle has a node, such as the rest of a gang.
    /// Corresponds to PodsToActivate.
    pub pods_to_activate: BTreeSet<String>,
    /// Annotations that the pod gets with its binding, such as what a Reserve plugin has chosen. Kubernetes has no such field;
    /// the Binding object takes annotations there too.
    pub binding_annotations: BTreeMap<String, String>,
    pub timings: Timings,
    pub batch: BatchTrace,
    /// True while nodes are sought for all pods of a PodGroup, and none of them has got its node for good.
    pub in_pod_group_cycle: bool,
    /// True if nobody asks for the scores of each plugin, but only for the best node.
    pub only_totals: bool,
}

#[derive(Clone)]
struct StateEntry {
    key: &'static str,
    value: Arc<dyn StateData>,
    /// True if nobody reads the value after the node is chosen.
    until_reserve: bool,
}

/// A value of the state. Every cloneable type is one.
pub trait StateData: Send + Sync {
    fn cloned(&self) -> Arc<dyn StateData>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Any + Clone + Send + Sync> StateData for T {
    fn cloned(&self) -> Arc<dyn StateData> {
        Arc::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl CycleState {
    /// Writes the value of a key. Plugins use their name as the key, or their name and the extension point.
    pub fn write<T: StateData + 'static>(&mut self, key: &'static str, value: T) {
        self.put(StateEntry { key, value: Arc::new(value), until_reserve: false });
    }

    /// Writes a value that nobody reads after the node is chosen. What it shares with the plugin is then free for a change.
    pub fn write_until_reserve<T: StateData + 'static>(&mut self, key: &'static str, value: T) {
        self.put(StateEntry { key, value: Arc::new(value), until_reserve: true });
    }

    /// Drops what nobody reads after the node is chosen.
    pub fn end_search(&mut self) {
        self.data.retain(|entry| !entry.until_reserve);
    }

    fn put(&mut self, entry: StateEntry) {
        self.data.retain(|old| old.key != entry.key);
        self.data.push(entry);
    }

    /// Returns the value of a key.
    pub fn read<T: Any>(&self, key: &'static str) -> Option<&T> {
        let entry = self.data.iter().find(|entry| entry.key == key)?;
        (*entry.value).as_any().downcast_ref()
    }

    /// Returns the value of a key for a change.
    pub fn read_mut<T: Any>(&mut self, key: &'static str) -> Option<&mut T> {
        let shared = &mut self.data.iter_mut().find(|entry| entry.key == key)?.value;
        if Arc::get_mut(shared).is_none() {
            *shared = (**shared).cloned();
        }
        Arc::get_mut(shared)?.as_any_mut().downcast_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::CycleState;

    #[test]
    fn a_clone_changes_alone() {
        let mut state = CycleState::default();
        state.write("counts", vec![1, 2]);
        let mut other = state.clone();
        other.read_mut::<Vec<i32>>("counts").unwrap().push(3);
        assert_eq!((state.read("counts"), other.read("counts")), (Some(&vec![1, 2]), Some(&vec![1, 2, 3])));
        assert_eq!(state.read::<String>("counts"), None);
    }
}
