//! Tables of the errors of pods, in the order in which Kubernetes reports them.

mod volumes;

use crate::testing::{at, create, update, update_of};
use serde_json::{Value, json};

fn pod(changes: &[(&str, Value)]) -> Value {
    let containers = json!([{"name": "c", "image": "i"}]);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}});
    for (pointer, value) in changes {
        *at(&mut pod, pointer) = value.clone();
    }
    pod
}

fn errors(changes: &[(&str, Value)]) -> Vec<String> {
    create(pod(changes))
}

#[track_caller]
fn check(cases: &[(&str, Value, &[&str])]) {
    for (pointer, value, expected) in cases {
        assert_eq!(errors(&[(pointer, value.clone())]), *expected, "{pointer} {value}");
    }
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn errors_of_a_spec_have_this_order() {
    let broken = errors(&[
        ("/spec/volumes", json!([{"name": "V"}])),
        ("/spec/resourceClaims", json!([{"name": ""}])),
        ("/spec/containers/0/image", json!("")),
        ("/spec/initContainers", json!([{"name": "c", "image": "i"}])),
        ("/spec/restartPolicy", json!("Odd")),
        ("/spec/dnsPolicy", json!("Odd")),
        ("/spec/securityContext", json!({"runAsUser": -1})),
        ("/spec/dnsConfig", json!({"nameservers": ["bad"]})),
        ("/spec/schedulingGates", json!([{"name": "a"}, {"name": "a"}])),
        (
            "/spec/topologySpreadConstraints",
            json!([{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
        ),
        ("/spec/serviceAccountName", json!("s")),
        ("/spec/nodeName", json!("n")),
        ("/spec/activeDeadlineSeconds", json!(0)),
        ("/spec/hostname", json!("H")),
        ("/spec/tolerations", json!([{"operator": "Odd", "key": "k"}])),
        ("/spec/preemptionPolicy", json!("Odd")),
        ("/spec/os", json!({"name": "plan9"})),
    ]);
    let fields: Vec<&str> = broken.iter().map(|error| error.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(
        fields,
        [
            "spec.volumes[0].name",
            "spec.resourceClaims[0].name",
            "spec.resourceClaims[0]",
            "spec.containers[0].image",
            "spec.initContainers[0].name",
            "spec.restartPolicy",
            "spec.dnsPolicy",
            "spec.securityContext.runAsUser",
            "spec.dnsConfig.nameservers[0]",
            "spec.schedulingGates[1]",
            "spec.topologySpreadConstraints[0].maxSkew",
            "spec.activeDeadlineSeconds",
            "spec.hostname",
            "spec.tolerations[0].operator",
            "spec.preemptionPolicy",
            "spec.os",
            "spec.nodeName",
        ],
        "{broken:#?}"
    );
}

#[test]
fn restart_and_resize_policies_are_valid() {
    let rules = |rules: Value| errors(&[("/spec/containers/0/restartPolicyRules", rules)]);
    let at = "spec.containers[0]";
    assert_eq!(
        rules(json!([{"action": "Odd"}])),
        [
            format!("{at}.restartPolicy: Required value: must specify restartPolicy when restart rules are used"),
            format!(
                "{at}.restartPolicyRules[0].action: Unsupported value: \"Odd\": supported values: \"Restart\", \"RestartAllContainers\""
            ),
            format!("{at}.restartPolicyRules[0].exitCodes: Required value: must be specified"),
        ]
    );
    check(&[
        (
            "/spec/containers/0/restartPolicy",
            json!("Odd"),
            &[
                "spec.containers[0].restartPolicy: Unsupported value: \"Odd\": supported values: \"Always\", \"Never\", \"OnFailure\"",
            ],
        ),
        ("/spec/containers/0/resizePolicy", json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]), &[]),
    ]);
    let never = errors(&[
        ("/spec/restartPolicy", json!("Never")),
        ("/spec/containers/0/resizePolicy", json!([{"resourceName": "disk", "restartPolicy": "RestartContainer"}])),
        (
            "/spec/initContainers",
            json!([{"name": "i", "image": "i", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]),
        ),
    ]);
    let not_required = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
    assert_eq!(
        never,
        [
            "spec.containers[0].resizePolicy: Unsupported value: \"disk\": supported values: \"cpu\", \"memory\"".to_owned(),
            format!("spec.containers[0].resizePolicy: Invalid value: \"RestartContainer\": {not_required}"),
            format!("spec.initContainers[0].resizePolicy: Invalid value: \"RestartContainer\": {not_required}"),
            "spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: \"RestartContainer\": must not be set to 'RestartContainer' for non-sidecar initContainers".to_owned(),
        ]
    );
}

#[test]
fn a_host_port_is_used_once() {
    let ports = |host: i64| json!([{"containerPort": 80, "hostPort": host}, {"containerPort": 81, "hostPort": host}]);
    assert_eq!(
        errors(&[("/spec/containers/0/ports", ports(8080))]),
        ["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//8080\""]
    );
    assert_eq!(
        errors(&[
            ("/spec/hostNetwork", json!(true)),
            ("/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": 81}]))
        ]),
        [
            "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"
        ]
    );
    let init = json!([{"name": "i", "image": "i"}, {"name": "j", "image": "i", "ports": ports(9)}]);
    assert_eq!(
        errors(&[("/spec/initContainers", init)]),
        ["spec.initContainers[0].ports[1].hostPort: Duplicate value: \"TCP//9\""]
    );
}

#[test]
fn a_variable_has_one_valid_source() {
    let variable = |from: Value| errors(&[("/spec/containers/0/env", json!([{"name": "V", "valueFrom": from}]))]);
    let at = "spec.containers[0].env[0].valueFrom";
    let cases = [
        (
            json!({"fieldRef": {"fieldPath": "metadata.labels['a b']"}}),
            vec![format!(
                "{at}.fieldRef: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            )],
        ),
        (
            json!({"fieldRef": {"fieldPath": "metadata.name['a']"}}),
            vec![format!(
                "{at}.fieldRef.fieldPath: Invalid value: \"metadata.name['a']\": error converting fieldPath: field label does not support subscript: metadata.name['a']"
            )],
        ),
        (json!({"fieldRef": {"fieldPath": "spec.host"}}), vec![]),
        (
            json!({"resourceFieldRef": {"resource": "limits.hugepages-2Mi", "divisor": "3"}}),
            vec![format!(
                "{at}.resourceFieldRef.divisor: Invalid value: \"limits.hugepages-2Mi\": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource"
            )],
        ),
        (
            json!({"fileKeyRef": {"key": "K", "volumeName": "v", "path": "../p"}}),
            vec![
                format!("{at}.fileKeyRef.path: Invalid value: \"../p\": must not contain '..'"),
                format!("{at}.fileKeyRef.volumeName: Not found: \"v\""),
            ],
        ),
    ];
    for (from, expected) in cases {
        assert_eq!(variable(from.clone()), expected, "{from}");
    }
    check(&[
        ("/spec/containers/0/envFrom", json!([{"configMapRef": {"name": "a-"}}]), &[]),
        (
            "/spec/containers/0/envFrom",
            json!([{"secretRef": {"name": ""}}]),
            &["spec.containers[0].envFrom[0].secretRef.name: Required value"],
        ),
    ]);
}

#[test]
fn pod_level_resources_cover_those_of_the_containers() {
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let at = "spec.resources";
    assert_eq!(
        errors(&[
            ("/spec/resources", json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2", "gadgets": "1"}})),
            ("/spec/containers/0/resources", requests("3")),
        ]),
        [
            format!(
                "{at}.limits[gadgets]: Invalid value: \"gadgets\": must be a standard resource type or fully qualified"
            ),
            format!(
                "{at}.requests[cpu]: Invalid value: \"2\": must be greater than or equal to aggregate container requests of 3"
            ),
            format!(
                "{at}.containers[0][cpu].limits: Invalid value: \"3\": must be less than or equal to pod limits of 2"
            ),
        ]
    );
    let sidecar = |name: &str, policy: Option<&str>| {
        let mut container = json!({"name": name, "image": "i", "resources": requests("2")});
        if let Some(policy) = policy {
            container["restartPolicy"] = json!(policy);
        }
        container
    };
    let with_sidecar = errors(&[
        ("/spec/resources", json!({"requests": {"cpu": "3"}, "limits": {"cpu": "3"}})),
        ("/spec/initContainers", json!([sidecar("s", Some("Always")), sidecar("i", None)])),
    ]);
    assert_eq!(
        with_sidecar,
        [
            "spec.resources.requests[cpu]: Invalid value: \"3\": must be greater than or equal to aggregate container requests of 4"
        ]
    );
    let claims = |claims: Value| {
        errors(&[
            ("/spec/resourceClaims", json!([{"name": "x", "resourceClaimName": "x"}])),
            ("/spec/containers/0/resources", json!({"claims": claims})),
        ])
    };
    let at = "spec.containers[0].resources.claims";
    assert_eq!(claims(json!([{"name": "x", "request": "a"}, {"name": "x", "request": "b"}])), [""; 0]);
    assert_eq!(
        claims(json!([{"name": "x", "request": "a"}, {"name": "x"}, {"name": "x"}, {"name": "y", "request": "B"}])),
        [
            format!("{at}[1]: Duplicate value: \"x\""),
            format!("{at}[2]: Duplicate value: \"x\""),
            format!("{at}[3].request: Invalid value: \"B\": {LABEL}"),
            format!("{at}[3]: Not found: \"y\": must be one of the names in pod.spec.resourceClaims: x"),
        ]
    );
}

#[test]
fn security_contexts_agree_with_the_namespaces_of_the_pod() {
    check(&[
        (
            "/spec/securityContext",
            json!({"seccompProfile": {"type": "Unconfined", "localhostProfile": "p"}}),
            &[
                "spec.securityContext.seccompProfile.localhostProfile: Invalid value: {\"Type\":\"Unconfined\",\"LocalhostProfile\":\"p\"}: can only be set when seccomp type is Localhost",
            ],
        ),
        (
            "/spec/securityContext",
            json!({"seLinuxChangePolicy": "MountOption"}),
            &[
                "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \"Recursive\"",
            ],
        ),
        (
            "/spec/containers/0/securityContext",
            json!({"procMount": "Unmasked", "runAsUser": -1}),
            &[
                "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
            ],
        ),
    ]);
    let sysctl = |name: &str| json!({"sysctls": [{"name": name, "value": "1"}]});
    for (name, field) in
        [("net.ipv4.ip_forward", "hostNetwork"), ("net/ipv4/a", "hostNetwork"), ("kernel.sem", "hostIPC")]
    {
        assert_eq!(
            errors(&[("/spec/securityContext", sysctl(name)), (&format!("/spec/{field}"), json!(true))]),
            [format!(
                "spec.securityContext.sysctls[0].name: Invalid value: \"{name}\": may not be specified when '{field}' is true"
            )]
        );
        assert_eq!(errors(&[("/spec/securityContext", sysctl(name))]), [""; 0]);
    }
    assert_eq!(
        errors(&[
            ("/spec/hostUsers", json!(false)),
            ("/spec/hostPID", json!(true)),
            ("/spec/hostNetwork", json!(true))
        ]),
        [
            "spec.hostNetwork: Forbidden: when `hostUsers` is false",
            "spec.HostPID: Forbidden: when `hostUsers` is false",
        ]
    );
    assert_eq!(
        errors(&[("/spec/hostPID", json!(true)), ("/spec/shareProcessNamespace", json!(true))]),
        [
            "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"
        ]
    );
}

#[test]
fn scheduling_dns_and_host_names_are_valid() {
    let spread = |more: Value| {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"});
        constraint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        constraint
    };
    let at = "spec.topologySpreadConstraints";
    assert_eq!(
        errors(&[(
            "/spec/topologySpreadConstraints",
            json!([
                spread(json!({"minDomains": 0})),
                spread(json!({"topologyKey": ""})),
                spread(json!({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2, "nodeTaintsPolicy": "Odd"})),
                spread(json!({"maxSkew": 2})),
            ])
        )]),
        [
            format!("{at}[0].{{topologyKey, whenUnsatisfiable}}: Duplicate value: \"{{z, DoNotSchedule}}\""),
            format!("{at}[0].minDomains: Invalid value: 0: must be greater than zero"),
            format!("{at}[1].topologyKey: Required value: can not be empty"),
            format!(
                "{at}[2].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
            ),
            format!("{at}[2].nodeTaintsPolicy: Unsupported value: \"Odd\": supported values: \"Honor\", \"Ignore\""),
        ]
    );
    let preferred =
        json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["a b"]}]}}]);
    check(&[
        (
            "/spec/affinity",
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}),
            &[],
        ),
        (
            "/spec/tolerations",
            json!([{"key": "k", "operator": "Gt", "value": "1"}]),
            &[
                "spec.tolerations[0].operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
            ],
        ),
        (
            "/spec/tolerations",
            json!([{"key": "k", "operator": "Exists", "value": "1"}]),
            &["spec.tolerations[0].operator: Invalid value: \"1\": value must be empty when `operator` is 'Exists'"],
        ),
        (
            "/spec/hostAliases",
            json!([{"ip": "1.2.3.4", "hostnames": ["a", "B"]}]),
            &[
                "spec.hostAliases[0].hostnames[1]: Invalid value: \"B\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            "/spec/dnsPolicy",
            json!("None"),
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            "/spec/dnsConfig",
            json!({"searches": ["_a.b", "."], "options": [{}]}),
            &["spec.dnsConfig.options[0]: Required value: must not be empty"],
        ),
        ("/spec/preemptionPolicy", json!(""), &["spec.preemptionPolicy: Required value"]),
        (
            "/spec/hostnameOverride",
            json!(""),
            &[
                "spec.hostnameOverride: Invalid value: \"\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
    ]);
}

