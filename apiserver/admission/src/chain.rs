//! The table of all plugins in their order, and the flags that enable and disable them.
//!
//! Corresponds to pkg/kubeapiserver/options/plugins.go: the same names, the same order, the same ones on by default.

use super::configuration::PluginConfigurations;
use super::parts::PluginParts;
use super::{AdmissionPlugin, Chain, Link, Operation};
use crate::dynamic::policies::mutating::MutatingAdmissionPolicy;
use crate::dynamic::policies::validating::ValidatingAdmissionPolicy;
use crate::dynamic::webhooks::{MutatingAdmissionWebhook, ValidatingAdmissionWebhook};
use crate::metrics::chain::AdmissionMeter;
use crate::plugins::always::{AlwaysAdmit, AlwaysDeny};
use crate::plugins::certificates::{
    CertificateApproval, CertificateSigning, CertificateSubjectRestriction, ClusterTrustBundleAttest,
};
use crate::plugins::default_class::{DefaultIngressClass, DefaultStorageClass};
use crate::plugins::deny_service_external_ips::DenyServiceExternalIPs;
use crate::plugins::event_rate_limit;
use crate::plugins::event_rate_limit::EventRateLimit;
use crate::plugins::limit_ranger::LimitRanger;
use crate::plugins::namespaces::namespace_auto_provision::NamespaceAutoProvision;
use crate::plugins::namespaces::namespace_exists::NamespaceExists;
use crate::plugins::namespaces::namespace_lifecycle::NamespaceLifecycle;
use crate::plugins::nodes::node_declared_feature_validator::NodeDeclaredFeatureValidator;
use crate::plugins::nodes::node_restriction::NodeRestriction;
use crate::plugins::nodes::taint_nodes_by_condition::TaintNodesByCondition;
use crate::plugins::owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement;
use crate::plugins::pod_groups::pod_group_protection::PodGroupProtection;
use crate::plugins::pod_groups::pod_group_workload_exists::PodGroupWorkloadExists;
use crate::plugins::pods::always_pull_images::AlwaysPullImages;
use crate::plugins::pods::default_toleration_seconds::DefaultTolerationSeconds;
use crate::plugins::pods::extended_resource_toleration::ExtendedResourceToleration;
use crate::plugins::pods::image_policy_webhook::ImagePolicyWebhook;
use crate::plugins::pods::limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology;
use crate::plugins::pods::pod_node_selector::PodNodeSelector;
use crate::plugins::pods::pod_security::PodSecurity;
use crate::plugins::pods::pod_topology_labels::PodTopologyLabels;
use crate::plugins::pods::priority::Priority;
use crate::plugins::pods::runtime_class::RuntimeClass;
use crate::plugins::pods::service_account::ServiceAccount;
use crate::plugins::resource_quota::ResourceQuota;
use crate::plugins::volumes::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use crate::plugins::volumes::storage_object_in_use_protection::StorageObjectInUseProtection;
use component_base::env::Env;
use std::sync::Arc;

