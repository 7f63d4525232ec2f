//! `LeaderMigration`: the controllers that move from one manager to another, and the lease under which they run meanwhile.
//!
//! Two managers that both know a controller must never run it at once. While it moves, whoever holds the migration's lease
//! runs it: first the old manager, then the new one. All other controllers run under the manager's own lease.
//!
//! ```text
//! apiVersion: controllermanager.config.k8s.io/v1
//! kind: LeaderMigrationConfiguration
//! leaderName: node-ipam-migration
//! controllerLeaders:
//! - {name: node-ipam-controller, component: kube-controller-manager}
//! ```
//!
//! Corresponds to k8s.io/controller-manager/pkg/leadermigration and its config.

use clap::Args;
use component_base::options::{OptionsError, read_file};
use proto::serializer::{Document, Format};
use serde::Deserialize;
use std::path::PathBuf;

const FLAG: &str = "leader-migration-config";
const GROUP: &str = "controllermanager.config.k8s.io";
const KIND: &str = "LeaderMigrationConfiguration";
/// Lease and controllers where no file names any: those that once moved out of kube-controller-manager.
const DEFAULT_LEASE: &str = "cloud-provider-extraction-migration";
const DEFAULT_CONTROLLERS: [&str; 3] =
    ["node-route-controller", "service-lb-controller", "cloud-node-lifecycle-controller"];
const ANY: &str = "*";
const COMPONENTS: [&str; 3] = [ANY, "kube-controller-manager", "cloud-controller-manager"];

#[derive(Args, Clone, Debug)]
pub struct LeaderMigrationOptions {
    /// Run controllers that move to another manager under a lease that both managers share
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_leader_migration: bool,
    /// The controllers that move, and their lease (YAML); those of the cloud where no file is given
    #[arg(long, value_name = "FILE")]
    pub leader_migration_config: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaderMigration {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub leader_name: String,
    #[serde(default = "leases")]
    resource_lock: String,
    #[serde(default)]
    controller_leaders: Vec<ControllerLeader>,
}

/// A controller that moves, and the manager that runs it at present.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllerLeader {
    name: String,
    component: String,
}

/// The lease under which a manager runs a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    Own,
    Migration,
    /// The other manager runs it.
    Nobody,
}

fn leases() -> String {
    "leases".to_owned()
}

impl LeaderMigrationOptions {
    /// Returns the migration, if it is switched on.
    pub fn migration(&self) -> Result<Option<LeaderMigration>, OptionsError> {
        if !self.enable_leader_migration {
            return Ok(None);
        }
        let Some(path) = &self.leader_migration_config else { return Ok(Some(LeaderMigration::of_the_cloud())) };
        let invalid = |message| OptionsError::Invalid { flag: FLAG, message: format!("{}: {message}", path.display()) };
        LeaderMigration::parse(&read_file(FLAG, path)?).map(Some).map_err(invalid)
    }
}

impl LeaderMigration {
    fn of_the_cloud() -> Self {
        let leader = |name: &str| ControllerLeader { name: name.to_owned(), component: ANY.to_owned() };
        Self {
            _api_version: format!("{GROUP}/v1"),
            _kind: KIND.to_owned(),
            leader_name: DEFAULT_LEASE.to_owned(),
            resource_lock: leases(),
            controller_leaders: DEFAULT_CONTROLLERS.map(leader).into(),
        }
    }

    fn parse(yaml: &str) -> Result<Self, String> {
        let document = Document::parse(Format::Yaml, yaml.as_bytes())?;
        let said = |name: &str| document.value[name].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (said("apiVersion"), said("kind"));
        let versions = ["v1", "v1beta1", "v1alpha1"].map(|version| format!("{GROUP}/{version}"));
        if !versions.contains(&api_version) || kind != KIND {
            return Err(format!("want {GROUP}/v1 {KIND}, and not {api_version:?} {kind:?}"));
        }
        if let Some(twice) = document.duplicates.first() {
            return Err(twice.clone());
        }
        let migration: Self = serde_json::from_value(document.value).map_err(|error| error.to_string())?;
        migration.check().map(|()| migration)
    }

