//! Tests a dual-stack cluster: Services, pods, nodes and endpoints have an address of each IP family.

use crate::cluster_with;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;

const FLAGS: [&str; 2] = [
    "--apiserver-arg=service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
    "--controller-manager-arg=cluster-cidr=10.244.0.0/16,fd00:10:244::/48",
];

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx
        ports: [{containerPort: 80}]
        env: [{name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}], ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4]}
---
apiVersion: v1
kind: Service
metadata: {name: one}
spec: {selector: {app: web}, ports: [{port: 80}]}
"#;

#[test]
fn everything_has_an_address_of_each_family() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_with(directory.path(), Store::Memory, &FLAGS);
    let kubectl = cluster.kubectl();
    kubectl.with_input("apply -f -", WEB).succeeded();
    kubectl.ok("rollout status deployment/web --timeout=60s");
    services(&kubectl);
    pods_and_nodes(&kubectl);
    endpoints(&kubectl);
    cluster.stop();
}

fn field(kubectl: &Kubectl, object: &str, path: &str) -> String {
    kubectl.ok(&format!("get {object} -o jsonpath={{{path}}}"))
}

/// Returns the families with the policy of a Service, and its cluster IPs.
fn service(kubectl: &Kubectl, name: &str) -> (String, Vec<String>) {
    let families = field(kubectl, &format!("service/{name}"), ".spec.ipFamilies");
    let policy = field(kubectl, &format!("service/{name}"), ".spec.ipFamilyPolicy");
    let ips = field(kubectl, &format!("service/{name}"), ".spec.clusterIPs");
    (format!("{families} {policy}"), serde_json::from_str(&ips).unwrap())
}

fn is_allocated(kubectl: &Kubectl, address: &str) -> bool {
    kubectl.run(&format!("get --raw /apis/networking.k8s.io/v1/ipaddresses/{address}")).success
}

fn services(kubectl: &Kubectl) {
    let cidr = kubectl.ok("get --raw /apis/networking.k8s.io/v1/servicecidrs/kubernetes");
    assert!(cidr.contains(r#""cidrs":["10.96.0.0/16","fd00:10:96::/112"]"#), "{cidr}");
    assert_eq!(service(kubectl, "kubernetes"), (r#"["IPv4"] SingleStack"#.to_owned(), vec!["10.96.0.1".to_owned()]));
    let (families, ips) = service(kubectl, "web");
    assert_eq!(families, r#"["IPv6","IPv4"] RequireDualStack"#);
    assert!(ips[0].starts_with("fd00:10:96::") && ips[1].starts_with("10.96."), "{ips:?}");
    assert_eq!(field(kubectl, "service/web", ".spec.clusterIP"), ips[0]);
    assert!(ips.iter().all(|ip| is_allocated(kubectl, ip)), "{ips:?}");
    // A second address can be added and removed.
    let (families, first) = service(kubectl, "one");
    assert_eq!((families.as_str(), first.len()), (r#"["IPv4"] SingleStack"#, 1));
    let patch = |policy: &str| {
        let patch = format!(r#"{{"spec":{{"ipFamilyPolicy":"{policy}"}}}}"#);
        kubectl.ok_args(&["patch", "service", "one", "--type=merge", "-p", &patch]);
        service(kubectl, "one")
    };
    let (families, both) = patch("PreferDualStack");
    assert_eq!((families.as_str(), &both[0]), (r#"["IPv4","IPv6"] PreferDualStack"#, &first[0]));
    assert!(is_allocated(kubectl, &both[1]), "{both:?}");
    assert_eq!(patch("SingleStack"), (r#"["IPv4"] SingleStack"#.to_owned(), first));
    assert!(!is_allocated(kubectl, &both[1]), "{both:?}");
    // A requested address must be in the family's range.
    let far = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"far"},"spec":{"clusterIP":"fd00:9::1","ports":[{"port":80}]}}"#;
    let refused = kubectl.with_input("create -f -", far);
    assert!(!refused.success, "{}", refused.stdout);
    let refused = refused.stderr;
    assert!(
        refused.contains(
            "the provided IP (fd00:9::1) is not in the valid range. The range of valid IPs is fd00:10:96::/112"
        ),
        "{refused}"
    );
}

fn pods_and_nodes(kubectl: &Kubectl) {
    let lines = |what: &str, path: &str| -> Vec<String> {
        let template = format!("-o=jsonpath={{range .items[*]}}{{{path}}}{{\"\\n\"}}{{end}}");
        let words: Vec<&str> = ["get"].into_iter().chain(what.split(' ')).chain([template.as_str()]).collect();
        kubectl.ok_args(&words).lines().map(str::to_owned).collect()
    };
    for ranges in lines("nodes", ".spec.podCIDRs") {
        assert!(ranges.contains("10.244.") && ranges.contains("fd00:10:244:"), "{ranges}");
    }
    for addresses in lines("nodes", ".status.addresses[*].address") {
        assert!(addresses.starts_with("172.18.0.") && addresses.contains(" fd00:172:18::"), "{addresses}");
    }
    let pods = lines("pods -l app=web", ".status.podIPs");
    assert_eq!(pods.len(), 2);
    for ips in pods {
        assert!(ips.starts_with(r#"[{"ip":"10.244."#) && ips.contains(r#"{"ip":"fd00:10:244:"#), "{ips}");
    }
    let inside =
        kubectl.ok_args(&["exec", "deployment/web", "--", "sh", "-c", "echo $IPS; grep web- /etc/hosts | wc -l"]);
    let ips = inside.lines().next().unwrap();
    assert!(ips.starts_with("10.244.") && ips.contains(",fd00:10:244:") && inside.ends_with("\n2\n"), "{inside}");
    for ips in lines("pods -l app=web", ".status.hostIPs") {
        assert!(ips.starts_with(r#"[{"ip":"172.18.0."#) && ips.contains(r#"{"ip":"fd00:172:18::"#), "{ips}");
    }
}

fn endpoints(kubectl: &Kubectl) {
    let slices = |service: &str| {
        let label = format!("kubernetes.io/service-name={service}");
        let template = "-o=jsonpath={range .items[*]}{.addressType}={.endpoints[*].addresses[0]}{\"\\n\"}{end}";
        let mut lines: Vec<String> =
            kubectl.ok_args(&["get", "endpointslices", "-l", &label, template]).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    wait::until("both families have endpoints", || {
        let found = slices("web");
        found.len() == 2
            && found[0].starts_with("IPv4=10.244.")
            && found[1].starts_with("IPv6=fd00:10:244:")
            && found.iter().all(|line| line.split(' ').count() == 2)
    });
    wait::until("the second slice has gone with the second family", || {
        let found = slices("one");
        found.len() == 1 && found[0].starts_with("IPv4=")
    });
}
