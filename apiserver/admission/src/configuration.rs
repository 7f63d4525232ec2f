//! `PluginConfigurations`: the configurations of single plugins in `--admission-control-config-file`, read strictly and once.
//!
//! Corresponds to AdmissionConfiguration of k8s.io/apiserver/pkg/apis/apiserver and the plugins' own kinds.

use crate::plugins::event_rate_limit::Limit;
use crate::plugins::pods::image_policy_webhook::ImagePolicy;
use crate::plugins::pods::pod_node_selector::NodeSelectors;
use crate::plugins::pods::pod_security::configuration::PodSecurityConfiguration;
use crate::plugins::pods::pod_toleration_restriction::PodTolerationRestriction;
use crate::plugins::resource_quota::limited::LimitedResource;
use access::configuration_file;
use proto::wire::{Document, Format};
use remote::users::Users;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The configurations of the plugins that have one.
#[derive(Clone, Debug, Default)]
pub struct PluginConfigurations {
    pub pod_security: PodSecurityConfiguration,
    pub pod_node_selector: NodeSelectors,
    pub pod_tolerations: PodTolerationRestriction,
    pub event_rate_limit: Option<Vec<Limit>>,
    pub image_policy: Option<ImagePolicy>,
    pub limited_resources: Vec<LimitedResource>,
    pub mutating_webhook_users: Users,
    pub validating_webhook_users: Users,
}

/// The fields of the file, before validation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    plugins: Vec<WrittenPlugin>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenPlugin {
    name: String,
    /// Path of a file, relative to the folder of this one. `configuration` takes precedence.
    path: String,
    configuration: Option<Value>,
}

