//! Tests a custom resource from its definition to its deletion, and the CEL rules of a definition.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;
use std::path::Path;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [image]
            properties:
              image: {type: string, description: Which image runs.}
              replicas: {type: integer, minimum: 1, maximum: 9, default: 2}
          status:
            type: object
            properties: {replicas: {type: integer}}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Image, type: string, jsonPath: .spec.image}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
"#;

const OBJECT: &str = r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: daily}
spec: {image: busybox}
"#;

const RULED: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pools.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: pools, singular: pool, kind: Pool}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations:
        - {rule: "self.metadata.name.startsWith('pool-')", message: pools are named so}
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "self.min <= self.max", messageExpression: "'%d is too many'.replace('%d', string(self.min))", fieldPath: .min}
            properties:
              min: {type: integer, default: 1}
              max: {type: integer, default: 5}
              class:
                type: string
                maxLength: 20
                x-kubernetes-validations:
                - {rule: self == oldSelf, message: the class stays, reason: FieldValueForbidden}
              hosts:
                type: array
                maxItems: 10
                x-kubernetes-validations:
                - {rule: "self.all(h, isIP(h) && cidr('10.0.0.0/8').containsIP(h))"}
                items: {type: string, maxLength: 50}
"#;

const POOL: &str = r#"
apiVersion: stable.example.com/v1
kind: Pool
metadata: {name: pool-a}
spec: {class: fast, hosts: [10.1.2.3]}
"#;

fn file(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn a_definition_is_served_and_deleted_with_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    let definition = file(directory.path(), "crd.yaml", DEFINITION);
    let object = file(directory.path(), "ct.yaml", OBJECT);
    let bad = file(directory.path(), "bad.yaml", &OBJECT.replace("image: busybox", "replicas: 10"));
    let cluster = cluster(directory.path(), Store::Embedded);
    let kubectl = cluster.kubectl();
    kubectl.ok(&format!("apply -f {definition}"));
    kubectl.ok("wait --for condition=Established crd/crontabs.stable.example.com --timeout=60s");
    assert!(kubectl.ok(&format!("apply -f {object}")).contains("crontab.stable.example.com/daily created"));
    assert!(kubectl.ok(&format!("apply -f {object}")).contains("unchanged"));
    let refused = kubectl.fails(&format!("create -f {bad}"));
    assert!(refused.contains("spec.image: Required value") && refused.contains("less than or equal to 9"), "{refused}");
    let shown = kubectl.ok("get ct");
    assert!(shown.contains("NAME") && shown.contains("REPLICAS") && shown.contains("busybox"), "{shown}");
    assert!(kubectl.ok("explain crontab.spec.image").contains("Which image runs."));
    assert!(kubectl.ok("scale --replicas=4 ct/daily").contains("scaled"));
    assert_eq!(kubectl.ok("get ct daily -o jsonpath={.spec.replicas}"), "4");
    assert!(kubectl.ok("get all").contains("crontab.stable.example.com/daily"));
    assert!(kubectl.ok("api-resources --api-group=stable.example.com").contains("CronTab"));

    // Objects that a custom resource owns are deleted with it, and those in a namespace with the namespace.
    let uid = kubectl.ok("get ct daily -o jsonpath={.metadata.uid}");
    let owned = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  ownerReferences:\n  - {{apiVersion: stable.example.com/v1, kind: CronTab, name: daily, uid: {uid}}}\n"
    );
    kubectl.ok(&format!("apply -f {}", file(directory.path(), "owned.yaml", &owned)));
    kubectl.ok("delete ct daily");
    // The garbage collector refreshes its list of kinds every half minute.
    kubectl.ok("wait --for=delete configmap/owned --timeout=100s");
    kubectl.ok("create namespace shop");
    kubectl.ok(&format!("apply -n shop -f {object}"));
    kubectl.ok("delete namespace shop --timeout=60s");

    kubectl.ok(&format!("apply -f {object}"));
    kubectl.ok("delete crd crontabs.stable.example.com --timeout=60s");
    wait::until("nobody serves it", || !kubectl.run("get ct").success);

    rules_are_kept(&kubectl, directory.path());
    cluster.stop();
}

/// Checks that the CEL rules of a definition are enforced, and that an invalid rule is refused.
fn rules_are_kept(kubectl: &Kubectl, directory: &Path) {
    let wrong = RULED.replace("self.min <= self.max", "self.min <= self.most");
    let refused = kubectl.fails(&format!("create -f {}", file(directory, "wrong.yaml", &wrong)));
    assert!(refused.contains("ERROR: <input>:1:17: undefined field 'most'"), "{refused}");
    let costly = RULED.replace("maxItems: 10", "minItems: 0").replace("maxLength: 50", "minLength: 0");
    let refused = kubectl.fails(&format!("create -f {}", file(directory, "costly.yaml", &costly)));
    assert!(refused.contains("estimated rule cost exceeds budget by factor of more than 100x"), "{refused}");

    kubectl.ok(&format!("apply -f {}", file(directory, "ruled.yaml", RULED)));
    kubectl.ok("wait --for condition=Established crd/pools.stable.example.com --timeout=60s");
    let bad = POOL.replace("pool-a", "a").replace("class: fast", "min: 7").replace("10.1.2.3", "11.1.2.3");
    let refused = kubectl.fails(&format!("create -f {}", file(directory, "bad-pool.yaml", &bad)));
    for part in [
        "<nil>: Invalid value: pools are named so",
        "spec.min: Invalid value: 7 is too many",
        "spec.hosts: Invalid value: failed rule: self.all(h, isIP(h) && cidr('10.0.0.0/8').containsIP(h))",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    let pool = file(directory, "pool.yaml", POOL);
    assert!(kubectl.ok(&format!("apply -f {pool}")).contains("created"));
    let refused = kubectl.fails("patch pool pool-a --type=merge -p {\"spec\":{\"class\":\"slow\"}}");
    assert!(refused.contains("spec.class: Forbidden: the class stays"), "{refused}");
    assert!(kubectl.ok("patch pool pool-a --type=merge -p {\"spec\":{\"max\":9}}").contains("patched"));
    kubectl.ok("delete crd pools.stable.example.com --timeout=60s");
}