type AsItIs = fn(&PluginParts<'_>) -> Arc<dyn AdmissionPlugin>;
type Configured = fn(&Env, &PluginConfigurations) -> Result<Arc<dyn AdmissionPlugin>, String>;

/// How a plugin is built.
enum Build {
    AsItIs(AsItIs),
    /// Needs a configuration; the error says what is missing.
    Configured(Configured),
}

impl Build {
    fn make(&self, parts: &PluginParts<'_>) -> Result<Arc<dyn AdmissionPlugin>, String> {
        match self {
            Self::AsItIs(build) => Ok(build(parts)),
            Self::Configured(build) => build(parts.env, parts.configurations),
        }
    }
}

/// Sets of operations that plugins handle.
const CREATE: &[Operation] = &[Operation::Create];
const UPDATE: &[Operation] = &[Operation::Update];
const SAVE: &[Operation] = &[Operation::Create, Operation::Update];
const ALL: &[Operation] = &[Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
const WRITE: &[Operation] = &[Operation::Create, Operation::Update, Operation::Delete];

/// One plugin of Kubernetes' list.
struct Row {
    /// The name in `--enable-admission-plugins`.
    name: &'static str,
    is_default: bool,
    looks_at: &'static [Operation],
    build: Build,
}

const fn on(name: &'static str, looks_at: &'static [Operation], build: AsItIs) -> Row {
    Row { name, is_default: true, looks_at, build: Build::AsItIs(build) }
}

const fn off(name: &'static str, looks_at: &'static [Operation], build: AsItIs) -> Row {
    Row { name, is_default: false, looks_at, build: Build::AsItIs(build) }
}

const fn configured(name: &'static str, looks_at: &'static [Operation], build: Configured) -> Row {
    Row { name, is_default: false, looks_at, build: Build::Configured(build) }
}

/// The plugins in the order in which they run. ResourceQuota is last, so that it charges only writes that all others admit.
const ROWS: &[Row] = &[
    off("AlwaysAdmit", ALL, |_| Arc::new(AlwaysAdmit)),
    off("NamespaceAutoProvision", CREATE, |parts| Arc::new(NamespaceAutoProvision(parts.namespaces.clone()))),
    on("NamespaceLifecycle", WRITE, |_| Arc::new(NamespaceLifecycle::default())),
    off("NamespaceExists", WRITE, |_| Arc::new(NamespaceExists)),
    off("LimitPodHardAntiAffinityTopology", SAVE, |_| Arc::new(LimitPodHardAntiAffinityTopology)),
    on("LimitRanger", SAVE, |_| Arc::new(LimitRanger)),
    on("ServiceAccount", SAVE, |parts| Arc::new(ServiceAccount::new(parts.env))),
    off("NodeRestriction", WRITE, |_| Arc::new(NodeRestriction)),
    on("TaintNodesByCondition", CREATE, |_| Arc::new(TaintNodesByCondition)),
    off("AlwaysPullImages", SAVE, |_| Arc::new(AlwaysPullImages)),
    configured("ImagePolicyWebhook", SAVE, image_policy_webhook),
    on("PodSecurity", SAVE, |parts| Arc::new(PodSecurity::new(&parts.configurations.pod_security))),
    off("PodNodeSelector", CREATE, |parts| Arc::new(PodNodeSelector(parts.configurations.pod_node_selector.clone()))),
    on("Priority", WRITE, |parts| Arc::new(Priority { ranks_pod_groups: parts.pod_groups_have_priorities })),
    on("DefaultTolerationSeconds", SAVE, |parts| Arc::new(DefaultTolerationSeconds::new(parts.toleration_seconds))),
    off("PodTolerationRestriction", SAVE, |parts| Arc::new(parts.configurations.pod_tolerations.clone())),
    configured("EventRateLimit", SAVE, event_rate_limit),
    off("ExtendedResourceToleration", SAVE, |_| Arc::new(ExtendedResourceToleration)),
    on("DefaultStorageClass", CREATE, |_| Arc::new(DefaultStorageClass)),
    on("StorageObjectInUseProtection", CREATE, |_| Arc::new(StorageObjectInUseProtection)),
    on("PodGroupProtection", CREATE, |_| Arc::new(PodGroupProtection)),
    off("OwnerReferencesPermissionEnforcement", SAVE, |parts| {
        let (rights, kinds) = (parts.authorization.clone(), parts.kinds.clone());
        Arc::new(OwnerReferencesPermissionEnforcement { rights, kinds })
    }),
    on("PersistentVolumeClaimResize", UPDATE, |_| Arc::new(PersistentVolumeClaimResize)),
    on("RuntimeClass", CREATE, |_| Arc::new(RuntimeClass)),
    on("CertificateApproval", UPDATE, |parts| Arc::new(CertificateApproval(parts.authorization.clone()))),
    on("CertificateSigning", UPDATE, |parts| Arc::new(CertificateSigning(parts.authorization.clone()))),
    on("ClusterTrustBundleAttest", SAVE, |parts| Arc::new(ClusterTrustBundleAttest(parts.authorization.clone()))),
    on("CertificateSubjectRestriction", CREATE, |_| Arc::new(CertificateSubjectRestriction)),
    on("DefaultIngressClass", CREATE, |_| Arc::new(DefaultIngressClass)),
    off("DenyServiceExternalIPs", SAVE, |_| Arc::new(DenyServiceExternalIPs)),
    on("PodTopologyLabels", CREATE, |_| Arc::new(PodTopologyLabels)),
    on("PodGroupWorkloadExists", CREATE, |_| Arc::new(PodGroupWorkloadExists)),
    on("NodeDeclaredFeatureValidator", UPDATE, |parts| {
        Arc::new(NodeDeclaredFeatureValidator { is_gate_on: parts.nodes_declare_features })
    }),
    on("MutatingAdmissionPolicy", ALL, |parts| {
        Arc::new(MutatingAdmissionPolicy::new(parts.env, parts.authorization.clone()))
    }),
    on("MutatingAdmissionWebhook", ALL, |parts| Arc::new(MutatingAdmissionWebhook::new(parts))),
    on("ValidatingAdmissionPolicy", ALL, |parts| {
        Arc::new(ValidatingAdmissionPolicy::new(parts.env, parts.authorization.clone()))
    }),
    on("ValidatingAdmissionWebhook", ALL, |parts| Arc::new(ValidatingAdmissionWebhook::new(parts))),
    on("ResourceQuota", SAVE, |parts| Arc::new(ResourceQuota::new(&parts.configurations.limited_resources))),
    off("AlwaysDeny", ALL, |_| Arc::new(AlwaysDeny)),
];

fn image_policy_webhook(env: &Env, said: &PluginConfigurations) -> Result<Arc<dyn AdmissionPlugin>, String> {
    let policy = said.image_policy.as_ref().ok_or("no config specified")?;
    Ok(Arc::new(ImagePolicyWebhook::new(env, policy)?))
}

fn event_rate_limit(env: &Env, said: &PluginConfigurations) -> Result<Arc<dyn AdmissionPlugin>, String> {
    let limits = said.event_rate_limit.as_deref().unwrap_or_default();
    event_rate_limit::check(limits)?;
    Ok(Arc::new(EventRateLimit::new(env, limits)))
}

/// An error in `--enable-admission-plugins` or `--disable-admission-plugins`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("{flag}-admission-plugins plugin {name:?} is unknown")]
    Unknown { flag: &'static str, name: String },
    #[error("{0} in enable-admission-plugins and disable-admission-plugins overlapped")]
    Both(String),
    #[error("admission-control-config-file: plugin {name:?}: {why}")]
    Unconfigured { name: &'static str, why: String },
}

/// Builds the default plugins, with those in `enabled` and without those in `disabled`.
pub fn chain(enabled: &[String], disabled: &[String], parts: &PluginParts<'_>) -> Result<Chain, PluginError> {
    let rows = chosen(enabled, disabled)?;
    let links = rows.iter().map(|row| {
        let plugin = row.build.make(parts);
        let plugin = plugin.map_err(|why| PluginError::Unconfigured { name: row.name, why })?;
        let meter = AdmissionMeter::of_plugin(parts.env, row.name);
        Ok(Link { name: row.name, looks_at: row.looks_at, plugin, meter })
    });
    Ok(Chain::new(parts.env, links.collect::<Result<Vec<Link>, PluginError>>()?))
}

/// Returns the names of those plugins; empty if the flags are invalid.
pub fn names(enabled: &[String], disabled: &[String]) -> Vec<&'static str> {
    chosen(enabled, disabled).unwrap_or_default().iter().map(|row| row.name).collect()
}

/// Validates the flags and the configurations of these plugins, by building them and dropping the result.
pub fn check(
    env: &Env,
    enabled: &[String],
    disabled: &[String],
    said: &PluginConfigurations,
) -> Result<(), PluginError> {
    for row in chosen(enabled, disabled)? {
        if let Build::Configured(build) = &row.build {
            build(env, said).map_err(|why| PluginError::Unconfigured { name: row.name, why })?;
        }
    }
    Ok(())
}

fn chosen(enabled: &[String], disabled: &[String]) -> Result<Vec<&'static Row>, PluginError> {
    for (flag, names) in [("enable", enabled), ("disable", disabled)] {
        for name in names {
            if !ROWS.iter().any(|row| row.name == name.as_str()) {
                return Err(PluginError::Unknown { flag, name: name.clone() });
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
                "PodGroupProtection",
                "PersistentVolumeClaimResize",
                "RuntimeClass",
                "CertificateApproval",
                "CertificateSigning",
                "ClusterTrustBundleAttest",
                "CertificateSubjectRestriction",
                "DefaultIngressClass",
                "PodTopologyLabels",
                "PodGroupWorkloadExists",
                "NodeDeclaredFeatureValidator",
                "MutatingAdmissionPolicy",
                "MutatingAdmissionWebhook",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionWebhook",
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
                &["Priority"],
                &["Priority"],
                "Priority in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
        ] {
            assert_eq!(names(enabled, disabled), Err(why.to_owned()));
        }
    }
}