impl PluginConfigurations {
    /// Reads a file; the error is one line.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("")))
    }

    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let written: Written = configuration_file::parse(text, "AdmissionConfiguration")?;
        let (mut all, mut seen) = (Self::default(), BTreeSet::new());
        for plugin in &written.plugins {
            let name = plugin.name.as_str();
            if !seen.insert(name) {
                return Err(format!("plugin {name:?} is configured twice"));
            }
            let configuration = match &plugin.configuration {
                Some(configuration) => configuration.clone(),
                None if plugin.path.is_empty() => continue,
                None => read(&folder.join(&plugin.path))?,
            };
            all.take(name, configuration, folder).map_err(|why| format!("plugin {name:?}: {why}"))?;
        }
        Ok(all)
    }

    fn take(&mut self, name: &str, configuration: Value, folder: &Path) -> Result<(), String> {
        match name {
            "PodSecurity" => {
                let versions =
                    ["v1", "v1beta1", "v1alpha1"].map(|v| format!("pod-security.admission.config.k8s.io/{v}"));
                self.pod_security = typed(configuration, "PodSecurityConfiguration", &versions)?;
            }
            "EventRateLimit" => {
                let versions = ["eventratelimit.admission.k8s.io/v1alpha1".to_owned()];
                let limits: Limits = typed(configuration, "Configuration", &versions)?;
                crate::plugins::event_rate_limit::check(&limits.limits)?;
                self.event_rate_limit = Some(limits.limits);
            }
            "PodTolerationRestriction" => {
                let versions = ["podtolerationrestriction.admission.k8s.io/v1alpha1".to_owned()];
                self.pod_tolerations = typed(configuration, "Configuration", &versions)?;
            }
            "ResourceQuota" => {
                let versions = ["apiserver.config.k8s.io/v1".to_owned()];
                let limited: LimitedResources = typed(configuration, "ResourceQuotaConfiguration", &versions)?;
                self.limited_resources = limited.limited_resources;
            }
            "MutatingAdmissionWebhook" => self.mutating_webhook_users = webhook_users(configuration, folder)?,
            "ValidatingAdmissionWebhook" => self.validating_webhook_users = webhook_users(configuration, folder)?,
            "PodNodeSelector" => self.pod_node_selector = below(configuration, "podNodeSelectorPluginConfig")?,
            "ImagePolicyWebhook" => {
                let policy: ImagePolicy = below(configuration, "imagePolicy")?;
                self.image_policy = Some(policy.checked(folder)?);
            }
            _ => return Err("it takes no configuration here".to_owned()),
        }
        Ok(())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Limits {
    limits: Vec<Limit>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct LimitedResources {
    limited_resources: Vec<LimitedResource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WebhookAdmission {
    /// Relative to the folder of the file that contains it.
    kube_config_file: PathBuf,
}

fn webhook_users(configuration: Value, folder: &Path) -> Result<Users, String> {
    let versions = ["apiserver.config.k8s.io/v1".to_owned()];
    let WebhookAdmission { kube_config_file } = typed(configuration, "WebhookAdmissionConfiguration", &versions)?;
    match kube_config_file.as_os_str().is_empty() {
        true => Ok(Users::default()),
        false => Users::of_file(&folder.join(kube_config_file)),
    }
}

fn read(path: &Path) -> Result<Value, String> {
    let failed = |why: String| format!("{}: {}", path.display(), why.lines().next().unwrap_or_default());
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    Ok(Document::parse(Format::Yaml, text.as_bytes()).map_err(failed)?.value)
}

fn decoded<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("strict decoding error: {error}"))
}

/// Decodes a configuration with `apiVersion` and `kind`.
fn typed<T: DeserializeOwned>(mut configuration: Value, kind: &str, versions: &[String]) -> Result<T, String> {
    let fields = configuration.as_object_mut().ok_or("want a mapping")?;
    let mut said = |name: &str| fields.remove(name).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    let (version, said_kind) = (said("apiVersion"), said("kind"));
    if said_kind != kind || !versions.contains(&version) {
        let wanted = &versions[0];
        return Err(format!("no kind {said_kind:?} is registered for version {version:?}: want {wanted} {kind}"));
    }
    decoded(configuration)
}

/// Decodes a configuration without `kind`, whose fields are all below one key.
fn below<T: DeserializeOwned>(mut configuration: Value, key: &str) -> Result<T, String> {
    match configuration.get_mut(key) {
        Some(value) => decoded(value.take()),
        None => Err(format!("want {key}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(plugins: &str) -> Result<PluginConfigurations, String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n{plugins}");
        PluginConfigurations::parse(&text, Path::new("/nowhere"))
    }

    #[test]
    fn what_is_wrong_is_told_in_a_line() {
        for (plugins, why) in [
            ("- {name: Odd, configuration: {}}", "plugin \"Odd\": it takes no configuration here"),
            ("- {name: PodSecurity}\n- {name: PodSecurity}", "plugin \"PodSecurity\" is configured twice"),
            (
                "- {name: PodSecurity, configuration: {kind: Odd}}",
                "plugin \"PodSecurity\": no kind \"Odd\" is registered for version \"\": want \
                 pod-security.admission.config.k8s.io/v1 PodSecurityConfiguration",
            ),
            (
                "- {name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: \
                 PodSecurityConfiguration, defaults: {enforce: odd}}}",
                "plugin \"PodSecurity\": strict decoding error: must be one of privileged, baseline, restricted",
            ),
            ("- {name: PodSecurity, path: there}", "/nowhere/there: No such file or directory (os error 2)"),
            (
                "- {name: EventRateLimit, configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: \
                 Configuration}}",
                "plugin \"EventRateLimit\": limits: Invalid value: []: must not be empty",
            ),
            (
                "- {name: ResourceQuota, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: \
                 ResourceQuotaConfiguration, limitedResources: [{resource: pods, matchScopes: [{scopeName: a}]}]}}",
                "plugin \"ResourceQuota\": strict decoding error: missing field `operator`",
            ),
            (
                "- {name: ValidatingAdmissionWebhook, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: \
                 WebhookAdmissionConfiguration, kubeConfigFile: users}}",
                "plugin \"ValidatingAdmissionWebhook\": /nowhere/users: No such file or directory (os error 2)",
            ),
            ("- {name: ImagePolicyWebhook, configuration: {}}", "plugin \"ImagePolicyWebhook\": want imagePolicy"),
            ("- {name: PodSecurity, weight: 1}", "strict decoding error: unknown field `weight`"),
        ] {
            let refused = parse(plugins).unwrap_err();
            assert!(refused.starts_with(why) && !refused.contains('\n'), "{refused}\n{why}");
        }
    }

    #[test]
    fn every_plugin_finds_its_own() {
        let all = parse(
            "- name: PodSecurity\n  configuration:\n    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: \
             PodSecurityConfiguration\n    defaults: {enforce: baseline, enforce-version: v1.24}\n    exemptions: \
             {namespaces: [kube-system]}\n- name: PodNodeSelector\n  configuration:\n    \
             podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: zone=a}\n- name: EventRateLimit\n  \
             configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: \
             Server, qps: 1, burst: 2}]}\n- name: PodTolerationRestriction\n  configuration: {apiVersion: \
             podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{operator: Exists}]}\n",
        )
        .unwrap();
        assert_eq!(all.pod_security.defaults.policy().enforce.to_string(), "baseline:v1.24");
        assert_eq!(all.pod_node_selector["clusterDefaultNodeSelector"], "zone=a");
        assert_eq!(all.event_rate_limit.map(|limits| limits.len()), Some(1));
        assert_eq!(all.pod_tolerations.default, [serde_json::json!({"operator": "Exists"})]);
        assert!(all.image_policy.is_none());
    }
}
