//! What processes are and how they end: logs, messages, users, limits, policies, hooks and probes.

use super::Shows::{Field, Log, Prints, Restarts, WholeLog};
use super::Spec;

pub const GROUP: (&str, &[Spec]) = (OBJECTS, SPECS);

const OBJECTS: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: unused}
spec: {ports: [{port: 80}]}
"#;

const SPECS: &[Spec] = &[
    Spec {
        name: "log-of-a-command",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "echo Hello World ; sleep 1"]}]"#,
        shows: WholeLog("Hello World\n"),
    },
    Spec {
        name: "failing-command",
        pod: r#"containers: [{name: c, image: busybox, command: ["/bin/false"]}]
restartPolicy: Always"#,
        shows: Field("{.status.containerStatuses[0].lastState.terminated.reason}", "Error"),
    },
    Spec {
        name: "read-only-root",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "echo test > /file; sleep 1"], securityContext: {readOnlyRootFilesystem: true}}]"#,
        shows: WholeLog("sh: can't create /file: Read-only file system\n"),
    },
    Spec {
        name: "writable-root",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "touch checkfile"], securityContext: {readOnlyRootFilesystem: false}}]"#,
        shows: WholeLog(""),
    },
    Spec {
        name: "host-aliases",
        pod: r#"hostAliases: [{ip: 123.45.67.89, hostnames: [foo, bar]}]
containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [etc-hosts]}]"#,
        shows: Log(&["# Kubernetes-managed hosts file.", "123.45.67.89\tfoo\tbar"]),
    },
    Spec {
        name: "hosts-of-the-node",
        pod: r#"hostNetwork: true
containers: [{name: c, image: busybox, command: [cat, /etc/hosts]}]"#,
        shows: Log(&["127.0.0.1"]),
    },
    Spec {
        name: "message-from-the-log",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "echo -n DONE; /bin/false"], terminationMessagePolicy: FallbackToLogsOnError}]"#,
        shows: Field("{.status.containerStatuses[0].state.terminated.message}", "DONE"),
    },
    Spec {
        name: "message-of-a-success",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "echo DONE; /bin/true"], terminationMessagePolicy: FallbackToLogsOnError}]"#,
        shows: Field(
            "{.status.containerStatuses[0].state.terminated.reason}{.status.containerStatuses[0].state.terminated.message}",
            "Completed",
        ),
    },
    Spec {
        name: "message-from-a-file",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "echo -n OK > /dev/termination-log; /bin/echo DONE; /bin/true"], terminationMessagePolicy: FallbackToLogsOnError}]"#,
        shows: Field("{.status.containerStatuses[0].state.terminated.message}", "OK"),
    },
    Spec {
        name: "message-of-another-user-at-another-path",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "/bin/echo -n DONE > /dev/termination-custom-log"], terminationMessagePath: /dev/termination-custom-log, securityContext: {runAsUser: 1000}}]"#,
        shows: Field("{.status.containerStatuses[0].state.terminated.message}", "DONE"),
    },
    Spec {
        name: "user",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, id -u], securityContext: {runAsUser: 65534}}]"#,
        shows: WholeLog("65534\n"),
    },
    Spec {
        name: "user-and-group",
        pod: r#"securityContext: {runAsUser: 1001, runAsGroup: 2002, supplementalGroups: [3003]}
containers: [{name: c, image: busybox, command: [sh, -c, id]}]"#,
        shows: WholeLog("uid=1001 gid=2002 groups=2002,3003\n"),
    },
    Spec {
        name: "no-privileges",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "ip link add dummy0 type dummy || true"], securityContext: {privileged: false}}]"#,
        shows: Log(&["Operation not permitted"]),
    },
    Spec {
        name: "no-new-privileges",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/nonewprivs:1.4", securityContext: {runAsUser: 1000, allowPrivilegeEscalation: false}}]"#,
        shows: Log(&["Effective uid: 1000"]),
    },
    Spec {
        name: "privileges-of-the-process",
        pod: r#"hostUsers: false
securityContext: {seccompProfile: {type: RuntimeDefault}}
containers: [{name: c, image: busybox, command: [sh, -c, "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp' /proc/self/status; tr -s ' ' </proc/self/uid_map | cut -d ' ' -f 2,4"], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}}]"#,
        shows: WholeLog("CapEff:\t0000000000000400\nCapBnd:\t0000000000000400\nNoNewPrivs:\t1\nSeccomp:\t2\n0 65536\n"),
    },
    Spec {
        name: "sysctls",
        pod: r#"securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]}
containers: [{name: c, image: busybox, command: [/bin/sysctl, kernel.shm_rmid_forced]}]"#,
        shows: WholeLog("kernel.shm_rmid_forced = 1\n"),
    },
    Spec {
        name: "init-containers",
        pod: r#"volumes: [{name: v, emptyDir: {}}]
initContainers: [{name: init1, image: busybox, command: [sh, -c, echo one >> /v/order], volumeMounts: [{name: v, mountPath: /v}]}, {name: init2, image: busybox, command: [sh, -c, echo two >> /v/order], volumeMounts: [{name: v, mountPath: /v}]}]
containers: [{name: run1, image: busybox, command: [cat, /v/order], volumeMounts: [{name: v, mountPath: /v}]}]"#,
        shows: WholeLog("one\ntwo\n"),
    },
    Spec {
        name: "init-container-that-fails",
        pod: r#"initContainers: [{name: init1, image: busybox, command: [/bin/false]}]
containers: [{name: run1, image: busybox, command: [/bin/true]}]"#,
        shows: Field("{.status.phase}{.status.containerStatuses[0].state.waiting.reason}", "FailedPodInitializing"),
    },
    Spec {
        name: "restarted-until-it-succeeds",
        pod: r#"restartPolicy: OnFailure
volumes: [{name: v, emptyDir: {}}]
containers: [{name: c, image: busybox, command: [sh, -c, "echo run >> /v/runs; cat /v/runs; if test -f /v/been; then exit 0; fi; touch /v/been; exit 1"], volumeMounts: [{name: v, mountPath: /v}]}]"#,
        shows: Field("{.status.phase}{.status.containerStatuses[0].restartCount}", "Succeeded1"),
    },
    Spec {
        name: "liveness-of-a-file",
        pod: r#"restartPolicy: Always
containers: [{name: c, image: busybox, command: [sh, -c, "echo ok >/tmp/health; sleep 3; rm -rf /tmp/health; sleep 600"], livenessProbe: {exec: {command: [cat, /tmp/health]}, periodSeconds: 1, failureThreshold: 1}, terminationMessagePath: /dev/termination-log}]
terminationGracePeriodSeconds: 1"#,
        shows: Restarts,
    },
    Spec {
        name: "liveness-of-a-server",
        pod: r#"restartPolicy: Always
terminationGracePeriodSeconds: 1
containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [liveness], livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 1}}]"#,
        shows: Restarts,
    },
    Spec {
        name: "liveness-that-holds",
        pod: r#"restartPolicy: Always
containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [test-webserver], livenessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 1, failureThreshold: 1}, readinessProbe: {tcpSocket: {port: 80}, initialDelaySeconds: 2, periodSeconds: 1}}]"#,
        shows: Field("{.status.containerStatuses[0].ready}{.status.containerStatuses[0].restartCount}", "true0"),
    },
    Spec {
        name: "liveness-by-grpc",
        pod: r#"restartPolicy: Always
containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [grpc-health-checking], ports: [{containerPort: 5000}], livenessProbe: {grpc: {port: 5000}, periodSeconds: 1, failureThreshold: 1}, readinessProbe: {grpc: {port: 5000}, periodSeconds: 1}}]"#,
        shows: Field("{.status.containerStatuses[0].ready}{.status.containerStatuses[0].restartCount}", "true0"),
    },
    Spec {
        name: "liveness-by-grpc-at-the-wrong-port",
        pod: r#"restartPolicy: Always
terminationGracePeriodSeconds: 1
containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [grpc-health-checking], ports: [{containerPort: 5000}], livenessProbe: {grpc: {port: 2333}, periodSeconds: 1, failureThreshold: 1}}]"#,
        shows: Restarts,
    },
    Spec {
        name: "exec",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "echo container is alive; sleep 10000"]}]"#,
        shows: Prints(
            &["cat", "/etc/resolv.conf"],
            "search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n",
        ),
    },
    Spec {
        name: "deadline",
        pod: r#"activeDeadlineSeconds: 2
terminationGracePeriodSeconds: 0
containers: [{name: c, image: "registry.k8s.io/pause:3.10.1"}]"#,
        shows: Field("{.status.reason}", "DeadlineExceeded"),
    },
    Spec {
        name: "guaranteed",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [pause], resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}}]"#,
        shows: Field("{.status.qosClass}", "Guaranteed"),
    },
];
