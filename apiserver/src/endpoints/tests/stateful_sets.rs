//! Tests of the creation of the StatefulSet of Kubernetes' tutorial, with its defaults.

use crate::testing::Api;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_set_that_mounts_its_claims_is_created_with_its_defaults() {
    let api = Api::start().await;
    let set = json!({
        "metadata": {"name": "web"},
        "spec": {
            "serviceName": "nginx", "replicas": 2,
            "selector": {"matchLabels": {"app": "nginx"}},
            "template": {
                "metadata": {"labels": {"app": "nginx"}},
                "spec": {"containers": [{
                    "name": "nginx", "image": "registry.example/nginx:1",
                    "ports": [{"containerPort": 80, "name": "web"}],
                    "volumeMounts": [{"name": "www", "mountPath": "/usr/share/nginx/html"}],
                }]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "www"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    let answer = api.post("/apis/apps/v1/namespaces/default/statefulsets", set).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    let spec = &answer.body["spec"];
    for (pointer, default) in [
        ("/podManagementPolicy", json!("OrderedReady")),
        ("/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
        ("/revisionHistoryLimit", json!(10)),
        ("/persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain", "whenScaled": "Retain"})),
        ("/template/spec/restartPolicy", json!("Always")),
        ("/template/spec/terminationGracePeriodSeconds", json!(30)),
        ("/template/spec/containers/0/ports/0/protocol", json!("TCP")),
        ("/volumeClaimTemplates/0/kind", json!("PersistentVolumeClaim")),
        ("/volumeClaimTemplates/0/apiVersion", json!("v1")),
        ("/volumeClaimTemplates/0/spec/volumeMode", json!("Filesystem")),
        ("/volumeClaimTemplates/0/status", json!({"phase": "Pending"})),
    ] {
        assert_eq!(spec.pointer(pointer), Some(&default), "{pointer}");
    }
    assert_eq!(spec.pointer("/template/spec/volumes"), None, "a claim is a volume of the pods, not of the template");
    assert_eq!(answer.body["status"], json!({"replicas": 0, "availableReplicas": 0}));
}
