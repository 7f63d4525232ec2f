//! Custom resources as students meet them: a definition, its objects, and what the cluster does with both.

use crate::cluster;
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

fn file(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn a_definition_lives_and_takes_its_objects_with_it() {
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

    // What a custom resource owns goes with it; what is in a namespace, too.
    let uid = kubectl.ok("get ct daily -o jsonpath={.metadata.uid}");
    let owned = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  ownerReferences:\n  - {{apiVersion: stable.example.com/v1, kind: CronTab, name: daily, uid: {uid}}}\n"
    );
    kubectl.ok(&format!("apply -f {}", file(directory.path(), "owned.yaml", &owned)));
    kubectl.ok("delete ct daily");
    // The collector asks every half minute what kinds there are.
    kubectl.ok("wait --for=delete configmap/owned --timeout=100s");
    kubectl.ok("create namespace shop");
    kubectl.ok(&format!("apply -n shop -f {object}"));
    kubectl.ok("delete namespace shop --timeout=60s");

    kubectl.ok(&format!("apply -f {object}"));
    kubectl.ok("delete crd crontabs.stable.example.com --timeout=60s");
    wait::until("nobody serves it", || !kubectl.run("get ct").success);
    cluster.stop();
}
