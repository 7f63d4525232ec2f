//! The plugins in their order, and which of them run.
//!
//! Corresponds to pkg/kubeapiserver/options/plugins.go: the same names, the same order, the same ones on by default.

use super::always_pull_images::AlwaysPullImages;
use super::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use super::default_class::{DefaultIngressClass, DefaultStorageClass};
use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::deny_service_external_ips::DenyServiceExternalIPs;
use super::extended_resource_toleration::ExtendedResourceToleration;
use super::limit_ranger::LimitRanger;
use super::namespace_exists::NamespaceExists;
use super::namespace_lifecycle::NamespaceLifecycle;
use super::node_restriction::NodeRestriction;
use super::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use super::pod_node_selector::PodNodeSelector;
use super::pod_security::PodSecurity;
use super::pod_topology_labels::PodTopologyLabels;
use super::priority::Priority;
use super::resource_quota::ResourceQuota;
use super::runtime_class::RuntimeClass;
use super::service_account::ServiceAccount;
use super::storage_object_in_use_protection::StorageObjectInUseProtection;
use super::taint_nodes_by_condition::TaintNodesByCondition;
use super::{AdmissionPlugin, Chain, Link, Operation};
use crate::authz::Authorization;
use crate::config::Config;
use crate::metrics::admission::AdmissionMeter;
use component_base::env::Env;
use std::sync::Arc;

/// What plugins are made of.
pub struct Parts<'a> {
    pub env: &'a Env,
    pub authorization: &'a Arc<Authorization>,
    pub config: &'a Config,
}

type Build = fn(&Parts<'_>) -> Arc<dyn AdmissionPlugin>;

/// What plugins look at: the names say which operations of an object.
const CREATE: &[Operation] = &[Operation::Create];
const UPDATE: &[Operation] = &[Operation::Update];
const SAVE: &[Operation] = &[Operation::Create, Operation::Update];
const WRITE: &[Operation] = &[Operation::Create, Operation::Update, Operation::Delete];

/// One plugin of Kubernetes' list.
struct Row {
    /// As `--enable-admission-plugins` says it.
    name: &'static str,
    is_default: bool,
    looks_at: &'static [Operation],
    /// `None`: this server does not have it.
    build: Option<Build>,
}

const fn on(name: &'static str, looks_at: &'static [Operation], build: Build) -> Row {
    Row { name, is_default: true, looks_at, build: Some(build) }
}

const fn off(name: &'static str, looks_at: &'static [Operation], build: Build) -> Row {
    Row { name, is_default: false, looks_at, build: Some(build) }
}

const fn absent(name: &'static str) -> Row {
    Row { name, is_default: false, looks_at: &[], build: None }
}

/// In the order in which they run. A quota counts last, when nothing else refuses.
const ROWS: &[Row] = &[
    absent("AlwaysAdmit"),
    absent("NamespaceAutoProvision"),
    on("NamespaceLifecycle", WRITE, |_| Arc::new(NamespaceLifecycle::default())),
    off("NamespaceExists", WRITE, |_| Arc::new(NamespaceExists)),
    absent("LimitPodHardAntiAffinityTopology"),
    on("LimitRanger", SAVE, |_| Arc::new(LimitRanger)),
    on("ServiceAccount", SAVE, |parts| Arc::new(ServiceAccount::new(parts.env))),
    off("NodeRestriction", WRITE, |_| Arc::new(NodeRestriction)),
    on("TaintNodesByCondition", CREATE, |_| Arc::new(TaintNodesByCondition)),
    off("AlwaysPullImages", SAVE, |_| Arc::new(AlwaysPullImages)),
    absent("ImagePolicyWebhook"),
    on("PodSecurity", SAVE, |_| Arc::new(PodSecurity)),
    off("PodNodeSelector", CREATE, |_| Arc::new(PodNodeSelector)),
    on("Priority", WRITE, |_| Arc::new(Priority)),
    on("DefaultTolerationSeconds", SAVE, |parts| Arc::new(DefaultTolerationSeconds::new(parts.config))),
    absent("PodTolerationRestriction"),
    absent("EventRateLimit"),
    off("ExtendedResourceToleration", SAVE, |_| Arc::new(ExtendedResourceToleration)),
    on("DefaultStorageClass", CREATE, |_| Arc::new(DefaultStorageClass)),
    on("StorageObjectInUseProtection", CREATE, |_| Arc::new(StorageObjectInUseProtection)),
    absent("PodGroupProtection"),
    absent("OwnerReferencesPermissionEnforcement"),
    on("PersistentVolumeClaimResize", UPDATE, |_| Arc::new(PersistentVolumeClaimResize)),
    on("RuntimeClass", CREATE, |_| Arc::new(RuntimeClass)),
    on("CertificateApproval", UPDATE, |parts| Arc::new(CertificateApproval(parts.authorization.clone()))),
    on("CertificateSigning", UPDATE, |parts| Arc::new(CertificateSigning(parts.authorization.clone()))),
    absent("ClusterTrustBundleAttest"),
    on("CertificateSubjectRestriction", CREATE, |_| Arc::new(CertificateSubjectRestriction)),
    on("DefaultIngressClass", CREATE, |_| Arc::new(DefaultIngressClass)),
    off("DenyServiceExternalIPs", SAVE, |_| Arc::new(DenyServiceExternalIPs)),
    on("PodTopologyLabels", CREATE, |_| Arc::new(PodTopologyLabels)),
    absent("PodGroupWorkloadExists"),
    absent("NodeDeclaredFeatureValidator"),
    absent("MutatingAdmissionPolicy"),
    absent("MutatingAdmissionWebhook"),
    absent("ValidatingAdmissionPolicy"),
    absent("ValidatingAdmissionWebhook"),
    on("ResourceQuota", SAVE, |_| Arc::new(ResourceQuota)),
    absent("AlwaysDeny"),
];

/// What is wrong with `--enable-admission-plugins` or `--disable-admission-plugins`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("{flag}-admission-plugins plugin {name:?} is unknown")]
    Unknown { flag: &'static str, name: String },
    #[error("enable-admission-plugins plugin {0:?} is not part of this server")]
    Absent(String),
    #[error("{0} in enable-admission-plugins and disable-admission-plugins overlapped")]
    Both(String),
}

/// The plugins that are on by default, with those named in `enabled` and without those named in `disabled`.
pub fn chain(enabled: &[String], disabled: &[String], parts: &Parts<'_>) -> Result<Chain, PluginError> {
    let rows = chosen(enabled, disabled)?;
    let links = rows.iter().filter_map(|row| {
        let (looks_at, plugin) = (row.looks_at, row.build?(parts));
        Some(Link { looks_at, plugin, meter: AdmissionMeter::of_plugin(parts.env, row.name) })
    });
    Ok(Chain::new(parts.env, links.collect()))
}

/// The names of those plugins; none where the flags are wrong.
pub fn names(enabled: &[String], disabled: &[String]) -> Vec<&'static str> {
    chosen(enabled, disabled).unwrap_or_default().iter().map(|row| row.name).collect()
}

