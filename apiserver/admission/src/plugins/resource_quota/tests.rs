//! Table tests of writes under quotas.

use super::*;
use crate::testing::{Outcome, Write};
use serde_json::json;

fn quota(hard: Value, used: Value) -> Value {
    json!({"metadata": {"name": "q", "namespace": "a", "resourceVersion": "7"}, "status": {"hard": hard, "used": used}})
}

fn pod(requests: Value, limits: Value) -> Write {
    let container = json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
    Write::create("", "pods", json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"containers": [container]}}))
}

async fn under(write: Write, hard: Value, used: Value) -> Outcome {
    write.beside("", "resourcequotas", quota(hard, used)).run(&ResourceQuota::default()).await
}

#[tokio::test]
async fn pods_take_from_their_quota() {
    let hard = || json!({"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"});
    let one = || json!({"pods": "1", "requests.cpu": "600m", "limits.memory": "512Mi"});
    for (requests, limits, used, why) in [
        (json!({}), json!({}), one(), "failed quota: q: must specify limits.memory for: c; requests.cpu for: c"),
        (json!({"cpu": "100m"}), json!({}), one(), "failed quota: q: must specify limits.memory for: c"),
        (
            json!({"cpu": "600m"}),
            json!({"memory": "512Mi"}),
            one(),
            "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1",
        ),
        (
            json!({"cpu": "5"}),
            json!({"memory": "5Gi"}),
            one(),
            "exceeded quota: q, requested: limits.memory=5Gi,requests.cpu=5, used: limits.memory=512Mi,requests.cpu=600m, limited: limits.memory=1Gi,requests.cpu=1",
        ),
        (
            json!({"cpu": "0"}),
            json!({"memory": "0"}),
            json!({"pods": "2", "requests.cpu": "0", "limits.memory": "0"}),
            "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
        ),
        (
            json!({"cpu": "1"}),
            json!({"memory": "1"}),
            json!({}),
            "status unknown for quota: q, resources: limits.memory,pods,requests.cpu",
        ),
    ] {
        let seen = under(pod(requests, limits), hard(), used).await;
        assert_eq!(seen.message(), format!(r#"pods "p" is forbidden: {why}"#));
        assert_eq!(seen.recorded, Vec::<Value>::new());
    }
    let fits = || pod(json!({"cpu": "400m"}), json!({"memory": "512Mi"}));
    let seen = under(fits(), hard(), one()).await;
    let full = json!({"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"});
    assert_eq!((seen.message(), seen.recorded.clone()), ("", vec![quota(hard(), full)]));
    let tried = under(fits().dry_run(), hard(), one()).await;
    assert_eq!((tried.message(), tried.recorded.len()), ("", 0));
}

#[tokio::test]
async fn services_take_ports_and_load_balancers() {
    let service = |spec: Value| json!({"metadata": {"name": "s", "namespace": "a"}, "spec": spec});
    let none = || json!({"services.nodeports": "0", "services.loadbalancers": "0"});
    for (kind, why) in [
        (
            "NodePort",
            "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0",
        ),
        (
            "LoadBalancer",
            "exceeded quota: q, requested: services.loadbalancers=1,services.nodeports=1, used: services.loadbalancers=0,services.nodeports=0, limited: services.loadbalancers=0,services.nodeports=0",
        ),
    ] {
        let spec = json!({"type": kind, "ports": [{"port": 80}]});
        let seen = under(Write::create("", "services", service(spec.clone())), none(), none()).await;
        assert_eq!(seen.message(), format!(r#"services "s" is forbidden: {why}"#));
        let from = service(json!({"type": "ClusterIP", "ports": [{"port": 80}]}));
        let seen = under(Write::update("", "services", from, service(spec)), none(), none()).await;
        assert_eq!(seen.message(), format!(r#"services "s" is forbidden: {why}"#));
    }
    let plain = Write::create("", "services", service(json!({"type": "ClusterIP", "ports": [{"port": 80}]})));
    under(plain, none(), none()).await.passed();
}

#[tokio::test]
async fn claims_take_storage_of_their_class() {
    let claim = |class: &str, size: &str| {
        json!({
            "metadata": {"name": "c", "namespace": "a"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
        })
    };
    let of_class = "slow.storageclass.storage.k8s.io/requests.storage";
    let hard = || json!({"requests.storage": "2Gi", "persistentvolumeclaims": "1", of_class: "1Gi"});
    let used = || json!({"requests.storage": "0", "persistentvolumeclaims": "0", of_class: "0"});
    let seen = under(Write::create("", "persistentvolumeclaims", claim("slow", "1500Mi")), hard(), used()).await;
    assert_eq!(
        seen.message(),
        format!(
            r#"persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: {of_class}=1500Mi, used: {of_class}=0, limited: {of_class}=1Gi"#
        )
    );
    let seen = under(Write::create("", "persistentvolumeclaims", claim("fast", "1500Mi")), hard(), used()).await;
    assert_eq!(
        seen.recorded[0]["status"]["used"],
        json!({"requests.storage": "1500Mi", "persistentvolumeclaims": "1", of_class: "0"})
    );
    let grown = Write::update("", "persistentvolumeclaims", claim("fast", "1Gi"), claim("fast", "1500Mi"));
    let seen = under(grown, hard(), used()).await;
    assert_eq!(seen.recorded[0]["status"]["used"]["requests.storage"], "476Mi");
}

#[tokio::test]
async fn every_kind_can_be_counted() {
    let object = json!({"metadata": {"name": "d", "namespace": "a"}});
    let full = json!({"count/deployments.apps": "1"});
    let seen = under(Write::create("apps", "deployments", object.clone()), full.clone(), full.clone()).await;
    assert_eq!(
        seen.message(),
        r#"deployments.apps "d" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1"#
    );
    under(Write::create("apps", "replicasets", object), full.clone(), full).await.passed();
}

#[tokio::test]
async fn quotas_are_for_the_pods_of_their_scopes() {
    let scoped = |scope: &str| {
        let mut quota = quota(json!({"pods": "0"}), json!({"pods": "0"}));
        quota["spec"] = json!({"scopes": [scope]});
        quota
    };
    let of_priority = |operator: &str| {
        let mut quota = quota(json!({"pods": "0"}), json!({"pods": "0"}));
        let expression = json!({"scopeName": "PriorityClass", "operator": operator, "values": ["high"]});
        quota["spec"] = json!({"scopeSelector": {"matchExpressions": [expression]}});
        quota
    };
    let spec = json!({"priorityClassName": "high", "containers": [{"name": "c"}]});
    for (quota, applies) in [
        (scoped("BestEffort"), true),
        (scoped("NotBestEffort"), false),
        (scoped("Terminating"), false),
        (scoped("NotTerminating"), true),
        (scoped("CrossNamespacePodAffinity"), false),
        (of_priority("In"), true),
        (of_priority("NotIn"), false),
    ] {
        let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": spec});
        let seen = Write::create("", "pods", pod)
            .beside("", "resourcequotas", quota.clone())
            .run(&ResourceQuota::default())
            .await;
        assert_eq!(seen.error.is_some(), applies, "{quota}");
    }
}

#[tokio::test]
async fn what_is_limited_needs_a_quota_that_covers_it() {
    let limited = json!([
        {"resource": "pods", "matchContains": ["requests.cpu"]},
        {"resource": "pods", "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high", "top"]}]},
    ]);
    let limited: Vec<LimitedResource> = serde_json::from_value(limited).unwrap();
    let plugin = || ResourceQuota::new(&limited);
    let of_class = |class: &str, requests: Value| {
        let spec =
            json!({"priorityClassName": class, "containers": [{"name": "c", "resources": {"requests": requests}}]});
        Write::create("", "pods", json!({"metadata": {"name": "p", "namespace": "a"}, "spec": spec}))
    };
    let forbidden = |why: &str| format!(r#"pods "p" is forbidden: {why}"#);
    let cpu = || json!({"cpu": "1"});

    let scopes = forbidden("insufficient quota to match these scopes: [{PriorityClass In [high top]}]");
    assert_eq!(of_class("low", json!({})).run(&plugin()).await.message(), "");
    assert_eq!(
        of_class("low", cpu()).run(&plugin()).await.message(),
        forbidden("insufficient quota to consume: requests.cpu")
    );
    assert_eq!(of_class("high", json!({})).run(&plugin()).await.message(), scopes);

    let of_cpu = || quota(json!({"requests.cpu": "2"}), json!({"requests.cpu": "0"}));
    let beside = |write: Write, quota: Value| write.beside("", "resourcequotas", quota);
    assert_eq!(beside(of_class("low", cpu()), of_cpu()).run(&plugin()).await.message(), "");
    assert_eq!(beside(of_class("high", cpu()), of_cpu()).run(&plugin()).await.message(), scopes);
    let mut of_high = quota(json!({"pods": "2"}), json!({"pods": "0"}));
    let expression = json!({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]});
    of_high["spec"] = json!({"scopeSelector": {"matchExpressions": [expression]}});
    assert_eq!(beside(of_class("high", json!({})), of_high.clone()).run(&plugin()).await.message(), "");
    assert_eq!(beside(of_class("top", json!({})), of_high).run(&plugin()).await.message(), scopes);
}
