//! `Catalogue`: an immutable snapshot of the table with its indexes. A change of the rows replaces it as a whole.
//!
//! Corresponds to the RESTMapper and the group list of the aggregator.

use super::groups::{compare_group_versions, compare_groups};
use super::{Conversion, Resource, Served, Stability, builtin};
use crate::gvk::{Gvk, Gvr};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// One served version of one row.
#[derive(Clone, Debug)]
pub struct Target {
    pub row: Arc<Resource>,
    /// Index into `row.served`.
    pub served: usize,
}

/// One API group as discovery shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVersions {
    /// Empty for the core group.
    pub group: String,
    /// The preferred version is the first.
    pub versions: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    rows: Vec<Arc<Resource>>,
    by_gvr: BTreeMap<Gvr, Target>,
    by_gvk: BTreeMap<Gvk, Target>,
    groups: Vec<GroupVersions>,
    /// The preferred version of each resource, by group and plural. Admission asks for some resources at every write.
    preferred: BTreeMap<String, BTreeMap<String, Target>>,
}

impl Target {
    pub fn served(&self) -> &Served {
        &self.row.served[self.served]
    }

    /// Returns whether objects are shown exactly as they are stored, without pruning or conversion.
    pub fn shows_as_stored(&self) -> bool {
        self.is_storage_version()
            && matches!(self.served().conversion, Conversion::Same)
            && !self.row.converts_by_webhook()
    }

    pub fn gvr(&self) -> Gvr {
        self.served().gvr()
    }

    pub fn gvk(&self) -> Gvk {
        self.served().gvk()
    }

    /// Returns whether this is the version of the stored bytes.
    pub fn is_storage_version(&self) -> bool {
        self.served == self.row.storage
    }
}

impl Catalogue {
    /// Returns the catalogue of the built-in rows. It serves what a server without flags serves.
    pub fn builtin() -> Arc<Catalogue> {
        static BUILTIN: LazyLock<Arc<Catalogue>> = LazyLock::new(|| {
            let is_default =
                |row: &Resource, version: &Served| row.gate.is_none() && version.stability() == Stability::Stable;
            Arc::new(Catalogue::complete().only(is_default))
        });
        BUILTIN.clone()
    }

    /// Returns the catalogue of the built-in rows that serves every version of all of them.
    pub fn complete() -> Arc<Catalogue> {
        static COMPLETE: LazyLock<Arc<Catalogue>> = LazyLock::new(|| Arc::new(Catalogue::new(builtin().to_vec())));
        COMPLETE.clone()
    }

    /// Builds a catalogue. If two rows have the same name, the first one wins.
    pub fn new(rows: Vec<Arc<Resource>>) -> Self {
        Self { rows, ..Self::default() }.only(|_, _| true)
    }

    /// Returns the same rows, but serves only the versions for which `is_served` holds.
    pub fn only(&self, is_served: impl Fn(&Resource, &Served) -> bool) -> Self {
        let mut catalogue = Self { rows: self.rows.clone(), ..Self::default() };
        for row in &catalogue.rows {
            for served in 0..row.served.len() {
                let target = Target { row: row.clone(), served };
                let version = target.served();
                if !version.is_served || !is_served(row, version) {
                    continue;
                }
                catalogue.by_gvr.entry(target.gvr()).or_insert_with(|| target.clone());
                catalogue.by_gvk.entry(target.gvk()).or_insert(target);
            }
        }
        catalogue.index_groups();
        catalogue
    }

    /// Returns this catalogue with the rows of custom resources added.
    pub fn with(&self, custom: &[Arc<Resource>]) -> Self {
        let mut catalogue = self.clone();
        for row in custom {
            catalogue.rows.push(row.clone());
            for (served, version) in row.served.iter().enumerate().filter(|(_, version)| version.is_served) {
                let target = Target { row: row.clone(), served };
                catalogue.by_gvr.entry(version.gvr()).or_insert_with(|| target.clone());
                catalogue.by_gvk.entry(version.gvk()).or_insert(target);
            }
        }
        catalogue.index_groups();
        catalogue
    }

    /// Derives the groups and the preferred versions from what is served.
    fn index_groups(&mut self) {
        self.groups = groups_of(self.by_gvr.keys());
        let mut preferred: BTreeMap<String, BTreeMap<String, Target>> = BTreeMap::new();
        for GroupVersions { group, versions } in &self.groups {
            let resources = preferred.entry(group.clone()).or_default();
            for target in versions.iter().flat_map(|version| self.resources(group, version)) {
                resources.entry(target.served().resource.to_string()).or_insert_with(|| target.clone());
            }
        }
        self.preferred = preferred;
    }

    /// Returns whether any version of a row is served.
    pub fn serves(&self, row: &Arc<Resource>) -> bool {
        let mut versions = row.served.iter();
        versions.any(|version| self.by_gvr(&version.gvr()).is_some_and(|target| Arc::ptr_eq(&target.row, row)))
    }

    /// Returns all rows, also those of which nothing is served.
    pub fn rows(&self) -> &[Arc<Resource>] {
        &self.rows
    }

    pub fn by_gvr(&self, gvr: &Gvr) -> Option<Target> {
        self.by_gvr.get(gvr).cloned()
    }

    pub fn by_gvk(&self, gvk: &Gvk) -> Option<Target> {
        self.by_gvk.get(gvk).cloned()
    }

    /// Finds the preferred version of a resource by its group and plural.
    pub fn by_group_resource(&self, group: &str, resource: &str) -> Option<Target> {
        self.preferred.get(group)?.get(resource).cloned()
    }

