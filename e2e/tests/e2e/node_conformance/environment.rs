//! Environment variables, the downward API, commands and arguments.

use super::Shows::{Field, Log, WholeLog};
use super::Spec;

pub const GROUP: (&str, &[Spec]) = (OBJECTS, SPECS);

const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: env-map}
data: {data-1: value-1, data_2: value-2, 3-data: value-3}
---
apiVersion: v1
kind: Secret
metadata: {name: env-secret}
stringData: {data-1: secret-1, data-2: secret-2}
---
apiVersion: v1
kind: Service
metadata: {name: fooservice}
spec: {selector: {name: foo}, ports: [{port: 8765, targetPort: 8080}]}
"#;

const SPECS: &[Spec] = &[
    Spec {
        name: "config-map-in-env",
        pod: r#"containers: [{name: env-test, image: busybox, command: [sh, -c, env], env: [{name: CONFIG_DATA_1, valueFrom: {configMapKeyRef: {name: env-map, key: data-1}}}]}]"#,
        shows: Log(&["CONFIG_DATA_1=value-1\n"]),
    },
    Spec {
        name: "config-map-as-env",
        pod: r#"containers: [{name: env-test, image: busybox, command: [sh, -c, env], envFrom: [{configMapRef: {name: env-map}}, {prefix: p_, configMapRef: {name: env-map}}]}]"#,
        shows: Log(&[
            "data-1=value-1\n",
            "data_2=value-2\n",
            "3-data=value-3\n",
            "p_data-1=value-1\n",
            "p_3-data=value-3\n",
        ]),
    },
    Spec {
        name: "secret-in-env",
        pod: r#"containers: [{name: env-test, image: busybox, command: [sh, -c, env], env: [{name: SECRET_DATA, valueFrom: {secretKeyRef: {name: env-secret, key: data-1}}}], envFrom: [{prefix: p-, secretRef: {name: env-secret}}]}]"#,
        shows: Log(&["SECRET_DATA=secret-1\n", "p-data-1=secret-1\n", "p-data-2=secret-2\n"]),
    },
    Spec {
        name: "downward-env",
        pod: r#"containers:
- name: dapi-container
  image: busybox
  command: [sh, -c, env]
  resources: {requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 1250m, memory: 64Mi}}
  env:
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
  - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
  - {name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}
  - {name: CPU_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
  - {name: MEMORY_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
  - {name: CPU_REQUEST, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
  - {name: MEMORY_REQUEST, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}"#,
        shows: Log(&[
            "POD_NAME=downward-env\n",
            "POD_NAMESPACE=default\n",
            "POD_UID=",
            "POD_IP=10.244.",
            "HOST_IP=172.18.0.",
            "TIER=backend\n",
            "CPU_LIMIT=2\n",
            "MEMORY_LIMIT=67108864\n",
            "CPU_REQUEST=250\n",
            "MEMORY_REQUEST=32\n",
        ]),
    },
    Spec {
        name: "downward-env-of-the-node",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, env], env: [{name: CPU_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: MEMORY_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}]}]"#,
        shows: Log(&["CPU_LIMIT=8\n", "MEMORY_LIMIT=32668\n"]),
    },
    Spec {
        name: "variables-of-services",
        pod: r#"containers: [{name: env3cont, image: busybox, command: [sh, -c, env]}]"#,
        shows: Log(&[
            "FOOSERVICE_SERVICE_HOST=10.96.",
            "FOOSERVICE_SERVICE_PORT=8765\n",
            "FOOSERVICE_PORT=tcp://10.96.",
            "FOOSERVICE_PORT_8765_TCP_PORT=8765\n",
            "FOOSERVICE_PORT_8765_TCP_PROTO=tcp\n",
            "FOOSERVICE_PORT_8765_TCP=tcp://10.96.",
            "FOOSERVICE_PORT_8765_TCP_ADDR=10.96.",
            "KUBERNETES_SERVICE_HOST=",
        ]),
    },
    Spec {
        name: "image-defaults",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59"}]
restartPolicy: Always"#,
        shows: Field("{.status.phase}", "Running"),
    },
    Spec {
        name: "image-arguments",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [entrypoint-tester, override, arguments]}]"#,
        shows: Log(&["[/agnhost entrypoint-tester override arguments]"]),
    },
    Spec {
        name: "image-command",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", command: [/agnhost-2, entrypoint-tester]}]"#,
        shows: Log(&["[/agnhost-2 entrypoint-tester]"]),
    },
    Spec {
        name: "image-command-and-arguments",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", command: [/agnhost-2], args: [entrypoint-tester, override, arguments]}]"#,
        shows: Log(&["[/agnhost-2 entrypoint-tester override arguments]"]),
    },
    Spec {
        name: "expansion-of-variables",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, env], env: [{name: FOO, value: foo-value}, {name: BAR, value: bar-value}, {name: FOOBAR, value: "$(FOO);;$(BAR)"}, {name: KEPT, value: "$$(FOO) $(NONE)"}]}]"#,
        shows: Log(&["FOOBAR=foo-value;;bar-value\n", "KEPT=$(FOO) $(NONE)\n"]),
    },
    Spec {
        name: "expansion-in-commands",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, 'TEST_VAR=wrong echo "$(TEST_VAR)"'], env: [{name: TEST_VAR, value: test-value}]}]"#,
        shows: WholeLog("test-value\n"),
    },
    Spec {
        name: "expansion-in-arguments",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c], args: ['TEST_VAR=wrong echo "$(TEST_VAR)"'], env: [{name: TEST_VAR, value: test-value}]}]"#,
        shows: WholeLog("test-value\n"),
    },
    Spec {
        name: "expansion-in-sub-paths",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "test -d /testcontainer/expansion-in-sub-paths; echo $?"], env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], volumeMounts: [{name: work, mountPath: /logscontainer, subPathExpr: $(POD_NAME)}, {name: work, mountPath: /testcontainer}]}]
volumes: [{name: work, emptyDir: {}}]"#,
        shows: WholeLog("0\n"),
    },
    Spec {
        name: "sub-path-with-backticks",
        pod: r#"containers: [{name: c, image: busybox, env: [{name: POD_NAME, value: ..}], volumeMounts: [{name: work, mountPath: /logscontainer, subPathExpr: $(POD_NAME)}]}]
volumes: [{name: work, emptyDir: {}}]"#,
        shows: Field("{.status.containerStatuses[0].state.waiting.reason}", "CreateContainerConfigError"),
    },
    Spec {
        name: "sub-path-that-is-absolute",
        pod: r#"containers: [{name: c, image: busybox, env: [{name: POD_NAME, value: /tmp}], volumeMounts: [{name: work, mountPath: /logscontainer, subPathExpr: $(POD_NAME)}]}]
volumes: [{name: work, emptyDir: {}}]"#,
        shows: Field("{.status.containerStatuses[0].state.waiting.reason}", "CreateContainerConfigError"),
    },
];
