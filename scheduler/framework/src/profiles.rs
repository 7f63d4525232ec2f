//! `Profiles`, all profiles of a scheduler, by the name that pods give in `schedulerName`.
//!
//! Corresponds to pkg/scheduler/profile.

use super::{Profile, QueueSort, Registry, assembly};
use crate::configuration::Configuration;
use crate::configuration::extender::ignored_resources;
use crate::configuration::profile::DEFAULT_SCHEDULER;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct Profiles {
    by_name: BTreeMap<String, Arc<Profile>>,
    /// Back-off after the first failure. Each further failure doubles it.
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
}

impl Profiles {
    /// Makes the plugins of all profiles, or returns everything that is wrong with them.
    pub fn assemble(configuration: &Configuration, registry: &Registry) -> Result<Self, Vec<String>> {
        let (mut by_name, mut errors) = (BTreeMap::new(), Vec::new());
        let ignored = ignored_resources(&configuration.extenders);
        for profile in &configuration.profiles {
            let name = &profile.scheduler_name;
            match assembly::assemble(&profile.ignoring(&ignored), registry) {
                Ok(mut assembled) => {
                    let percentage =
                        profile.percentage_of_nodes_to_score.or(configuration.percentage_of_nodes_to_score);
                    assembled.percentage_of_nodes_to_score = percentage.and_then(|p| p.try_into().ok()).unwrap_or(0);
                    by_name.insert(name.clone(), Arc::new(assembled));
                }
                Err(why) => {
                    let why = why.into_iter().map(|why| format!("creating profile for scheduler name {name}: {why}"));
                    errors.extend(why);
                }
            }
        }
        let sort = |profile: &Arc<Profile>| profile.queue_sort.as_ref().map(|sort| sort.name());
        if let Some((first, profile)) = by_name.first_key_value() {
            for (name, other) in by_name.iter().filter(|(_, other)| sort(other) != sort(profile)) {
                let (theirs, ours) = (sort(other).unwrap_or_default(), sort(profile).unwrap_or_default());
                errors.push(format!(
                    "different queue sort plugins for profile {name:?}: {theirs:?}, first: {ours:?} of {first:?}"
                ));
            }
        }
        let seconds = |seconds: i64| Duration::from_secs(seconds.unsigned_abs());
        match errors.is_empty() {
            true => Ok(Self {
                by_name,
                initial_backoff: seconds(configuration.pod_initial_backoff_seconds),
                max_backoff: seconds(configuration.pod_max_backoff_seconds),
            }),
            false => Err(errors),
        }
    }

    /// Returns the profile of a pod; `None` for a pod of another scheduler.
    pub fn of(&self, pod: &Pod) -> Option<&Arc<Profile>> {
        let name = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
        self.by_name.get(name.unwrap_or(DEFAULT_SCHEDULER))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Returns the plugin that orders the queue. All profiles have the same one, with the same arguments.
    pub fn queue_sort(&self) -> Option<&Arc<dyn QueueSort>> {
        self.by_name.values().find_map(|profile| profile.queue_sort.as_ref())
    }
}

#[cfg(any(test, feature = "testing"))]
impl From<Profile> for Profiles {
    fn from(profile: Profile) -> Self {
        let by_name = BTreeMap::from([(profile.scheduler_name.clone(), Arc::new(profile))]);
        Self { by_name, initial_backoff: Duration::from_secs(1), max_backoff: Duration::from_secs(10) }
    }
}
