//! The checks of the Pod Security Standards, each with its level and its first version.
//!
//! Corresponds to k8s.io/pod-security-admission/policy.

use super::policy::{Level, LevelVersion, Version};
use super::setters::{Setters, among, containers, names, quoted, some, some_of};
use crate::plugins::pod_parts::{items, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// A violation, such as `host namespaces (hostPID=true)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub reason: &'static str,
    pub detail: String,
}

/// A pod or template, and the version of the checks.
pub struct Subject<'a> {
    pub metadata: &'a Value,
    pub spec: &'a Value,
    version: Version,
}

impl Subject<'_> {
    fn since(&self, minor: u32) -> bool {
        self.version >= Version::minor(minor)
    }

    fn is_windows(&self) -> bool {
        text(self.spec, "/os/name") == "windows"
    }

    /// Tells whether the pod has a user namespace, in which root has no privileges on the host.
    fn is_relaxed(&self) -> bool {
        self.since(35) && self.spec["hostUsers"] == false
    }
}

struct Check {
    level: Level,
    /// The first minor version of the check.
    since: u32,
    /// The minor version from which, at level restricted, a stricter check replaces this one.
    replaced_since: Option<u32>,
    find: fn(&Subject<'_>) -> Option<Violation>,
}

const fn baseline(since: u32, find: fn(&Subject<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Baseline, since, replaced_since: None, find }
}

const fn replaced(by_since: u32, find: fn(&Subject<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Baseline, since: 0, replaced_since: Some(by_since), find }
}

const fn restricted(since: u32, find: fn(&Subject<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Restricted, since, replaced_since: None, find }
}

/// The checks, in the order in which violations are listed.
const CHECKS: &[Check] = &[
    baseline(0, app_armor),
    replaced(22, capabilities_baseline),
    baseline(0, host_namespaces),
    replaced(0, host_paths),
    baseline(0, host_ports),
    baseline(34, host_probes),
    baseline(0, privileged),
    baseline(0, proc_mount),
    baseline(0, se_linux),
    replaced(19, seccomp_baseline),
    baseline(0, sysctls),
    baseline(0, windows_host_process),
    restricted(8, privilege_escalation),
    restricted(22, capabilities_restricted),
    restricted(0, volume_types),
    restricted(0, run_as_non_root),
    restricted(23, run_as_user),
    restricted(19, seccomp_restricted),
];

/// Returns all violations of a level by a pod.
pub fn violations(policy: LevelVersion, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let subject = Subject { metadata, spec, version: policy.version };
    let holds = |check: &&Check| {
        let is_replaced =
            policy.level == Level::Restricted && check.replaced_since.is_some_and(|since| subject.since(since));
        check.level <= policy.level && subject.since(check.since) && !is_replaced
    };
    if policy.level == Level::Privileged {
        return Vec::new();
    }
    CHECKS.iter().filter(holds).filter_map(|check| (check.find)(&subject)).collect()
}

fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

fn app_armor(subject: &Subject<'_>) -> Option<Violation> {
    let bad = |profile: &Value| !matches!(text(profile, "/type"), "RuntimeDefault" | "Localhost");
    let mut setters = Setters::of(subject.spec, "/securityContext/appArmorProfile", bad);
    let mut values: Vec<String> = setters.values("/type");
    let annotations = subject.metadata.get("annotations").and_then(Value::as_object);
    let mut wrong: Vec<String> = annotations
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with(APP_ARMOR_ANNOTATION))
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .filter(|(_, value)| !value.is_empty() && *value != "runtime/default" && !value.starts_with("localhost/"))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    wrong.sort();
    if !wrong.is_empty() {
        setters.add(some(wrong.len(), "annotation", "annotations"));
        values.extend(wrong);
    }
    let who = setters.who()?;
    let reason = some(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    violation(reason, format!("{who} must not set AppArmor profile type to {}", quoted(&values)))
}

const DEFAULT_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Describes containers that add a capability not in `allowed`, and these capabilities.
fn added_capabilities(spec: &Value, allowed: &[&str]) -> Option<String> {
    let added = |container: &Value| -> BTreeSet<String> {
        let all = items(container, "/securityContext/capabilities/add").filter_map(Value::as_str);
        all.filter(|name| !allowed.contains(name)).map(str::to_owned).collect()
    };
    let bad = names(spec, |container| !added(container).is_empty());
    let which: BTreeSet<String> = containers(spec).flat_map(added).collect();
    let who = some_of(&bad, "container", "containers")?;
    Some(format!("{who} must not include {} in securityContext.capabilities.add", quoted(which)))
}

fn capabilities_baseline(subject: &Subject<'_>) -> Option<Violation> {
    violation("non-default capabilities", added_capabilities(subject.spec, DEFAULT_CAPABILITIES)?)
}

fn capabilities_restricted(subject: &Subject<'_>) -> Option<Violation> {
    if subject.since(25) && subject.is_windows() {
        return None;
    }
    let keeps = names(subject.spec, |c| items(c, "/securityContext/capabilities/drop").all(|name| name != "ALL"));
    let keeps = some_of(&keeps, "container", "containers")
        .map(|who| format!(r#"{who} must set securityContext.capabilities.drop=["ALL"]"#));
    let details: Vec<String> =
        keeps.into_iter().chain(added_capabilities(subject.spec, &["NET_BIND_SERVICE"])).collect();
    if details.is_empty() {
        return None;
    }
    violation("unrestricted capabilities", details.join("; "))
}

fn host_namespaces(subject: &Subject<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| subject.spec[field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() {
        return None;
    }
    violation("host namespaces", shared.join(", "))
}

fn host_paths(subject: &Subject<'_>) -> Option<Violation> {
    let paths = items(subject.spec, "/volumes").filter(|volume| volume.get("hostPath").is_some());
    let paths: Vec<&str> = paths.map(|volume| text(volume, "/name")).collect();
    violation("hostPath volumes", some_of(&paths, "volume", "volumes")?)
}

fn host_ports(subject: &Subject<'_>) -> Option<Violation> {
    let ports = |c: &Value| -> BTreeSet<String> {
        let all = items(c, "/ports").filter_map(|port| port["hostPort"].as_i64());
        all.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let bad = names(subject.spec, |c| !ports(c).is_empty());
    let which: Vec<String> = containers(subject.spec).flat_map(ports).collect::<BTreeSet<_>>().into_iter().collect();
    let (who, uses) = (some_of(&bad, "container", "containers")?, some(bad.len(), "uses", "use"));
    let what = some(which.len(), "hostPort", "hostPorts");
    violation("hostPort", format!("{who} {uses} {what} {}", which.join(", ")))
}

const HANDLERS: &[&str] =
    &["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];

fn host_probes(subject: &Subject<'_>) -> Option<Violation> {
    let hosts = |c: &Value| -> BTreeSet<String> {
        let handlers = HANDLERS.iter().filter_map(|pointer| c.pointer(pointer));
        let all = handlers.flat_map(|h| ["/httpGet/host", "/tcpSocket/host"].map(|pointer| text(h, pointer)));
        all.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let bad: Vec<String> =
        names(subject.spec, |c| !hosts(c).is_empty()).into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    let which: BTreeSet<String> = containers(subject.spec).flat_map(hosts).collect();
    let (who, uses) = (some_of(&bad, "container", "containers")?, some(bad.len(), "uses", "use"));
    let what = some(which.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    violation("probe or lifecycle host", format!("{who} {uses} {what} {}", quoted(which)))
}

fn privileged(subject: &Subject<'_>) -> Option<Violation> {
    let bad = names(subject.spec, |c| c.pointer("/securityContext/privileged") == Some(&Value::Bool(true)));
    let who = some_of(&bad, "container", "containers")?;
    violation("privileged", format!("{who} must not set securityContext.privileged=true"))
}

fn proc_mount(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_relaxed() {
        return None;
    }
    let mount = |c: &Value| text(c, "/securityContext/procMount").to_owned();
    let is_bad = |c: &Value| !matches!(mount(c).as_str(), "" | "Default");
    let bad = names(subject.spec, is_bad);
    let which: BTreeSet<String> = containers(subject.spec).filter(|c| is_bad(c)).map(mount).collect();
    let who = some_of(&bad, "container", "containers")?;
    violation("procMount", format!("{who} must not set securityContext.procMount to {}", quoted(which)))
}

fn se_linux(subject: &Subject<'_>) -> Option<Violation> {
    let since_31 = subject.since(31);
    let is_allowed = |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (kind == "container_engine_t" && since_31)
    };
    let is_set = |options: &Value, field: &str| !text(options, field).is_empty();
    let bad = |o: &Value| !is_allowed(text(o, "/type")) || is_set(o, "/user") || is_set(o, "/role");
    let setters = Setters::of(subject.spec, "/securityContext/seLinuxOptions", bad);
    let who = setters.who()?;
    let kinds: Vec<String> = setters.values("/type").into_iter().filter(|kind| !is_allowed(kind)).collect();
    let mut details: Vec<String> = some_of(&kinds, "type", "types").into_iter().collect();
    for (field, why) in [("/user", "user may not be set"), ("/role", "role may not be set")] {
        if setters.any(|options| is_set(options, field)) {
            details.push(why.to_owned());
        }
    }
    violation("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {}", details.join("; ")))
}

const SECCOMP_POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn is_bad_seccomp(profile: &Value) -> bool {
    !matches!(text(profile, "/type"), "RuntimeDefault" | "Localhost")
}

fn bad_seccomp_setters(spec: &Value) -> Option<Violation> {
    let setters = Setters::of(spec, "/securityContext/seccompProfile", is_bad_seccomp);
    let (who, values) = (setters.who()?, quoted(setters.values("/type")));
    violation("seccompProfile", format!("{who} must not set securityContext.seccompProfile.type to {values}"))
}

fn seccomp_baseline(subject: &Subject<'_>) -> Option<Violation> {
    if subject.since(19) {
        return bad_seccomp_setters(subject.spec);
    }
    let of_containers = containers(subject.spec).map(|c| format!("{SECCOMP_CONTAINER_ANNOTATION}{}", text(c, "/name")));
    let wrong: BTreeSet<String> = std::iter::once(SECCOMP_POD_ANNOTATION.to_owned())
        .chain(of_containers)
        .filter_map(|key| Some((subject.metadata.get("annotations")?.get(&key)?.as_str()?, key)))
        .filter(|(value, _)| {
            !matches!(*value, "runtime/default" | "docker/default") && !value.starts_with("localhost/")
        })
        .map(|(value, key)| format!("{key}={value:?}"))
        .collect();
    if wrong.is_empty() {
        return None;
    }
    let what = some(wrong.len(), "annotation", "annotations");
    violation("seccompProfile", format!("forbidden {what} {}", wrong.into_iter().collect::<Vec<_>>().join(", ")))
}

fn seccomp_restricted(subject: &Subject<'_>) -> Option<Violation> {
    if subject.since(25) && subject.is_windows() {
        return None;
    }
    if let Some(violation) = bad_seccomp_setters(subject.spec) {
        return Some(violation);
    }
    let profile = "/securityContext/seccompProfile";
    if among(subject.spec, profile).is_some() {
        return None;
    }
    let who = some_of(&names(subject.spec, |c| among(c, profile).is_none()), "container", "containers")?;
    let detail =
        format!(r#"pod or {who} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#);
    violation("seccompProfile", detail)
}

/// Safe sysctls, each with its first minor version.
const SAFE_SYSCTLS: &[(&str, u32)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn sysctls(subject: &Subject<'_>) -> Option<Violation> {
    let is_safe = |name: &str| SAFE_SYSCTLS.iter().any(|(safe, since)| *safe == name && subject.since(*since));
    let all = items(subject.spec, "/securityContext/sysctls").map(|sysctl| text(sysctl, "/name"));
    let bad: Vec<&str> = all.filter(|name| !is_safe(name)).collect();
    if bad.is_empty() {
        return None;
    }
    violation("forbidden sysctls", bad.join(", "))
}

fn windows_host_process(subject: &Subject<'_>) -> Option<Violation> {
    let setters = Setters::of(subject.spec, "/securityContext/windowsOptions", |o| o["hostProcess"] == true);
    let who = setters.who()?;
    violation("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn privilege_escalation(subject: &Subject<'_>) -> Option<Violation> {
    if subject.since(25) && subject.is_windows() {
        return None;
    }
    let pointer = "/securityContext/allowPrivilegeEscalation";
    let bad = names(subject.spec, |c| c.pointer(pointer) != Some(&Value::Bool(false)));
    let who = some_of(&bad, "container", "containers")?;
    let detail = format!("{who} must set securityContext.allowPrivilegeEscalation=false");
    violation("allowPrivilegeEscalation != false", detail)
}

const ALLOWED_VOLUMES: &[&str] =
    &["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];
const RESTRICTED_VOLUMES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn volume_types(subject: &Subject<'_>) -> Option<Violation> {
    let has = |volume: &Value, kinds: &[&'static str]| kinds.iter().copied().find(|kind| volume.get(*kind).is_some());
    let bad: Vec<&Value> =
        items(subject.spec, "/volumes").filter(|volume| has(volume, ALLOWED_VOLUMES).is_none()).collect();
    let called: Vec<&str> = bad.iter().map(|volume| text(volume, "/name")).collect();
    let kinds: BTreeSet<&str> = bad.iter().map(|volume| has(volume, RESTRICTED_VOLUMES).unwrap_or("unknown")).collect();
    let (who, uses) = (some_of(&called, "volume", "volumes")?, some(called.len(), "uses", "use"));
    let what = some(kinds.len(), "restricted volume type", "restricted volume types");
    violation("restricted volume types", format!("{who} {uses} {what} {}", quoted(kinds)))
}

fn run_as_non_root(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_relaxed() {
        return None;
    }
    let (reason, pointer) = ("runAsNonRoot != true", "/securityContext/runAsNonRoot");
    if let Some(who) = Setters::of(subject.spec, pointer, |value| *value == false).who() {
        return violation(reason, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    if among(subject.spec, pointer).is_some() {
        return None;
    }
    let who = some_of(&names(subject.spec, |c| among(c, pointer).is_none()), "container", "containers")?;
    violation(reason, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}

fn run_as_user(subject: &Subject<'_>) -> Option<Violation> {
    if subject.is_relaxed() {
        return None;
    }
    let who = Setters::of(subject.spec, "/securityContext/runAsUser", |value| *value == 0).who()?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}
