//! Ownership of `replicas`, which can be written through the `scale` subresource and through the object itself.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/managedfields ScaleHandler.

use super::fields::FieldSet;
use super::managers::{Manager, Managers, Operation, Owned};
use super::path::Path;
use std::sync::LazyLock;

pub const SCALE_VERSION: &str = "autoscaling/v1";

static REPLICAS_IN_SCALE: LazyLock<Path> = LazyLock::new(|| Path::of_fields(&["spec", "replicas"]));

fn only(path: &Path) -> FieldSet {
    let mut set = FieldSet::default();
    set.insert(&path.0);
    set
}

fn through(manager: &Manager, api_version: &str) -> Manager {
    match manager.operation {
        Operation::Apply => manager.clone(),
        Operation::Update => Manager { api_version: api_version.to_owned(), ..manager.clone() },
    }
}

/// Returns the managers of an object's replicas, as managers of its scale. `replicas` is the path in the object.
pub fn to_scale(parent: &Managers, replicas: &Path) -> Managers {
    let owners = parent.0.iter().filter(|(_, owned)| owned.fields.has(&replicas.0));
    let entries = owners.map(|(manager, owned)| {
        let owned =
            Owned { fields: only(&REPLICAS_IN_SCALE), api_version: SCALE_VERSION.to_owned(), time: owned.time.clone() };
        (through(manager, SCALE_VERSION), owned)
    });
    Managers(entries.collect())
}

/// Returns the managers of the object after its scale was written. A manager that lost the replicas there loses them
/// here. A new owner is entered without a time; an applier keeps the time of its earlier entry.
pub fn to_parent(parent: &Managers, scale: &Managers, replicas: &Path, api_version: &str) -> Managers {
    let mut scale = scale.clone();
    let mut result = Managers::default();
    for (manager, owned) in &parent.0 {
        let mut owned = owned.clone();
        if owned.fields.has(&replicas.0) && scale.0.remove(&through(manager, SCALE_VERSION)).is_none() {
            owned.fields = owned.fields.difference(&only(replicas));
        }
        if !owned.fields.is_empty() {
            result.0.insert(manager.clone(), owned);
        }
    }
    for (manager, owned) in scale.0 {
        if !owned.fields.has(&REPLICAS_IN_SCALE.0) {
            continue;
        }
        let manager = through(&manager, api_version);
        let before = result.0.remove(&manager).map(|owned| owned.fields).unwrap_or_default();
        let fields = before.union(&only(replicas));
        let entered = parent.0.get(&manager).filter(|_| manager.operation == Operation::Apply);
        let time = entered.and_then(|entered| entered.time.clone());
        result.0.insert(manager, Owned { fields, api_version: api_version.to_owned(), time });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(paths: &[&[&str]], api_version: &str) -> Owned {
        Owned { fields: FieldSet::of(paths.iter().copied()), api_version: api_version.to_owned(), time: None }
    }

    #[test]
    fn replicas_change_hands_through_scale() {
        let replicas = Path::of_fields(&["spec", "replicas"]);
        let mut parent = Managers::default();
        parent.0.insert(Manager::applier("one", ""), owned(&[&["spec", "replicas"], &["spec", "paused"]], "apps/v1"));
        parent.0.insert(Manager::updater("two", "apps/v1", ""), owned(&[&["spec", "selector"]], "apps/v1"));
        let scale = to_scale(&parent, &replicas);
        assert_eq!(scale.0.len(), 1);
        assert_eq!(to_parent(&parent, &scale, &replicas, "apps/v1"), parent, "nothing changed hands");

        let mut taken = Managers::default();
        let now = Some("2026-01-01T00:00:00Z".to_owned());
        let won = Owned { time: now, ..owned(&[&["spec", "replicas"]], SCALE_VERSION) };
        taken.0.insert(Manager::updater("hpa", SCALE_VERSION, "scale"), won);
        let after = to_parent(&parent, &taken, &replicas, "apps/v1");
        assert_eq!(after.0[&Manager::applier("one", "")].fields, FieldSet::of([["spec", "paused"].as_slice()]));
        let hpa = &after.0[&Manager::updater("hpa", "apps/v1", "scale")];
        assert_eq!(hpa.fields, FieldSet::of([["spec", "replicas"].as_slice()]));
        assert_eq!(hpa.time, None, "a write of the scale leaves no time");
    }
}