/// Whether the flags' names are right, without making anything.
pub fn check(enabled: &[String], disabled: &[String]) -> Result<(), PluginError> {
    chosen(enabled, disabled).map(|_| ())
}

fn chosen(enabled: &[String], disabled: &[String]) -> Result<Vec<&'static Row>, PluginError> {
    for (flag, names) in [("enable", enabled), ("disable", disabled)] {
        for name in names {
            let row = ROWS.iter().find(|row| row.name == name.as_str());
            let row = row.ok_or_else(|| PluginError::Unknown { flag, name: name.clone() })?;
            if row.build.is_none() && flag == "enable" {
                return Err(PluginError::Absent(name.clone()));
            }
        }
    }
    if let Some(both) = enabled.iter().find(|name| disabled.contains(name)) {
        return Err(PluginError::Both(both.clone()));
    }
    let says = |names: &[String], row: &Row| names.iter().any(|name| name == row.name);
    Ok(ROWS.iter().filter(|row| says(enabled, row) || (row.is_default && !says(disabled, row))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(enabled: &[&str], disabled: &[&str]) -> Result<Vec<&'static str>, String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let rows = chosen(&owned(enabled), &owned(disabled)).map_err(|error| error.to_string())?;
        Ok(rows.iter().map(|row| row.name).collect())
    }

    #[test]
    fn the_default_plugins_run_in_kubernetes_order() {
        assert_eq!(
            names(&[], &[]).expect("the default"),
            [
                "NamespaceLifecycle",
                "LimitRanger",
                "ServiceAccount",
                "TaintNodesByCondition",
                "PodSecurity",
                "Priority",
                "DefaultTolerationSeconds",
                "DefaultStorageClass",
                "StorageObjectInUseProtection",
                "PersistentVolumeClaimResize",
                "RuntimeClass",
                "CertificateApproval",
                "CertificateSigning",
                "CertificateSubjectRestriction",
                "DefaultIngressClass",
                "PodTopologyLabels",
                "ResourceQuota",
            ]
        );
    }

    #[test]
    fn flags_add_and_take_away() {
        let default = names(&[], &[]).expect("the default");
        assert!(default.contains(&"Priority") && default.contains(&"ServiceAccount"));
        let fewer = names(&[], &["Priority"]).expect("without one");
        assert_eq!(fewer, default.iter().copied().filter(|name| *name != "Priority").collect::<Vec<_>>());
        assert_eq!(names(&["Priority"], &["AlwaysDeny"]), Ok(default));
    }

    #[test]
    fn wrong_names_are_told_in_one_line() {
        for (enabled, disabled, why) in [
            (&["Odd"][..], &[][..], r#"enable-admission-plugins plugin "Odd" is unknown"#),
            (&[], &["odd"], r#"disable-admission-plugins plugin "odd" is unknown"#),
            (
                &["ImagePolicyWebhook"],
                &[],
                r#"enable-admission-plugins plugin "ImagePolicyWebhook" is not part of this server"#,
            ),
            (
                &["Priority"],
                &["Priority"],
                "Priority in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
        ] {
            assert_eq!(names(enabled, disabled), Err(why.to_owned()));
        }
    }
}
