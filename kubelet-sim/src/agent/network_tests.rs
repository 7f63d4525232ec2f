//! Tests of containers that reach each other through Services, and of clients that reach containers.

use super::logs;
use super::metrics::NodeUsage;
use super::port_forward::pages::{self, PodPort};
use super::tests::{AUTHORITY, container_ref, fleet, log, pod};
use crate::fleet::Fleet;
use crate::runtime::gateway;
use axum::body::Body;
use client_testing::{FakeServer, Fault};
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use http::Request;
use proto::{Kind, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Puts a Service with the endpoints of pods that run.
fn put_service(server: &FakeServer, name: &str, spec: Value, target_port: u16, pods: &[&str]) {
    server.put("services", json!({"metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": spec}));
    let endpoint = |pod: &&str| {
        let status = server.get("pods", &format!("shop/{pod}")).unwrap()["status"].clone();
        assert!(status["podIP"].is_string(), "{status}");
        json!({"addresses": [status["podIP"]], "nodeName": "node-0", "hostname": pod})
    };
    let endpoints: Vec<Value> = pods.iter().map(endpoint).collect();
    server.put(
        "endpointslices.discovery.k8s.io",
        json!({
            "metadata": {"name": format!("{name}-1"), "namespace": "shop", "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "", "port": target_port, "protocol": "TCP"}],
        }),
    );
}

fn server_pod(name: &str, args: &[&str]) -> Value {
    let container = json!({"name": "c", "image": "registry.k8s.io/e2e-test-images/agnhost:2.53", "args": args});
    pod(name, json!({"nodeName": "node-0", "containers": [container]}))
}

/// Runs a script in a pod and returns its log once it has ended.
async fn run(env: &Env, server: &FakeServer, fleet: &Arc<Fleet>, name: &str, script: &str) -> (String, Value) {
    let container = json!({"name": "c", "image": "shop", "command": ["sh", "-c", script]});
    server.put("pods", pod(name, json!({"nodeName": "node-0", "restartPolicy": "Never", "containers": [container]})));
    env.sleep(Duration::from_secs(120)).await;
    let status = server.get("pods", &format!("shop/{name}")).unwrap()["status"].clone();
    (log(fleet, name).await, status["containerStatuses"][0]["state"]["terminated"]["exitCode"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_pod_reaches_others_through_their_service() {
    let (env, server, fleet) = fleet().await;
    for name in ["web-0", "web-1"] {
        server.put("pods", server_pod(name, &["netexec", "--http-port=8080"]));
    }
    env.sleep(Duration::from_secs(10)).await;
    let ports = json!([{"port": 80, "protocol": "TCP", "targetPort": 8080}]);
    put_service(&server, "web", json!({"clusterIP": "10.96.0.7", "ports": ports}), 8080, &["web-0", "web-1"]);
    put_service(&server, "db", json!({"clusterIP": "None", "ports": ports}), 8080, &["web-0", "web-1"]);
    put_service(&server, "empty", json!({"clusterIP": "10.96.0.9", "ports": ports}), 8080, &[]);
    let script = "nslookup web | tail -n 3; i=0; while [ $i -lt 20 ]; do curl -s web/hostname; echo; i=$((i+1)); done | sort -u; \
                  curl -s web-1.db:8080/hostname; echo; curl -s -m 2 10.96.0.7:81; echo $?; curl -s empty; echo $?; \
                  curl -s nobody; echo $?; wget -qO- web.shop.svc.cluster.local/clientip | cut -d: -f1; exit 3";
    let (printed, code) = run(&env, &server, &fleet, "client", script).await;
    let address = server.get("pods", "shop/client").unwrap()["status"]["podIP"].as_str().unwrap().to_owned();
    let expected =
        format!("Name:\tweb.shop.svc.cluster.local\nAddress: 10.96.0.7\n\nweb-0\nweb-1\nweb-1\n28\n7\n6\n{address}\n");
    assert_eq!((printed, code), (expected, json!(3)));
    let of_server = log(&fleet, "web-1").await;
    assert!(of_server.contains("GET /hostname"), "{of_server}");
}

/// A client that nobody looks at sends a request each second, as in the walkthrough of the HorizontalPodAutoscaler.
#[tokio::test(start_paused = true)]
async fn load_that_flows_through_a_service_costs_cpu() {
    let (env, server, fleet) = fleet().await;
    let port = json!([{"containerPort": 80}]);
    let container = json!({"name": "c", "image": "registry.k8s.io/hpa-example", "ports": port,
        "resources": {"requests": {"cpu": "200m"}}});
    let mut web = pod("web", json!({"nodeName": "node-0", "containers": [container]}));
    web["metadata"]["annotations"] = json!({"orrery.dev/cpu": "1m", "orrery.dev/cpu-per-request": "150m"});
    server.put("pods", web);
    env.sleep(Duration::from_secs(10)).await;
    let ports = json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]);
    put_service(&server, "web", json!({"clusterIP": "10.96.0.7", "ports": ports}), 80, &["web"]);
    let milli_cores = || {
        let usage = NodeUsage::of(&fleet, "node-0").unwrap();
        let web = usage.pods.iter().find(|usage| usage.pod.name() == "web").unwrap();
        (web.containers[0].cpu_cores * 1000.0).round()
    };
    assert_eq!(milli_cores(), 1.0);
    let script = "while sleep 1; do wget -q -O- http://web; done";
    let load = json!({"name": "c", "image": "busybox", "command": ["/bin/sh", "-c", script]});
    server.put("pods", pod("load", json!({"nodeName": "node-0", "containers": [load]})));
    env.sleep(Duration::from_secs(60)).await;
    let loaded = milli_cores();
    assert!((130.0..=160.0).contains(&loaded), "{loaded}");
    server.remove("pods", "shop/load");
    env.sleep(Duration::from_secs(30)).await;
    assert_eq!(milli_cores(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn an_init_container_waits_until_a_service_exists() {
    let (env, server, _) = fleet().await;
    let spec = json!({
        "nodeName": "node-0",
        "initContainers": [{"name": "wait", "image": "busybox",
            "command": ["sh", "-c", "until nslookup web; do echo waiting; sleep 2; done"]}],
        "containers": [{"name": "c", "image": "nginx"}],
    });
    server.put("pods", pod("waits", spec));
    env.sleep(Duration::from_secs(60)).await;
    let status = || server.get("pods", "shop/waits").unwrap()["status"].clone();
    assert_eq!(status()["phase"], "Pending", "{}", status());
    server.put(
        "services",
        json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"clusterIP": "10.96.0.7", "ports": []}}),
    );
    env.sleep(Duration::from_secs(20)).await;
    assert_eq!(status()["phase"], "Running", "{}", status());
}

/// Asks a port of a pod as the API server's proxy does.
async fn ask(fleet: &Arc<Fleet>, pod: &str, port: u16, target: &str) -> (u16, String) {
    let text = |text: &str| text.to_owned();
    let port = PodPort { node: text("node-0"), namespace: text("shop"), pod: text(pod), port };
    let request = Request::builder().uri(target).body(Body::empty()).unwrap();
    let answer = pages::answer(fleet, &port, request).await;
    let status = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn ports_answer_what_the_programs_behind_them_say() {
    let (env, server, fleet) = fleet().await;
    server.put("pods", server_pod("exec", &["netexec"]));
    let port = json!([{"containerPort": 80}]);
    let nginx = json!({"name": "c", "image": "nginx:1.29", "ports": port});
    server.put("pods", pod("nginx", json!({"nodeName": "node-0", "containers": [nginx]})));
    let other = json!({"name": "c", "image": "shop", "ports": port});
    server.put("pods", pod("other", json!({"nodeName": "node-0", "containers": [other]})));
    let mut told = pod("told", json!({"nodeName": "node-0", "containers": [other]}));
    told["metadata"]["annotations"] = json!({"orrery.dev/answer": "503 busy"});
    server.put("pods", told);
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(ask(&fleet, "exec", 8080, "/hostname").await, (200, "exec".to_owned()));
    assert_eq!(ask(&fleet, "exec", 8080, "/shell?cmd=echo%20a;%20sleep%205").await.1, "{\"output\":\"a\\n\"}");
    let refused = ask(&fleet, "exec", 80, "/").await;
    assert!(refused.0 == 503 && refused.1.contains("connection refused"), "{refused:?}");
    assert!(ask(&fleet, "nginx", 80, "/").await.1.contains("Welcome to nginx!"));
    assert_eq!(ask(&fleet, "nginx", 80, "/none").await.0, 404);
    let hello = "Hello from pod shop/other on node-0: container c of image shop, port 80.\nGET /a\n";
    assert_eq!(ask(&fleet, "other", 80, "/a").await, (200, hello.to_owned()));
    assert_eq!(ask(&fleet, "told", 80, "/a").await, (503, "busy".to_owned()));
    // Containers get the same answers.
    let ip = |name: &str| {
        server.get("pods", &format!("shop/{name}")).unwrap()["status"]["podIP"].as_str().unwrap().to_owned()
    };
    let script = format!("curl -s {}/a; curl -s -w '%{{http_code}}' {}", ip("other"), ip("told"));
    assert_eq!(run(&env, &server, &fleet, "client", &script).await, (format!("{hello}busy503"), json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_told_to_exit_is_restarted() {
    let (env, server, fleet) = fleet().await;
    server.put("pods", server_pod("web", &["netexec"]));
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(ask(&fleet, "web", 8080, "/exit?code=4").await.0, 503);
    env.sleep(Duration::from_secs(5)).await;
    let status = server.get("pods", "shop/web").unwrap()["status"]["containerStatuses"][0].clone();
    assert_eq!((&status["restartCount"], &status["lastState"]["terminated"]["exitCode"]), (&json!(1), &json!(4)));
    env.sleep(Duration::from_secs(20)).await;
    assert_eq!(ask(&fleet, "web", 8080, "/hostname").await, (200, "web".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_may_not_be_looked_up_is_not_answered() {
    let (env, server, fleet) = fleet().await;
    // Each fault answers one request.
    for _ in 0..100 {
        let answer = Status::forbidden("", "services", "", "not for nodes");
        server.fault(Fault { path_contains: "/services", answer, retry_after_s: None });
    }
    let (printed, code) = run(&env, &server, &fleet, "client", "nslookup web; curl -s web; echo $?").await;
    assert_eq!((printed.as_str(), code), (";; connection timed out; no servers could be reached\n\n28\n", json!(0)));
    assert!(logs::run_of(&container_ref("client").find(&fleet).unwrap(), false).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_container_finds_services_in_its_variables() {
    let (env, server, fleet) = fleet().await;
    let ports = json!([{"port": 443, "protocol": "TCP"}]);
    let master = json!({"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.1", "ports": ports}});
    server.put("services", master);
    put_service(&server, "web", json!({"clusterIP": "10.96.0.7", "ports": ports}), 443, &[]);
    let container = json!({
        "name": "c", "image": "busybox", "env": [{"name": "OWN", "value": "$(WEB_SERVICE_HOST):$(NONE)"}],
        "command": ["sh", "-c", "echo $WEB_SERVICE_PORT \"$OWN\" $(KUBERNETES_SERVICE_HOST) $(hostname); env | grep -c SERVICE"],
    });
    let spec = json!({"nodeName": "node-0", "restartPolicy": "Never", "containers": [container]});
    let mut without = spec.clone();
    without["enableServiceLinks"] = json!(false);
    server.put("pods", pod("links", spec));
    server.put("pods", pod("without", without));
    env.sleep(Duration::from_secs(30)).await;
    assert_eq!(log(&fleet, "links").await, "443 10.96.0.7:$(NONE) 10.96.0.1 links\n4\n");
    assert_eq!(log(&fleet, "without").await, "$(WEB_SERVICE_HOST):$(NONE) 10.96.0.1 without\n3\n");
}

#[tokio::test(start_paused = true)]
async fn files_of_the_node_show_the_containers_resources_and_names() {
    let (env, server, fleet) = fleet().await;
    let resources = json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}});
    let script = "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max; cat /proc/self/cgroup; tail -n 4 /etc/hosts; \
                  hostname -f; grep -c processor /proc/cpuinfo; head -n 1 /proc/meminfo | cut -d: -f1";
    let container = json!({"name": "c", "image": "busybox", "resources": resources, "command": ["sh", "-c", script]});
    let spec = json!({
        "nodeName": "node-0", "restartPolicy": "Never", "containers": [container], "subdomain": "db",
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["foo.local", "bar.local"]}],
    });
    server.put("pods", pod("db-0", spec));
    env.sleep(Duration::from_secs(30)).await;
    let expected = "50000 100000\n67108864\n0::/\n10.244.3.2\tdb-0.db.shop.svc.cluster.local\tdb-0\n\n\
                    # Entries added by HostAliases.\n1.2.3.4\tfoo.local\tbar.local\ndb-0.db.shop.svc.cluster.local\n";
    let printed = log(&fleet, "db-0").await;
    assert!(printed.starts_with(expected) && printed.ends_with("\nMemTotal\n"), "{printed}");
}

#[tokio::test(start_paused = true)]
async fn a_container_reaches_the_api_server_as_nobody_else() {
    let (env, server, fleet) = fleet().await;
    let connection =
        Connection { server: format!("https://{AUTHORITY}"), token: Some("mine".into()), ..Default::default() };
    fleet.open_gateway(gateway::anonymous(&env, &connection).unwrap());
    let ports = json!([{"port": 443, "protocol": "TCP"}]);
    let master = json!({"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.1", "ports": ports}});
    server.put("services", master);
    let script = "curl -sk -H 'Authorization: Bearer t' https://kubernetes.default/api/v1/namespaces/shop/pods/client | grep -c uid-client; \
                  curl -sk -o /dev/null -w '%{http_code}' https://$(KUBERNETES_SERVICE_HOST)/api/v1/namespaces/shop/pods/none";
    assert_eq!(run(&env, &server, &fleet, "client", script).await, ("1\n404".to_owned(), json!(0)));
    let of_container = server.requests().into_iter().filter(|request| {
        request.headers.get("user-agent").is_some_and(|agent| agent.to_str().unwrap().starts_with("curl/"))
    });
    let tokens: Vec<Option<String>> = of_container
        .map(|request| request.headers.get("authorization").map(|token| token.to_str().unwrap().to_owned()))
        .collect();
    assert_eq!(tokens, [Some("Bearer t".to_owned()), None]);
}