#[test]
fn annotations_agree_with_the_spec() {
    let annotated = |key: &str, value: &str| errors(&[("/metadata/annotations", json!({key: value}))]);
    let cases = [
        (
            "kubernetes.io/config.mirror",
            "x",
            Some(
                "[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set",
            ),
        ),
        (
            "controller.kubernetes.io/pod-deletion-cost",
            "+1",
            Some("[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit integer"),
        ),
        ("controller.kubernetes.io/pod-deletion-cost", "-7", None),
        (
            "seccomp.security.alpha.kubernetes.io/pod",
            "odd",
            Some(".seccomp.security.alpha.kubernetes.io/pod: Invalid value: \"odd\": must be a valid seccomp profile"),
        ),
        (
            "container.apparmor.security.beta.kubernetes.io/d",
            "unconfined",
            Some("[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: \"d\": container not found"),
        ),
        (
            "container.apparmor.security.beta.kubernetes.io/c",
            "odd",
            Some(
                "[container.apparmor.security.beta.kubernetes.io/c]: Invalid value: \"odd\": invalid AppArmor profile name: \"odd\"",
            ),
        ),
    ];
    for (key, value, error) in cases {
        let expected: Vec<String> = error.into_iter().map(|error| format!("metadata.annotations{error}")).collect();
        assert_eq!(annotated(key, value), expected, "{key}={value}");
    }
    assert_eq!(
        errors(&[
            ("/metadata/annotations", json!({"container.apparmor.security.beta.kubernetes.io/c": "unconfined"})),
            ("/spec/containers/0/securityContext", json!({"appArmorProfile": {"type": "RuntimeDefault"}})),
        ]),
        [
            "spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match"
        ]
    );
}

