//! Validates the files of volumes that are made from ConfigMaps, Secrets, the downward API and tokens.
//!
//! Corresponds to validateKeyToPath, validateDownwardAPIVolumeFile and validateProjectionSources.

use super::env;
use crate::validation::paths::unreserved;
use field_checks::at::{At, Errors};
use serde_json::json;
use std::collections::BTreeSet;

/// Checks the permissions of a file.
pub fn mode(at: &At<'_>, errors: &mut Errors) {
    if at.integer().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(at.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

pub fn key_paths(items: &At<'_>, errors: &mut Errors) {
    items.items().for_each(|item| key_path(&item, errors));
}

fn key_path(item: &At<'_>, errors: &mut Errors) {
    for field in ["key", "path"] {
        if item.field(field).is_empty() {
            errors.push(item.field(field).required(""));
        }
    }
    unreserved(&item.field("path"), errors);
    mode(&item.field("mode"), errors);
}

/// Checks the items of a downward API volume. As in Kubernetes, the paths of the errors are those of the volume.
pub fn downward_items(volume: &At<'_>, errors: &mut Errors) {
    for item in volume.field("items").items() {
        downward_item(&At::new(volume.path.clone(), item.value), errors);
    }
}

fn downward_item(item: &At<'_>, errors: &mut Errors) {
    if item.field("path").is_empty() {
        errors.push(item.field("path").required(""));
    }
    unreserved(&item.field("path"), errors);
    let (field, resource) = (item.field("fieldRef"), item.field("resourceFieldRef"));
    if field.is_set() {
        env::field_ref(&field, env::VOLUME_FIELDS, errors);
        if resource.is_set() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(item.invalid_as(&json!("resource"), why));
        }
    } else if resource.is_set() {
        env::resource_field_ref(&resource, true, errors);
    } else {
        errors.push(item.required("one of fieldRef and resourceFieldRef is required"));
    }
    mode(&item.field("mode"), errors);
}

/// The file paths that the sources of a projected volume use. A path that is used twice is an error of the volume.
struct Paths<'a, 'v> {
    volume: &'v At<'v>,
    used: BTreeSet<&'a str>,
}

impl<'a> Paths<'a, '_> {
    /// Records a path. `shown` is the value in the error.
    fn record(&mut self, path: &'a str, shown: &str, errors: &mut Errors) {
        if !self.used.insert(path) {
            errors.push(self.volume.invalid_as(&json!(shown), "conflicting duplicate paths"));
        }
    }
}

pub fn projected(volume: &At<'_>, errors: &mut Errors) {
    mode(&volume.field("defaultMode"), errors);
    let mut paths = Paths { volume, used: BTreeSet::new() };
    for source in volume.field("sources").items() {
        // The feature gates of ClusterTrustBundles and pod certificates are off in v1.36.
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        let found: Vec<&str> = kinds.into_iter().filter(|kind| source.field(kind).is_set()).collect();
        for kind in &found {
            let one = source.field(kind);
            match *kind {
                "secret" | "configMap" => config_map_or_secret(&one, &mut paths, errors),
                "downwardAPI" => {
                    for item in one.field("items").items() {
                        downward_item(&At::new(one.path.clone(), item.value), errors);
                        let path = item.field("path").text();
                        if !path.is_empty() {
                            paths.record(path, path, errors);
                        }
                    }
                }
                _ => token(&one, volume, errors),
            }
        }
        if found.len() > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

/// Checks a ConfigMap or a Secret in a projected volume.
fn config_map_or_secret<'a>(source: &At<'a>, paths: &mut Paths<'a, '_>, errors: &mut Errors) {
    let name = source.field("name");
    if name.is_empty() {
        errors.push(name.required(""));
    }
    for item in source.field("items").items() {
        key_path(&item, errors);
        let path = item.field("path").text();
        if !path.is_empty() {
            paths.record(path, name.text(), errors);
        }
    }
}

/// Checks a service account token in a projected volume.
fn token(source: &At<'_>, volume: &At<'_>, errors: &mut Errors) {
    let expiry = source.field("expirationSeconds");
    if expiry.integer().is_some_and(|s| s < 600) {
        errors.push(expiry.invalid("may not specify a duration less than 10 minutes"));
    }
    if expiry.integer().is_some_and(|s| s > 1 << 32) {
        errors.push(expiry.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    // As in Kubernetes, the path is that of the volume, not of the source.
    let path = At::new(volume.path_of("path"), source.field("path").value);
    if path.is_empty() {
        errors.push(path.required(""));
    } else {
        unreserved(&path, errors);
    }
}
