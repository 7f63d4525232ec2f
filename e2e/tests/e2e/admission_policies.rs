//! Tests admission policies in CEL: one refuses by a parameter that is a custom resource, one warns, and one mutates
//! objects.

use crate::cluster;
use e2e::store::Store;
use e2e::wait;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.rules.example.com}
spec:
  group: rules.example.com
  scope: Cluster
  names: {plural: limits, singular: limit, kind: Limit}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {maxReplicas: {type: integer}}}}
"#;

const POLICIES: &str = r#"
apiVersion: rules.example.com/v1
kind: Limit
metadata: {name: small}
maxReplicas: 3
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-replicas}
spec:
  paramKind: {apiVersion: rules.example.com/v1, kind: Limit}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= params.maxReplicas
    messageExpression: "'replicas must be no greater than ' + string(params.maxReplicas)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-replicas-here}
spec:
  policyName: few-replicas
  paramRef: {name: small, parameterNotFoundAction: Deny}
  validationActions: [Deny]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: owned}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  matchConditions:
  - {name: people-only, expression: "!request.userInfo.username.startsWith('system:')"}
  validations:
  - {expression: "has(object.metadata.labels) && 'owner' in object.metadata.labels", message: nobody owns it}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: owned-here}
spec: {policyName: owned, validationActions: [Warn, Audit]}
"#;

const MUTATING: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: stamp}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
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
"#;

const MISTAKEN: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: mistaken}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations:
  - expression: object.spec.replica > 1
"#;

#[test]
fn policies_refuse_warn_and_change() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Embedded);
    let kubectl = cluster.kubectl();
    let apply = |text: &str| kubectl.with_input("apply -f -", text).succeeded();
    apply(DEFINITION);
    kubectl.ok("wait --for condition=Established crd/limits.rules.example.com --timeout=60s");
    let wrong = POLICIES.replace("<= params.maxReplicas", "<= param.maxReplicas");
    let refused = kubectl.with_input("create -f -", &wrong);
    assert!(refused.stderr.contains("undeclared reference to 'param' (in container '')"), "{}", refused.stderr);
    kubectl.run("delete limits small");
    kubectl.run("delete validatingadmissionpolicybinding --all");
    kubectl.run("delete validatingadmissionpolicy --all");
    wait::until("the custom resource is there", || kubectl.with_input("apply -f -", POLICIES).success);

    // An expression that fits no object of the kind is stored, with a warning.
    let generation = "wait validatingadmissionpolicy --for=jsonpath={.status.observedGeneration}=1 --timeout=60s";
    apply(MISTAKEN);
    kubectl.ok(&format!("{generation} few-replicas owned mistaken"));
    let type_checking = "get validatingadmissionpolicy -o jsonpath={.items[*].status.typeChecking}";
    let warning = r#""fieldRef":"spec.validations[0].expression","warning":"apps/v1, Kind=Deployment: ERROR: \u003cinput\u003e:1:12: undefined field 'replica'\n | object.spec.replica"#;
    let printed = kubectl.ok(type_checking);
    assert!(printed.starts_with("{} {") && printed.ends_with(" {}") && printed.contains(warning), "{printed}");

    let create = "create deployment web --image=i --replicas=";
    let few =
        |count: usize| kubectl.run(&format!("create deployment next --image=i --replicas={count} --dry-run=server"));
    wait::until("the policy is in force", || !few(4).success);
    let refused = kubectl.fails(&format!("{create}4"));
    assert!(
        refused.contains(
            "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'few-replicas' with binding \
             'few-replicas-here' denied request: replicas must be no greater than 3"
        ),
        "{refused}"
    );
    kubectl.ok(&format!("{create}3"));
    kubectl.ok("patch limit small --type=merge -p {\"maxReplicas\":4}");
    wait::until("the parameter has changed", || few(4).success);

    let warned = kubectl.run("create configmap bare");
    assert!(warned.success, "{}", warned.stderr);
    let warning = "Validation failed for ValidatingAdmissionPolicy 'owned' with binding 'owned-here': nobody owns it";
    assert!(warned.stderr.contains(warning), "{}", warned.stderr);
    apply(MUTATING);
    wait::until("configmaps are stamped", || {
        kubectl.ok("create configmap next --dry-run=server -o jsonpath={.metadata.labels.owner}") == "kubernetes-admin"
    });
    let clean = kubectl.run("create configmap owned");
    assert!(clean.success && !clean.stderr.contains("nobody owns it"), "{}", clean.stderr);
    kubectl.ok("delete validatingadmissionpolicy few-replicas");
    wait::until("the policy is gone", || few(9).success);
    cluster.stop();
}
