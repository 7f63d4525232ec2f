//! Files of volumes: what they hold, their modes and owners.

use super::Shows::{Log, Prints, WholeLog};
use super::Spec;

pub const GROUP: (&str, &[Spec]) = (OBJECTS, SPECS);

const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: files}
data: {data-1: value-1, data-2: value-2}
binaryData: {dump.bin: 3q2+7w==}
---
apiVersion: v1
kind: Secret
metadata: {name: secret-files}
stringData: {data-1: secret-1}
"#;

const SPECS: &[Spec] = &[
    Spec {
        name: "config-map-files",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [mounttest, --file_content=/etc/files/data-1, --file_mode=/etc/files/data-1], volumeMounts: [{name: v, mountPath: /etc/files}]}]
volumes: [{name: v, configMap: {name: files}}]"#,
        shows: Log(&[
            "content of file \"/etc/files/data-1\": value-1",
            "mode of file \"/etc/files/data-1\": -rw-r--r--",
        ]),
    },
    Spec {
        name: "config-map-files-with-modes",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [mounttest, --file_content=/etc/files/path/to/data-2, --file_mode=/etc/files/path/to/data-2], volumeMounts: [{name: v, mountPath: /etc/files}]}]
volumes: [{name: v, configMap: {name: files, items: [{key: data-2, path: path/to/data-2, mode: 256}]}}]"#,
        shows: Log(&[
            "content of file \"/etc/files/path/to/data-2\": value-2",
            "mode of file \"/etc/files/path/to/data-2\": -r--------",
        ]),
    },
    Spec {
        name: "config-map-files-with-default-mode",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [mounttest, --file_mode=/etc/files/data-1], volumeMounts: [{name: v, mountPath: /etc/files}]}]
volumes: [{name: v, configMap: {name: files, defaultMode: 256}}]"#,
        shows: Log(&["mode of file \"/etc/files/data-1\": -r--------"]),
    },
    Spec {
        name: "config-map-files-for-a-group",
        pod: r#"securityContext: {runAsUser: 1000, fsGroup: 1001}
containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [mounttest, --file_content=/etc/files/data-1, --file_mode=/etc/files/data-1, --file_owner=/etc/files/data-1], volumeMounts: [{name: v, mountPath: /etc/files}]}]
volumes: [{name: v, configMap: {name: files, defaultMode: 288}}]"#,
        shows: Log(&[
            "content of file \"/etc/files/data-1\": value-1",
            "mode of file \"/etc/files/data-1\": -r--r-----",
            "owner GID of \"/etc/files/data-1\": 1001",
        ]),
    },
    Spec {
        name: "binary-files",
        pod: r#"containers: [{name: c, image: busybox, command: [hexdump, -C, /etc/files/dump.bin], volumeMounts: [{name: v, mountPath: /etc/files}]}]
volumes: [{name: v, configMap: {name: files}}]"#,
        shows: Log(&["de ad be ef"]),
    },
    Spec {
        name: "secret-files",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [mounttest, --file_content=/etc/secret/new-path, --file_mode=/etc/secret/new-path], volumeMounts: [{name: v, mountPath: /etc/secret, readOnly: true}]}]
volumes: [{name: v, secret: {secretName: secret-files, items: [{key: data-1, path: new-path, mode: 256}]}}]"#,
        shows: Log(&[
            "content of file \"/etc/secret/new-path\": secret-1",
            "mode of file \"/etc/secret/new-path\": -r--------",
        ]),
    },
    Spec {
        name: "two-volumes-of-one-map",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [mounttest, --file_content=/etc/two/data-1], volumeMounts: [{name: v, mountPath: /etc/one}, {name: w, mountPath: /etc/two}]}]
volumes: [{name: v, configMap: {name: files}}, {name: w, configMap: {name: files}}]"#,
        shows: Log(&["value-1"]),
    },
    Spec {
        name: "projected-files",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, 'cd /all; cat podname secret-data configmap-data; wc -c < token; stat -L -c %a podname'], volumeMounts: [{name: v, mountPath: /all}]}]
volumes:
- name: v
  projected:
    sources:
    - downwardAPI: {items: [{path: podname, fieldRef: {fieldPath: metadata.name}}]}
    - secret: {name: secret-files, items: [{key: data-1, path: secret-data}]}
    - configMap: {name: files, items: [{key: data-1, path: configmap-data}]}
    - serviceAccountToken: {path: token, expirationSeconds: 3600}"#,
        shows: Log(&["projected-filessecret-1value-1", "644"]),
    },
    Spec {
        name: "downward-files",
        pod: r#"containers:
- name: client-container
  image: registry.k8s.io/e2e-test-images/agnhost:2.59
  args: [mounttest, --file_content=/podinfo/podname, --file_mode=/podinfo/podname]
  resources: {requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 1250m, memory: 64Mi}}
  volumeMounts: [{name: podinfo, mountPath: /podinfo}]
