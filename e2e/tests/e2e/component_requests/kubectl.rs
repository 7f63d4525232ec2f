//! Requests of a `kubectl` of the server's version.

use super::row::{Caller, JSON, Program, Row};
use serde_json::{Value, json};

const KUBECTL: Program = Program { name: "kubectl", part: "", caller: Caller::Admin };
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                     application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub fn rows() -> Vec<Row> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colors"},
        "data": {"sky": "blue"}});
    let typo = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colors"}, "date": {}});
    let may = json!({
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
        "spec": {"resourceAttributes": {
            "namespace": "default", "verb": "create", "version": "v1", "resource": "configmaps"
        }},
        "status": {"allowed": false}
    });
    let apply = "?dryRun=All&fieldManager=kubectl&fieldValidation=Strict&force=false";
    vec![
        KUBECTL
            .post(format!("{MAPS}?dryRun=All&fieldManager=kubectl-create&fieldValidation=Strict"), map.clone())
            .accept(JSON)
            .sees("/data/sky", "blue")
            .sees("/metadata/resourceVersion", Value::Null),
        KUBECTL
            .post(format!("{MAPS}?dryRun=All&fieldManager=kubectl-create&fieldValidation=Strict"), typo)
            .accept(JSON)
            .code(400)
            .sees("/reason", "BadRequest"),
        KUBECTL.get(format!("{MAPS}/colors")).accept(JSON).code(404),
        KUBECTL
            .patch(format!("{MAPS}/colors{apply}"), "application/apply-patch+yaml", map.clone())
            .accept(JSON)
            .code(201)
            .sees("/metadata/managedFields/0/manager", "kubectl"),
        KUBECTL.get(format!("{MAPS}/colors")).accept(TABLE).code(404),
        KUBECTL.post(format!("{MAPS}?fieldManager=kubectl-create&fieldValidation=Strict"), map).accept(JSON),
        KUBECTL
            .delete(format!("{MAPS}/colors"), json!({"propagationPolicy": "Background", "dryRun": ["All"]}))
            .accept(JSON)
            .sees("/status", "Success"),
        KUBECTL
            .get(format!("{MAPS}?limit=500"))
            .accept(TABLE)
            .sees("/kind", "Table")
            .sees("/columnDefinitions/1/name", "Data"),
        KUBECTL.get(format!("{MAPS}/colors")).accept(JSON).sees("/data/sky", "blue"),
        KUBECTL.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", may).sees("/status/allowed", true),
    ]
}
