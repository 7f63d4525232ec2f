//! `orrery trace request` against a server over TLS: pages that a student reads, word for word, and who may read them.
//!
//! With `PAGES=overwrite` the pages are written anew, to be read before they are committed.

use crate::program;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;
use orrery::admin_kubeconfig;
use orrery::up::data_dir::DataDir;
use regex::Regex;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/request_traces");

/// What a run chooses, and how it is written.
const CHOSEN: &[(&str, &str)] = &[
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d+\.\d\d ms", "<duration>"),
    (r"at revision \d+", "at revision <n>"),
    (r"kube-api-access-\w{5}", "kube-api-access-<id>"),
];

const SHOP: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
---
apiVersion: v1
kind: LimitRange
metadata: {name: small, namespace: shop}
spec: {limits: [{type: Container, default: {memory: 64Mi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: pods, namespace: shop}
spec: {hard: {pods: "5"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann-edits, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: stamp}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'owner': request.userInfo.username}}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: stamp-here}
spec: {policyName: stamp}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: known-images}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  validations:
  - {expression: "object.spec.containers.all(c, c.image.startsWith('nginx'))", message: only nginx runs here}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: known-images-here}
spec: {policyName: known-images, validationActions: [Deny]}
"#;

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: web, image: nginx}]}
"#;

/// One server, and the administrator's two tools.
struct Lab {
    server: ApiServer,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
}

impl Lab {
    async fn start(directory: &Path, flags: &[&str]) -> Self {
        let data_dir = Arc::new(DataDir::open(&directory.join("data")).unwrap());
        let server = ApiServer::start_in(program(), data_dir, Store::Memory, flags).await;
        let kubeconfig = directory.join("kubeconfig");
        admin_kubeconfig::write(&kubeconfig, &server.admin, "orrery").unwrap();
        let kubectl = Kubectl::new(&kubeconfig, directory);
        Self { server, kubeconfig, kubectl }
    }

    /// Runs `orrery trace request`; what it prints, on standard output or of its error.
    fn request(&self, arguments: &str) -> (bool, String) {
        let mut command = Command::new(program());
        command.args(["trace", "request", "--kubeconfig"]).arg(&self.kubeconfig).args(arguments.split_whitespace());
        let output = command.output().unwrap();
        let printed = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(printed).unwrap())
    }

    /// Compares a page with the one that is kept.
    fn page(&self, name: &str, arguments: &str) {
        let (success, page) = self.request(arguments);
        assert!(success, "{page}");
        let masked = CHOSEN.iter().fold(page, |page, (pattern, word)| {
            Regex::new(pattern).expect("the table is well-formed").replace_all(&page, *word).into_owned()
        });
        let file = Path::new(PAGES).join(format!("{name}.txt"));
        if std::env::var_os("PAGES").is_some_and(|wish| wish == "overwrite") {
            fs::write(&file, &masked).unwrap();
        }
        assert_eq!(masked, fs::read_to_string(&file).unwrap_or_default(), "{name}");
    }
}

#[tokio::test]
async fn a_page_tells_the_way_of_a_request() {
    let directory = tempfile::tempdir().unwrap();
    let mut lab = Lab::start(directory.path(), &["--enable-request-trace"]).await;
    lab.kubectl.with_input("apply -f -", SHOP).succeeded();
    let pod = directory.path().join("pod.yaml");
    fs::write(&pod, POD).unwrap();
    let foreign = directory.path().join("foreign.yaml");
    fs::write(&foreign, POD.replace("nginx", "malware")).unwrap();
    let (pod, foreign) = (pod.display(), foreign.display());
    let refused = format!("create -f {foreign} --dry-run=server");
    wait::until("the policies are in force", || !lab.kubectl.run(&refused).success);

    lab.page("create", &format!("create -f {pod} --as=ann"));
    lab.page("refused_by_policy", &format!("create -f {foreign} --as=ann --dry-run"));
    lab.page("forbidden", "get secrets -n kube-system --as=ann --as-group=developers");
    lab.page("list", "get pods -n shop --as=ann");
    lab.page("unknown", "get pods -n shop --token=wrong");
    lab.page("delete", "delete pods/web -n shop");

    // The same by other tools.
    let kept: Value = serde_json::from_str(&lab.kubectl.ok("get --raw /debug/requests")).unwrap();
    let id = kept["items"][0]["auditID"].as_str().unwrap();
    let trace: Value = serde_json::from_str(&lab.kubectl.ok(&format!("get --raw /debug/requests/{id}"))).unwrap();
    assert_eq!(trace["request"]["method"], "DELETE");
    let (_, by_id) = lab.request(id);
    assert!(by_id.starts_with("DELETE /api/v1/namespaces/shop/pods/web\n"), "{by_id}");
    let (_, listed) = lab.request("");
    assert_eq!(listed.lines().count(), 6, "{listed}");
    assert!(listed.lines().next().unwrap().starts_with(id), "{listed}");
    for path in ["/debug/requests", &format!("/debug/requests/{id}")] {
        let refused = lab.kubectl.fails(&format!("get --raw {path} --as=ann"));
        assert!(refused.contains("User \"ann\" cannot get path"), "{refused}");
    }
    let (success, why) = lab.request("3fd0a2c1");
    assert!(!success && why.contains("3fd0a2c1: no trace of it is kept"), "{why}");
    lab.server.stop();
}

#[tokio::test]
async fn a_server_that_traces_nothing_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut lab = Lab::start(directory.path(), &[]).await;
    for arguments in ["", "get /version"] {
        let (success, why) = lab.request(arguments);
        assert!(!success && why.contains("--enable-request-trace"), "{why}");
    }
    lab.server.stop();
}