volumes:
- name: podinfo
  downwardAPI:
    defaultMode: 256
    items:
    - {path: podname, fieldRef: {fieldPath: metadata.name}}
    - {path: labels, fieldRef: {fieldPath: metadata.labels}}
    - {path: annotations, fieldRef: {fieldPath: metadata.annotations}}
    - {path: cpu_limit, resourceFieldRef: {containerName: client-container, resource: limits.cpu}}
    - {path: memory_request, resourceFieldRef: {containerName: client-container, resource: requests.memory}}"#,
        shows: Log(&[
            "content of file \"/podinfo/podname\": downward-files",
            "mode of file \"/podinfo/podname\": -r--------",
        ]),
    },
    Spec {
        name: "downward-files-of-resources",
        pod: r#"containers:
- name: c
  image: busybox
  command: [sh, -c, "cd /podinfo; for file in *; do echo $file $(cat $file); done"]
  resources: {requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 1250m}}
  volumeMounts: [{name: podinfo, mountPath: /podinfo}]
volumes:
- name: podinfo
  downwardAPI:
    items:
    - {path: labels, fieldRef: {fieldPath: metadata.labels}}
    - {path: annotations, fieldRef: {fieldPath: metadata.annotations}}
    - {path: cpu_limit, resourceFieldRef: {containerName: c, resource: limits.cpu}}
    - {path: memory_limit, resourceFieldRef: {containerName: c, resource: limits.memory, divisor: 1Mi}}
    - {path: memory_request, resourceFieldRef: {containerName: c, resource: requests.memory}}"#,
        shows: Log(&[
            "tier=\"backend\"",
            "zone=\"us-est-coast\"",
            "builder=\"foo\"",
            "cpu_limit 2\n",
            "memory_limit 32668\n",
            "memory_request 33554432\n",
        ]),
    },
    Spec {
        name: "empty-dir-in-memory",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [mounttest, --fs_type=/test-volume, --new_file_0777=/test-volume/test-file, --file_perm=/test-volume/test-file], volumeMounts: [{name: v, mountPath: /test-volume}]}]
volumes: [{name: v, emptyDir: {medium: Memory}}]"#,
        shows: Log(&["mount type of \"/test-volume\": tmpfs", "perms of file \"/test-volume/test-file\": -rwxrwxrwx"]),
    },
    Spec {
        name: "empty-dir",
        pod: r#"securityContext: {runAsUser: 1001}
containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [mounttest, --fs_type=/test-volume, --new_file_0644=/test-volume/test-file, --file_perm=/test-volume/test-file, --file_mode=/test-volume], volumeMounts: [{name: v, mountPath: /test-volume}]}]
volumes: [{name: v, emptyDir: {}}]"#,
        shows: Log(&[
            "perms of file \"/test-volume/test-file\": -rw-r--r--",
            "mode of file \"/test-volume\": drwxrwxrwx",
        ]),
    },
    Spec {
        name: "shared-between-containers",
        pod: r#"containers: [{name: main, image: busybox, command: [sh, -c, 'while ! test -f /usr/share/volumeshare/shareddata.txt; do sleep 1; done; cat /usr/share/volumeshare/shareddata.txt'], volumeMounts: [{name: v, mountPath: /usr/share/volumeshare}]}, {name: sub, image: busybox, command: [sh, -c, 'echo Hello from the busy-box sub-container > /usr/share/volumeshare/shareddata.txt'], volumeMounts: [{name: v, mountPath: /usr/share/volumeshare}]}]
volumes: [{name: v, emptyDir: {}}]"#,
        shows: WholeLog("Hello from the busy-box sub-container\n"),
    },
    Spec {
        name: "sub-path-of-a-file",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, 'cat /probe-volume/probe-file; ls -A /probe-volume'], volumeMounts: [{name: v, mountPath: /probe-volume/probe-file, subPath: data-1}]}]
volumes: [{name: v, configMap: {name: files}}]"#,
        shows: WholeLog("value-1probe-file\n"),
    },
    Spec {
        name: "service-account-files",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, 'cd /var/run/secrets/kubernetes.io/serviceaccount; cat namespace; echo; ls; head -1 ca.crt; test -s token && echo token is there']}]"#,
        shows: Log(&["default\n", "ca.crt\nnamespace\ntoken\n", "-----BEGIN CERTIFICATE-----", "token is there\n"]),
    },
    Spec {
        name: "links-of-atomic-volumes",
        pod: r#"containers: [{name: c, image: busybox, command: [sleep, "100000"], volumeMounts: [{name: v, mountPath: /etc/files}]}]
volumes: [{name: v, configMap: {name: files}}]"#,
        shows: Prints(
            &[
                "sh",
                "-c",
                "readlink /etc/files/data-1; readlink /etc/files/..data | cut -c1-2; echo x > /etc/files/data-1",
            ],
            "..data/data-1\n..\n",
        ),
    },
];
