//! The names of types: definitions, lists, and the types of subresources, with the kinds that each stands for.
//!
//! Corresponds to the definition namer of k8s.io/apiserver/pkg/endpoints/openapi.

use proto::gvk::Gvk;
use proto::resources::{Catalogue, Served, Subresource};
use proto::schema::{TypeRef, builtin_type};
use std::collections::BTreeMap;

pub const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// Returns the name of the list type of a type. It has no schema of its own, as it follows from the items.
pub fn list_of(item: &str) -> String {
    format!("{item}List")
}

/// Returns the type of a subresource: the parent's type, a type of its own, or none for streams and proxies.
pub fn of_subresource(served: &Served, part: &Subresource) -> Option<TypeRef> {
    let Some((group, version, kind)) = &part.kind else {
        return (part.name != "log").then(|| served.schema.clone());
    };
    let package = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or_default() };
    let target = builtin_type(&format!("io.k8s.api.{package}.{version}.{kind}"));
    proto::schema::builtin::all().contains_key(&target.name).then_some(target)
}

/// Returns the kind in the paths of a subresource.
pub fn gvk_of_subresource(served: &Served, part: &Subresource) -> Gvk {
    match &part.kind {
        Some((group, version, kind)) => Gvk::new(group.as_ref(), version.as_ref(), kind.as_ref()),
        None => served.gvk(),
    }
}

/// Returns the kinds of each definition, by the definition's name.
pub fn kinds(catalogue: &Catalogue) -> BTreeMap<String, Vec<Gvk>> {
    let mut kinds: BTreeMap<String, Vec<Gvk>> = BTreeMap::new();
    let mut add = |name: String, gvk: Gvk| {
        let gvks = kinds.entry(name).or_default();
        if !gvks.contains(&gvk) {
            gvks.push(gvk);
        }
    };
    add(STATUS.to_owned(), Gvk::new("", "v1", "Status"));
    for group in catalogue.groups() {
        for version in &group.versions {
            add(DELETE_OPTIONS.to_owned(), Gvk::new(group.group.as_str(), version.as_str(), "DeleteOptions"));
            for target in catalogue.resources(&group.group, version) {
                let served = target.served();
                let name = served.schema.name.to_string();
                add(list_of(&name), Gvk::new(served.group.as_ref(), served.version.as_ref(), served.list_kind()));
                add(name, served.gvk());
                for part in &served.subresources {
                    if let Some(carried) = of_subresource(served, part) {
                        add(carried.name.to_string(), gvk_of_subresource(served, part));
                    }
                }
            }
        }
    }
    kinds
}