    fn check(&self) -> Result<(), String> {
        if self.leader_name.is_empty() {
            return Err("leaderName: Required value".to_owned());
        }
        if self.resource_lock != leases() {
            return Err(format!(
                "resourceLock: Unsupported value: {:?}: supported values: \"leases\"",
                self.resource_lock
            ));
        }
        let unknown =
            self.controller_leaders.iter().position(|leader| !COMPONENTS.contains(&leader.component.as_str()));
        unknown.map_or(Ok(()), |at| {
            let supported = COMPONENTS.map(|name| format!("{name:?}")).join(", ");
            let component = &self.controller_leaders[at].component;
            Err(format!(
                "controllerLeaders[{at}].component: Unsupported value: {component:?}: supported values: {supported}"
            ))
        })
    }

    /// Returns the controllers that move, each with the component that runs it at present.
    pub fn leaders(&self) -> impl Iterator<Item = (&str, &str)> {
        self.controller_leaders.iter().map(|leader| (leader.name.as_str(), leader.component.as_str()))
    }

    /// Returns the lease under which a component runs the controller that `is_named` knows.
    pub fn leadership(&self, component: &str, is_named: impl Fn(&str) -> bool) -> Leadership {
        match self.controller_leaders.iter().find(|leader| is_named(&leader.name)) {
            None => Leadership::Own,
            Some(leader) if leader.component == ANY || leader.component == component => Leadership::Migration,
            Some(_) => Leadership::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<LeaderMigration, String> {
        LeaderMigration::parse(&format!("apiVersion: {GROUP}/v1\nkind: {KIND}\n{fields}"))
    }

    #[test]
    fn a_file_names_the_lease_and_who_runs_what() {
        let migration = parse(
            "leaderName: moving\ncontrollerLeaders:\n- {name: node-ipam-controller, component: kube-controller-manager}\n\
             - {name: route, component: '*'}\n",
        );
        let migration = migration.unwrap();
        assert_eq!(migration.leader_name, "moving");
        for (component, controller, expected) in [
            ("kube-controller-manager", "node-ipam-controller", Leadership::Migration),
            ("cloud-controller-manager", "node-ipam-controller", Leadership::Nobody),
            ("cloud-controller-manager", "route", Leadership::Migration),
            ("kube-controller-manager", "job-controller", Leadership::Own),
        ] {
            assert_eq!(
                migration.leadership(component, |name| name == controller),
                expected,
                "{component} {controller}"
            );
        }
    }

    #[test]
    fn a_file_that_says_something_else_is_refused() {
        for (fields, expected) in [
            ("leaderName: ''", "leaderName: Required value"),
            ("controllerLeaders: []", "missing field `leaderName`"),
            ("leaderName: a\nlock: b", "unknown field `lock`"),
            ("leaderName: a\nresourceLock: endpoints", "resourceLock: Unsupported value: \"endpoints\""),
            (
                "leaderName: a\ncontrollerLeaders: [{name: a, component: kubelet}]",
                "controllerLeaders[0].component: Unsupported value: \"kubelet\"",
            ),
        ] {
            let error = parse(fields).unwrap_err();
            assert!(error.starts_with(expected), "{fields}: {error}");
        }
        let error = LeaderMigration::parse("apiVersion: v1\nkind: Pod\n").unwrap_err();
        assert!(error.ends_with("and not \"v1\" \"Pod\""), "{error}");
    }

    #[test]
    fn without_a_file_the_controllers_of_the_cloud_move() {
        let options = LeaderMigrationOptions { enable_leader_migration: true, leader_migration_config: None };
        let migration = options.migration().unwrap().unwrap();
        assert_eq!(migration.leader_name, "cloud-provider-extraction-migration");
        let is_named = |name: &str| name == "service-lb-controller";
        assert_eq!(migration.leadership("cloud-controller-manager", is_named), Leadership::Migration);
        let off = LeaderMigrationOptions { enable_leader_migration: false, leader_migration_config: None };
        assert_eq!(off.migration().unwrap(), None);
    }
}