    /// Returns the groups in the order of discovery, the core group included.
    pub fn groups(&self) -> &[GroupVersions] {
        &self.groups
    }

    /// Returns the resources of one group and version, sorted by name.
    pub fn resources(&self, group: &str, version: &str) -> impl Iterator<Item = &Target> {
        let first = Gvr::new(group, version, "");
        let (group, version) = (first.group.clone(), first.version.clone());
        self.by_gvr
            .range(first..)
            .map(|(_, target)| target)
            .take_while(move |target| target.served().group == group && target.served().version == version)
    }
}

fn groups_of<'a>(names: impl Iterator<Item = &'a Gvr>) -> Vec<GroupVersions> {
    let mut by_group: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for gvr in names {
        let versions = by_group.entry(&gvr.group).or_default();
        if !versions.contains(&gvr.version) {
            versions.push(gvr.version.clone());
        }
    }
    let mut groups: Vec<GroupVersions> = by_group
        .into_iter()
        .map(|(group, mut versions)| {
            versions.sort_by(|a, b| compare_group_versions(group, a, b));
            GroupVersions { group: group.to_owned(), versions }
        })
        .collect();
    groups.sort_by(|a, b| compare_groups(&a.group, &b.group));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Scope;

    #[test]
    fn groups_stand_in_the_order_of_discovery() {
        let catalogue = Catalogue::builtin();
        let shown: Vec<String> = catalogue
            .groups()
            .iter()
            .map(|g| format!("{}/{}", if g.group.is_empty() { "core" } else { &g.group }, g.versions.join(",")))
            .collect();
        expect_test::expect![[r#"
            apiregistration.k8s.io/v1
            core/v1
            apps/v1
            events.k8s.io/v1
            authentication.k8s.io/v1
            authorization.k8s.io/v1
            autoscaling/v2,v1
            batch/v1
            certificates.k8s.io/v1
            networking.k8s.io/v1
            policy/v1
            rbac.authorization.k8s.io/v1
            storage.k8s.io/v1
            admissionregistration.k8s.io/v1
            apiextensions.k8s.io/v1
            scheduling.k8s.io/v1
            coordination.k8s.io/v1
            node.k8s.io/v1
            discovery.k8s.io/v1
            resource.k8s.io/v1
            flowcontrol.apiserver.k8s.io/v1"#]]
        .assert_eq(&shown.join("\n"));
    }

    #[test]
    fn what_stands_behind_gates_comes_in_the_order_of_discovery_too() {
        let complete = Catalogue::complete();
        let is_more = |group: &&GroupVersions| !Catalogue::builtin().groups().contains(group);
        let shown: Vec<String> = complete
            .groups()
            .iter()
            .filter(is_more)
            .map(|group| format!("{}/{}", group.group, group.versions.join(",")))
            .collect();
        expect_test::expect![[r#"
            certificates.k8s.io/v1,v1beta1,v1alpha1
            scheduling.k8s.io/v1,v1alpha2
            resource.k8s.io/v1,v1beta2,v1alpha3
            internal.apiserver.k8s.io/v1alpha1
            storagemigration.k8s.io/v1beta1"#]]
        .assert_eq(&shown.join("\n"));
        let gated = |catalogue: &Catalogue| {
            catalogue.rows().iter().filter(|row| row.gate.is_some() && catalogue.serves(row)).count()
        };
        assert_eq!((gated(&complete), gated(&Catalogue::builtin())), (7, 0));
    }

    #[test]
    fn a_row_with_two_versions_is_found_by_each_name() {
        let catalogue = Catalogue::builtin();
        let v1 = catalogue.by_gvr(&Gvr::new("autoscaling", "v1", "horizontalpodautoscalers")).unwrap();
        let v2 = catalogue.by_gvk(&Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler")).unwrap();
        assert!(Arc::ptr_eq(&v1.row, &v2.row));
        assert!(v2.is_storage_version() && !v1.is_storage_version());
        let preferred = catalogue.by_group_resource("autoscaling", "horizontalpodautoscalers").unwrap();
        assert_eq!(preferred.served().version, "v2");
        let core = catalogue.by_gvr(&Gvr::new("", "v1", "events")).unwrap();
        let events = catalogue.by_gvr(&Gvr::new("events.k8s.io", "v1", "events")).unwrap();
        assert!(Arc::ptr_eq(&core.row, &events.row) && core.is_storage_version());
    }

    #[test]
    fn resources_of_a_version_are_listed_by_name() {
        let catalogue = Catalogue::builtin();
        let names: Vec<String> =
            catalogue.resources("apps", "v1").map(|t| t.served().resource.clone().into_owned()).collect();
        assert_eq!(names, ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]);
    }

    #[test]
    fn custom_rows_join_after_the_built_in_groups_and_never_replace_one() {
        let mut custom = (*Catalogue::builtin().by_gvr(&Gvr::new("apps", "v1", "deployments")).unwrap().row).clone();
        let intruder = Arc::new(custom.clone());
        custom.scope = Scope::Cluster;
        custom.served[0].group = "shop.example".into();
        let mut beta = custom.served[0].clone();
        beta.version = "v1beta1".into();
        custom.served.insert(0, beta);
        let catalogue = Catalogue::new(builtin().iter().cloned().chain([intruder.clone(), Arc::new(custom)]).collect());
        let last = catalogue.groups().last().unwrap();
        assert_eq!((last.group.as_str(), last.versions.join(",").as_str()), ("shop.example", "v1,v1beta1"));
        let found = catalogue.by_gvr(&Gvr::new("apps", "v1", "deployments")).unwrap();
        assert!(!Arc::ptr_eq(&found.row, &intruder));
    }
}
