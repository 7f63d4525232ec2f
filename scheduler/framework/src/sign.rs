//! Signatures of pods: two pods with the same one get the same verdicts and scores from all plugins.
//!
//! Corresponds to the extension point Sign of k8s.io/kube-scheduler/framework (KEP-5598).

use crate::pod_info::PodInfo;
use crate::{Plugin, Profile};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What of a pod a plugin depends on, by a name that plugins share.
pub type SignFragment = (&'static str, Value);

pub trait Sign: Plugin {
    /// Returns false if the plugin can sign no pod at all.
    fn signs_pods(&self) -> bool {
        true
    }

    /// Returns everything of the pod on which the plugin's verdicts and scores depend, or why the pod cannot be signed:
    /// they depend on other nodes, for example.
    fn sign_pod(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, String>;
}

/// A signature. Equal signatures are equal texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSignature(String);

impl Profile {
    /// Returns true if the profile can sign pods: all plugins that filter or score do.
    pub fn signs_pods(&self) -> bool {
        let signing: BTreeSet<&str> = self.sign.iter().map(|plugin| plugin.name()).collect();
        self.judging().is_subset(&signing) && self.sign.iter().all(|plugin| plugin.signs_pods())
    }

    /// Returns the pod's signature. There is none if a plugin cannot sign the pod, or a plugin that filters or scores signs
    /// no pods at all.
    pub fn sign_pod(&self, pod: &PodInfo) -> Option<PodSignature> {
        if !self.signs_pods() {
            return None;
        }
        let mut fragments: BTreeMap<&str, Value> = BTreeMap::new();
        for plugin in &self.sign {
            fragments.extend(plugin.sign_pod(pod).ok()?);
        }
        Some(PodSignature(serde_json::to_string(&fragments).ok()?))
    }

    /// Returns the names of the plugins on which the choice of a node depends.
    fn judging(&self) -> BTreeSet<&str> {
        let filters = self.pre_filter.iter().map(|p| p.name()).chain(self.filter.iter().map(|p| p.name()));
        let scores = self.pre_score.iter().map(|p| p.name()).chain(self.score.iter().map(|(p, _)| p.name()));
        filters.chain(scores).collect()
    }
}
