//! The files of volumes that hold what is written in the API: ConfigMaps, Secrets, the downward API, tokens.
//!
//! Corresponds to MakePayload and collectData of pkg/volume/{configmap,secret,downwardapi,projected}.

use crate::needs::downward::PodFields;
use crate::needs::host_paths;
use crate::needs::references::{Entries, Objects, Source};
use proto::kinds::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, PodSpec, ServiceAccountTokenProjection, Volume};
use std::collections::BTreeMap;

/// The files of one volume, by their path in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeFiles {
    pub content: BTreeMap<String, Vec<u8>>,
    /// Files that hold a token, which has to be requested.
    pub tokens: Vec<ServiceAccountTokenProjection>,
}

/// Returns the reasons why volumes of a pod cannot be mounted, by their names, in the words of `FailedMount`.
pub fn mount_errors(fields: PodFields<'_>, spec: &PodSpec, objects: &Objects) -> Vec<(String, String)> {
    let volumes = spec.volumes.iter().flatten();
    let error = |volume: &Volume| {
        let of_host = volume.host_path.as_ref().and_then(host_paths::error);
        of_host.or_else(|| files(fields, volume, objects).err())
    };
    volumes.filter_map(|volume| Some((volume.name.clone(), error(volume)?))).collect()
}

/// Returns the files of a volume, or why it cannot be mounted.
pub fn files(fields: PodFields<'_>, volume: &Volume, objects: &Objects) -> Result<VolumeFiles, String> {
    let mut files = VolumeFiles::default();
    let read = |source, name: &str, items: &Option<Vec<KeyToPath>>, optional| {
        let entries = objects.entries(source, name, optional)?.unwrap_or_default();
        selected(source, &entries, items.as_deref().unwrap_or_default(), optional)
    };
    if let Some(map) = &volume.config_map {
        files.content.extend(read(Source::ConfigMap, &map.name, &map.items, map.optional)?);
    }
    if let Some(secret) = &volume.secret {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        files.content.extend(read(Source::Secret, name, &secret.items, secret.optional)?);
    }
    if let Some(downward) = &volume.downward_api {
        files.content.extend(downward_files(fields, downward.items.as_deref().unwrap_or_default())?);
    }
    let mut errors = Vec::new();
    for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
        let mut add = |content: Result<_, String>| match content {
            Ok(content) => files.content.extend(content),
            Err(error) => errors.push(error),
        };
        if let Some(map) = &source.config_map {
            add(read(Source::ConfigMap, &map.name, &map.items, map.optional));
        }
        if let Some(secret) = &source.secret {
            add(read(Source::Secret, &secret.name, &secret.items, secret.optional));
        }
        if let Some(downward) = &source.downward_api {
            add(downward_files(fields, downward.items.as_deref().unwrap_or_default()));
        }
        files.tokens.extend(source.service_account_token.clone());
    }
    match errors.as_slice() {
        [] => Ok(files),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// Returns all entries by key, or those that `items` lists, by the paths given there.
fn selected(
    source: Source,
    entries: &Entries,
    items: &[KeyToPath],
    optional: Option<bool>,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    if items.is_empty() {
        return Ok(entries.clone());
    }
    let mut selected = BTreeMap::new();
    for item in items {
        match (entries.get(&item.key), source) {
            (Some(content), _) => drop(selected.insert(item.path.clone(), content.clone())),
            (None, _) if optional == Some(true) => {}
            (None, Source::ConfigMap) => {
                return Err(format!("configmap references non-existent config key: {}", item.key));
            }
            (None, Source::Secret) => return Err(format!("references non-existent secret key: {}", item.key)),
        }
    }
    Ok(selected)
}

fn downward_files(fields: PodFields<'_>, items: &[DownwardAPIVolumeFile]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut files = BTreeMap::new();
    for item in items {
        let value = match (&item.field_ref, &item.resource_field_ref) {
            (Some(selector), _) => fields.field(selector)?,
            (None, Some(selector)) => fields.resource(selector, None)?,
            (None, None) => continue,
        };
        files.insert(item.path.clone(), value.into_bytes());
    }
    Ok(files)
}
