//! The ConfigMaps and Secrets that a pod refers to, and what was read of them.
//!
//! Corresponds to VisitPodConfigmapNames and VisitPodSecretNames of pkg/api/v1/pod, and to the managers of
//! pkg/kubelet/configmap and pkg/kubelet/secret.

use crate::needs::claims::Claims;
use crate::needs::device_claims::DeviceClaims;
use proto::kinds::api::core::v1::{EnvFromSource, EnvVar, PodSpec, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The kind of an object that a pod refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    ConfigMap,
    Secret,
}

/// A ConfigMap or Secret in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub source: Source,
    pub name: String,
}

/// Shown as the kubelet names it: `configmap "game-config"`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.source {
            Source::ConfigMap => "configmap",
            Source::Secret => "secret",
        };
        write!(f, "{kind} {:?}", self.name)
    }
}

/// The entries of a ConfigMap or Secret, by key.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// The reason why an object could not be read.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadError {
    NotFound,
    Failed(String),
}

/// What was read of the objects that a pod refers to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// ConfigMaps and Secrets.
    pub sources: BTreeMap<Reference, Result<Arc<Entries>, ReadError>>,
    pub claims: Claims,
    pub device_claims: DeviceClaims,
}

impl Objects {
    /// Returns the entries of an object; `None` if it is optional and does not exist. The error is worded as the
    /// kubelet words it.
    pub fn entries(&self, source: Source, name: &str, optional: Option<bool>) -> Result<Option<Arc<Entries>>, String> {
        let reference = Reference { source, name: name.to_owned() };
        match self.sources.get(&reference) {
            Some(Ok(entries)) => Ok(Some(entries.clone())),
            Some(Err(ReadError::NotFound)) if optional == Some(true) => Ok(None),
            Some(Err(ReadError::Failed(error))) => Err(error.clone()),
            Some(Err(ReadError::NotFound)) | None => Err(format!("{reference} not found")),
        }
    }
}

/// Returns every ConfigMap and Secret that the volumes and variables of a pod refer to.
pub fn references(spec: &PodSpec) -> BTreeSet<Reference> {
    let mut found = Collector::default();
    spec.volumes.iter().flatten().for_each(|volume| found.add_volume(volume));
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        found.add_variables(&container.env_from, &container.env);
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        found.add_variables(&container.env_from, &container.env);
    }
    found.0
}

#[derive(Default)]
struct Collector(BTreeSet<Reference>);

impl Collector {
    fn add(&mut self, source: Source, name: &str) {
        if !name.is_empty() {
            self.0.insert(Reference { source, name: name.to_owned() });
        }
    }

    fn add_volume(&mut self, volume: &Volume) {
        if let Some(map) = &volume.config_map {
            self.add(Source::ConfigMap, &map.name);
        }
        if let Some(secret) = &volume.secret {
            self.add(Source::Secret, secret.secret_name.as_deref().unwrap_or_default());
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            if let Some(map) = &source.config_map {
                self.add(Source::ConfigMap, &map.name);
            }
            if let Some(secret) = &source.secret {
                self.add(Source::Secret, &secret.name);
            }
        }
    }

    fn add_variables(&mut self, env_from: &Option<Vec<EnvFromSource>>, env: &Option<Vec<EnvVar>>) {
        for from in env_from.iter().flatten() {
            if let Some(map) = &from.config_map_ref {
                self.add(Source::ConfigMap, &map.name);
            }
            if let Some(secret) = &from.secret_ref {
                self.add(Source::Secret, &secret.name);
            }
        }
        for from in env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            if let Some(key) = &from.config_map_key_ref {
                self.add(Source::ConfigMap, &key.name);
            }
            if let Some(key) = &from.secret_key_ref {
                self.add(Source::Secret, &key.name);
            }
        }
    }
}