#[test]
fn an_update_may_change_images_but_not_the_mirror_annotation() {
    let old = pod(&[
        ("/spec/activeDeadlineSeconds", json!(10)),
        ("/spec/containers/0/imagePullPolicy", json!("Always")),
        ("/metadata/annotations", json!({"kubernetes.io/config.mirror": "x"})),
        ("/spec/nodeName", json!("n")),
    ]);
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!(" x");
    *at(&mut new, "/metadata/annotations") = json!({});
    new["spec"]["activeDeadlineSeconds"] = json!(5);
    let spaced = "spec.containers[0].image: Invalid value: \" x\": must not have leading or trailing whitespace";
    assert_eq!(
        update(old.clone(), new),
        [
            spaced,
            "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation",
            spaced,
        ]
    );
    assert_eq!(
        update_of("ephemeralcontainers", old.clone(), old.clone()),
        [": Forbidden: static pods do not support ephemeral containers"]
    );
    assert_eq!(update_of("resize", old.clone(), old), [": Forbidden: static pods cannot be resized"]);
}

#[test]
fn amounts_of_huge_pages_are_multiples_of_their_size() {
    let limits = |limits: Value| errors(&[("/spec/containers/0/resources/limits", limits)]);
    // Requests that are not set default to the limits, so each error is reported twice.
    let twice = |name: &str, why: String| {
        ["limits", "requests"]
            .map(|part| format!("spec.containers[0].resources.{part}[{name}]: Invalid value: {why}"))
            .to_vec()
    };
    assert_eq!(limits(json!({"cpu": "1", "hugepages-2Mi": "4Mi"})), [""; 0]);
    for (name, amount) in
        [("hugepages-2Mi", "3Mi"), ("hugepages-odd", "2Mi"), ("hugepages-0", "2Mi"), ("hugepages-500m", "2Mi")]
    {
        let why = format!("{amount:?}: {amount} is not positive integer multiple of {name}");
        assert_eq!(limits(json!({"cpu": "1", name: amount})), twice(name, why));
    }
    let quota_name = "requests.hugepages-2Mi";
    let why = format!("{quota_name:?}: must be a standard resource for containers");
    assert_eq!(limits(json!({quota_name: "2Mi"})), twice(quota_name, why));
}
