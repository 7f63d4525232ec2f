//! What containers reach: each other, Services, names, and the servers that hooks call.

use super::Shows::{Field, Log, Prints, WholeLog};
use super::Spec;
use e2e::kubectl::Kubectl;
use e2e::wait;

pub const GROUP: (&str, &[Spec]) = (OBJECTS, SPECS);

/// Servers that the pods call, and a record of what the hooks have said.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: netserver, labels: {app: netserver}}
spec: {hostname: netserver, subdomain: headless, containers: [{name: webserver, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [netexec, --http-port=8083, --udp-port=8081], ports: [{name: http, containerPort: 8083}, {name: udp, containerPort: 8081, protocol: UDP}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: netserver}
spec: {selector: {app: netserver}, ports: [{name: http, port: 80, targetPort: http}, {name: udp, port: 90, targetPort: udp, protocol: UDP}]}
---
apiVersion: v1
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, selector: {app: netserver}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {type: ExternalName, externalName: foo.example.com}
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec: {selector: {app: nobody}, ports: [{port: 80}]}
"#;

const SPECS: &[Spec] = &[
    Spec {
        name: "intra-pod-http",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", command: [sh, -c, "until curl -g -q -s --connect-timeout 5 http://netserver/hostname; do sleep 1; done"]}]"#,
        shows: WholeLog("netserver"),
    },
    Spec {
        name: "dial-over-http-and-udp",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [netexec, --http-port=8080]}]
restartPolicy: Always"#,
        shows: Prints(
            &[
                "sh",
                "-c",
                "until curl -s http://netserver/hostname >/dev/null; do sleep 1; done; curl -g -q -s 'http://127.0.0.1:8080/dial?request=hostname&protocol=http&host=netserver&port=80&tries=1'; curl -g -q -s 'http://127.0.0.1:8080/dial?request=hostname&protocol=udp&host=netserver&port=90&tries=1'",
            ],
            "{\"responses\":[\"netserver\"]}{\"responses\":[\"netserver\"]}",
        ),
    },
    Spec {
        name: "names-of-services",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", command: [sh, -c, "for name in kubernetes.default kubernetes.default.svc netserver headless netserver.headless; do check=\"$(dig +notcp +noall +answer +search $name A)\" && test -n \"$check\" && echo OK $name; done; dig +short elsewhere.default.svc.cluster.local CNAME; dig +notcp +noall +answer +search _http._tcp.netserver.default.svc SRV | wc -l"]}]"#,
        shows: Log(&[
            "OK kubernetes.default\n",
            "OK kubernetes.default.svc\n",
            "OK netserver\n",
            "foo.example.com.",
            "1\n",
        ]),
    },
    Spec {
        name: "own-names",
        pod: r#"hostname: dns-querier-2
subdomain: headless
containers: [{name: c, image: busybox, command: [sh, -c, "hostname; hostname -f; tail -1 /etc/hosts | cut -f2"]}]"#,
        shows: WholeLog(
            "dns-querier-2\ndns-querier-2.headless.default.svc.cluster.local\ndns-querier-2.headless.default.svc.cluster.local\n",
        ),
    },
    Spec {
        name: "own-dns",
        pod: r#"dnsPolicy: None
dnsConfig: {nameservers: [1.1.1.1], searches: [resolv.conf.local], options: [{name: ndots, value: "2"}]}
containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", args: [dns-server-list]}]"#,
        shows: Log(&["1.1.1.1"]),
    },
    Spec {
        name: "no-endpoint",
        pod: r#"containers: [{name: c, image: "registry.k8s.io/e2e-test-images/agnhost:2.59", command: [sh, -c, "/agnhost connect --timeout=3s nobody:80; true"]}]"#,
        shows: Log(&["REFUSED"]),
    },
    Spec {
        name: "post-start-by-command",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "sleep 2; cat /tmp/started; echo; sleep 1"], lifecycle: {postStart: {exec: {command: [sh, -c, echo -n started > /tmp/started]}}}}]"#,
        shows: WholeLog("started\n"),
    },
    Spec {
        name: "in-cluster-client",
        pod: r#"containers: [{name: c, image: busybox, command: [sh, -c, "wget -q -O- --no-check-certificate https://kubernetes.default/version | grep -o v1.36"]}]"#,
        shows: WholeLog("v1.36\n"),
    },
    Spec {
        name: "config-map-that-is-missing",
        pod: r#"containers: [{name: c, image: busybox, env: [{name: NONE, valueFrom: {configMapKeyRef: {name: none, key: none}}}]}]"#,
        shows: Field("{.status.containerStatuses[0].state.waiting.reason}", "CreateContainerConfigError"),
    },
];

/// A pod whose hooks call a server: after its start and before its stop, by a command and by a request.
pub fn hooks_reach_servers(kubectl: &Kubectl) {
    let address = kubectl.ok("get pod netserver -o jsonpath={.status.podIP}");
    let agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.59";
    let called = |what: &str| {
        let log = || kubectl.ok("logs netserver");
        assert!(wait::whether(|| log().contains(&format!("GET /echo?msg={what}"))), "{what}: {}", log());
    };
    for (name, post_start, pre_stop) in [
        (
            "by-command",
            "{exec: {command: [sh, -c, 'curl http://ADDRESS:8083/echo?msg=WHAT']}}",
            "{exec: {command: [sh, -c, 'curl http://ADDRESS:8083/echo?msg=WHAT']}}",
        ),
        (
            "by-request",
            "{httpGet: {host: ADDRESS, port: 8083, path: \"/echo?msg=WHAT\"}}",
            "{httpGet: {host: ADDRESS, port: 8083, path: \"/echo?msg=WHAT\"}}",
        ),
    ] {
        let hook = |text: &str, what: &str| text.replace("ADDRESS", &address).replace("WHAT", what);
        let (started, stopped) = (format!("poststart-{name}"), format!("prestop-{name}"));
        let lifecycle = format!("{{postStart: {}, preStop: {}}}", hook(post_start, &started), hook(pre_stop, &stopped));
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: c\n    image: {agnhost}\n    lifecycle: {lifecycle}\n"
        );
        kubectl.with_input("create -f -", &pod).succeeded();
        kubectl.ok(&format!("wait --for=condition=Ready pod/{name} --timeout=60s"));
        called(&started);
        kubectl.ok(&format!("delete pod {name}"));
        called(&stopped);
    }
}
