//! The modes of the files that the kubelet writes into volumes.
//!
//! Corresponds to MakePayload and collectData of pkg/volume/{configmap,secret,downwardapi,projected}.

use proto::kinds::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume};
use std::collections::BTreeMap;

const DEFAULT_MODE: i32 = 0o644;

/// True for a volume whose files the kubelet writes.
pub fn holds_payload(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// The modes of a volume's files: a default, and those that items have of their own.
pub struct FileModes {
    default: i32,
    by_path: BTreeMap<String, i32>,
}

impl FileModes {
    pub fn of(volume: &Volume) -> Self {
        let Volume { config_map, secret, downward_api, projected, .. } = volume;
        let defaults = [
            config_map.as_ref().and_then(|source| source.default_mode),
            secret.as_ref().and_then(|source| source.default_mode),
            downward_api.as_ref().and_then(|source| source.default_mode),
            projected.as_ref().and_then(|source| source.default_mode),
        ];
        let mut modes =
            Self { default: defaults.into_iter().flatten().next().unwrap_or(DEFAULT_MODE), by_path: BTreeMap::new() };
        modes.add_keys(config_map.as_ref().and_then(|source| source.items.as_deref()));
        modes.add_keys(secret.as_ref().and_then(|source| source.items.as_deref()));
        modes.add_fields(downward_api.as_ref().and_then(|source| source.items.as_deref()));
        for source in projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            modes.add_keys(source.config_map.as_ref().and_then(|source| source.items.as_deref()));
            modes.add_keys(source.secret.as_ref().and_then(|source| source.items.as_deref()));
            modes.add_fields(source.downward_api.as_ref().and_then(|source| source.items.as_deref()));
        }
        modes
    }

    fn add_keys(&mut self, items: Option<&[KeyToPath]>) {
        let own = items.into_iter().flatten().filter_map(|item| Some((item.path.clone(), item.mode?)));
        self.by_path.extend(own);
    }

    fn add_fields(&mut self, items: Option<&[DownwardAPIVolumeFile]>) {
        let own = items.into_iter().flatten().filter_map(|item| Some((item.path.clone(), item.mode?)));
        self.by_path.extend(own);
    }

    /// Returns the mode of the file at a path in the volume.
    pub fn of_path(&self, path: &str) -> u32 {
        u32::try_from(self.by_path.get(path).copied().unwrap_or(self.default)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_items_mode_goes_before_the_default() {
        let volume: Volume = serde_json::from_value(json!({"name": "v", "configMap": {
            "name": "m", "defaultMode": 0o400, "items": [{"key": "a", "path": "x/a", "mode": 0o755}, {"key": "b", "path": "b"}],
        }}))
        .unwrap();
        let modes = FileModes::of(&volume);
        assert_eq!((modes.of_path("x/a"), modes.of_path("b")), (0o755, 0o400));
        assert!(holds_payload(&volume));
    }
}
