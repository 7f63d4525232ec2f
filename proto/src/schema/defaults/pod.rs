//! Defaults of pods and pod templates.
//!
//! Corresponds to `SetDefaults_Pod`, `SetDefaults_PodSpec` and `SetDefaults_Container`.

use super::DefaultValue::{Bool, Empty, Int, Of, Text};
use super::Row::{self, Each, Fix, In, Set};
use super::{addresses, pod_fixes, resources, volume};

pub const POD: &[Row] =
    &[In("spec", POD_SPEC), In("spec", POD_ALONE), In("status", &[Fix(addresses::of_pod), Fix(addresses::of_host)])];

/// The pod template of a workload, at `spec.template`.
pub const TEMPLATE: &[Row] = &[In("spec", POD_SPEC)];

pub const POD_TEMPLATE: &[Row] = &[In("template", TEMPLATE)];

/// The defaults that a pod gets, but not a template.
const POD_ALONE: &[Row] = &[
    Set("enableServiceLinks", Bool(true)),
    Fix(pod_fixes::requests_from_limits),
    Fix(pod_fixes::pod_requests_from_limits),
    Fix(pod_fixes::host_ports_on_host_network),
];

const POD_SPEC: &[Row] = &[
    Set("restartPolicy", Text("Always")),
    Set("terminationGracePeriodSeconds", Int(30)),
    Set("dnsPolicy", Text("ClusterFirst")),
    Set("securityContext", Empty),
    Set("schedulerName", Text("default-scheduler")),
    Fix(pod_fixes::old_service_account_field),
    Fix(resources::round_overhead),
    Each("volumes", volume::VOLUME),
    Each("containers", CONTAINER),
    Each("initContainers", CONTAINER),
    Each("ephemeralContainers", CONTAINER),
];

const CONTAINER: &[Row] = &[
    Set("imagePullPolicy", Of(pod_fixes::pull_policy)),
    Set("terminationMessagePath", Text("/dev/termination-log")),
    Set("terminationMessagePolicy", Text("File")),
    In("resources", resources::REQUIREMENTS),
    Each("ports", &[Set("protocol", Text("TCP"))]),
    Each(
        "env",
        &[In("valueFrom.fieldRef", volume::FIELD_REF), In("valueFrom.fileKeyRef", &[Set("optional", Bool(false))])],
    ),
    In("livenessProbe", PROBE),
    In("readinessProbe", PROBE),
    In("startupProbe", PROBE),
    Fix(pod_fixes::no_stop_signal),
    In("lifecycle.postStart.httpGet", HTTP_GET),
    In("lifecycle.preStop.httpGet", HTTP_GET),
];

const PROBE: &[Row] = &[
    Set("timeoutSeconds", Int(1)),
    Set("periodSeconds", Int(10)),
    Set("successThreshold", Int(1)),
    Set("failureThreshold", Int(3)),
    In("httpGet", HTTP_GET),
    In("grpc", &[Fix(pod_fixes::grpc_service)]),
];

const HTTP_GET: &[Row] = &[Set("path", Text("/")), Set("scheme", Text("HTTP"))];
