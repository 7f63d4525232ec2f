//! `Memory`: what the process keeps of each autoscaler between its rounds: the history, and the selector of its pods.
//!
//! Corresponds to the recommendations, events and selectors of HorizontalController in
//! pkg/controller/podautoscaler/horizontal.go.

use super::history::History;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::autoscaling::v2::HorizontalPodAutoscaler;
use proto::kinds::api::core::v1::Pod;
use proto::meta::selector::Selector;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Only autoscalers of the cache, by key: rounds add none.
    autoscalers: Arc<Mutex<BTreeMap<String, Remembered>>>,
}

#[derive(Debug)]
struct Remembered {
    uid: String,
    /// Selects nothing before the first round.
    selector: Selector,
    history: History,
}

impl Memory {
    /// Makes room for an autoscaler of the cache. One that was recreated begins anew.
    pub fn register(&self, autoscaler: &HorizontalPodAutoscaler) {
        let mut autoscalers = self.autoscalers.lock();
        let new = || Remembered {
            uid: autoscaler.uid().to_owned(),
            selector: Selector::nothing(),
            history: History::default(),
        };
        let remembered = autoscalers.entry(autoscaler.key()).or_insert_with(new);
        if remembered.uid != autoscaler.uid() {
            *remembered = new();
        }
    }

    pub fn forget(&self, key: &str) {
        self.autoscalers.lock().remove(key);
    }

    /// Returns the history of an autoscaler; a new one begins with the present size of the target.
    pub fn history(&self, key: &str, wanted: i32, now: Timestamp) -> History {
        let mut history = History::default();
        self.with_history(key, |remembered| {
            remembered.begin(wanted, now);
            history = remembered.clone();
        });
        history
    }

    /// Adds to the history of an autoscaler that is still there.
    pub fn with_history(&self, key: &str, change: impl FnOnce(&mut History)) {
        if let Some(remembered) = self.autoscalers.lock().get_mut(key) {
            change(&mut remembered.history);
        }
    }

    /// Remembers the selector of an autoscaler's pods. Returns the keys of all autoscalers of the namespace that select
    /// any of these pods.
    pub fn select(&self, namespace: &str, key: &str, selector: &Selector, pods: &[Arc<Pod>]) -> Vec<String> {
        let mut autoscalers = self.autoscalers.lock();
        if let Some(remembered) = autoscalers.get_mut(key) {
            remembered.selector = selector.clone();
        }
        let no_labels = BTreeMap::new();
        let of_namespace = format!("{namespace}/");
        autoscalers
            .range(of_namespace.clone()..)
            .take_while(|(key, _)| key.starts_with(&of_namespace))
            .filter(|(_, other)| {
                pods.iter().any(|pod| other.selector.matches(pod.metadata.labels.as_ref().unwrap_or(&no_labels)))
            })
            .map(|(key, _)| key.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use controller_base::fixture::at;
    use std::time::Duration;

    fn autoscaler(name: &str, uid: &str) -> HorizontalPodAutoscaler {
        let mut metadata = fixture::meta(name);
        metadata.uid = Some(uid.to_owned());
        HorizontalPodAutoscaler { metadata, ..HorizontalPodAutoscaler::default() }
    }

    #[test]
    fn only_autoscalers_of_the_cache_are_remembered() {
        let memory = Memory::default();
        let recommended = |history: History| history.recommended_within(Duration::from_secs(60), at(0)).count();
        memory.with_history("default/web", |history| history.recommend(1, at(0)));
        assert_eq!(recommended(memory.history("default/web", 1, at(0))), 0);
        memory.register(&autoscaler("web", "u"));
        assert_eq!(recommended(memory.history("default/web", 1, at(0))), 1);
        memory.with_history("default/web", |history| history.recommend(2, at(0)));
        memory.register(&autoscaler("web", "u"));
        assert_eq!(recommended(memory.history("default/web", 1, at(0))), 2);
        memory.register(&autoscaler("web", "v"));
        assert_eq!(recommended(memory.history("default/web", 1, at(0))), 1, "another one of the same name");
        memory.forget("default/web");
        assert_eq!(recommended(memory.history("default/web", 1, at(0))), 0);
    }

    #[test]
    fn autoscalers_that_select_a_common_pod_are_found() {
        let memory = Memory::default();
        ["a", "b", "c"].into_iter().for_each(|name| memory.register(&autoscaler(name, name)));
        let mut elsewhere = autoscaler("d", "d");
        elsewhere.metadata.namespace = Some("default-2".to_owned());
        memory.register(&elsewhere);
        let mut pod = fixture::pod("web");
        pod.metadata.labels = Some(fixture::labels(&[("app", "web"), ("tier", "front")]));
        let pods = [Arc::new(pod)];
        let select = |key: &str, labels: &str| {
            let selector = Selector::parse(labels).unwrap();
            memory.select(key.split_once('/').unwrap().0, key, &selector, &pods)
        };
        assert_eq!(select("default/a", "app=web"), ["default/a"]);
        assert_eq!(select("default/b", "app=db"), ["default/a"], "its pods would be others");
        assert_eq!(select("default-2/d", "app=web"), ["default-2/d"]);
        assert_eq!(select("default/c", "tier=front"), ["default/a", "default/c"]);
        assert_eq!(select("default/c", "tier=back"), ["default/a"]);
    }
}
