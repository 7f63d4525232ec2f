//! Shows the control plane's own components as static pods of the first node, as a cluster of kubeadm does.
//!
//! The components run as processes, whatever happens to these pods: they are pictures, with the command lines of the
//! processes.

use super::UpError;
use super::components::Component;
use component_base::version;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The components, each with the name of its pod.
const COMPONENTS: [(&str, &str); 3] = [
    ("apiserver", "kube-apiserver"),
    ("controller-manager", "kube-controller-manager"),
    ("scheduler", "kube-scheduler"),
];
/// The priority of the class `system-node-critical`.
const PRIORITY: i32 = 2_000_001_000;

/// Writes the manifests into a folder.
pub fn write(folder: &Path, components: &[Component]) -> Result<(), UpError> {
    let failed = |source| UpError::Manifests { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    for (component, name) in COMPONENTS {
        let found = components.iter().find(|found| found.name == component);
        let manifest = found.map(|found| manifest(found, name)).unwrap_or_default();
        fs::write(folder.join(format!("{name}.json")), format!("{manifest:#}\n")).map_err(failed)?;
    }
    Ok(())
}

fn manifest(component: &Component, name: &str) -> Value {
    let command: Vec<String> = std::iter::once(name.to_owned()).chain(component.arguments.iter().cloned()).collect();
    let probe = |path: &str, period_s: i32, threshold: i32| {
        let target = json!({"host": "127.0.0.1", "path": path, "port": "probe-port", "scheme": "HTTPS"});
        json!({"httpGet": target, "periodSeconds": period_s, "timeoutSeconds": 15, "failureThreshold": threshold})
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"component": name, "tier": "control-plane"}},
        "spec": {
            "hostNetwork": true, "priority": PRIORITY, "priorityClassName": "system-node-critical",
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": name, "image": format!("registry.k8s.io/{name}:{}", version::GIT_VERSION),
                "imagePullPolicy": "IfNotPresent", "command": command,
                "ports": [{"containerPort": component.port, "name": "probe-port", "protocol": "TCP"}],
                "livenessProbe": probe("/livez", 10, 8), "readinessProbe": probe("/readyz", 1, 3),
                "startupProbe": probe("/livez", 10, 24),
                "resources": {"requests": {"cpu": "100m"}},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_has_a_manifest_with_its_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let component =
            |name| Component { name, port: 6443, arguments: vec!["--v=2".to_owned()], first_arguments: Vec::new() };
        let components = ["apiserver", "controller-manager", "scheduler", "kubelet-sim"].map(component);
        write(folder.path(), &components).unwrap();
        let text = fs::read_to_string(folder.path().join("kube-scheduler.json")).unwrap();
        let manifest: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(manifest["spec"]["containers"][0]["command"], json!(["kube-scheduler", "--v=2"]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
