//! Tests of the order of members in discovery, tables, lists, statuses and keys: it is fixed, because people compare text.

use super::{PODS, TABLE, api_with_account, pod};
use crate::testing::{Answer, Api};
use http::Method;
use serde_json::json;

/// Returns the text of a response without its line break.
fn text(answer: &Answer) -> &str {
    answer.text.trim_end()
}

#[tokio::test(start_paused = true)]
async fn discovery_is_written_in_the_order_of_its_types() {
    let api = Api::start().await;
    let versions = api.get("/api").await;
    assert!(text(&versions).starts_with(
        r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":""#
    ));
    let group = api.get("/apis/apps").await;
    let version = r#"{"groupVersion":"apps/v1","version":"v1"}"#;
    assert_eq!(
        text(&group),
        format!(
            r#"{{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{version}],"preferredVersion":{version}}}"#
        )
    );
    let groups = api.get("/apis").await;
    assert!(text(&groups).starts_with(r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"#));
    assert!(
        text(&groups).contains(&format!(r#"{{"name":"apps","versions":[{version}],"preferredVersion":{version}}}"#))
    );
    let core = api.get("/api/v1").await;
    assert!(
        text(&core).starts_with(r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","#)
    );
    let pods = r#"{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["po"],"categories":["all"],"storageVersionHash":"xPOwRZ+Yhw8="}"#;
    assert!(text(&core).contains(pods));
    let eviction = r#"{"name":"pods/eviction","singularName":"","namespaced":true,"group":"policy","version":"v1","kind":"Eviction","verbs":["create"]}"#;
    assert!(text(&core).contains(eviction));
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated = api.get_as("/apis", accept).await;
    let head = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"apiregistration.k8s.io"},"versions":[{"version":"v1","resources":[{"resource":"apiservices","responseKind":{"group":"","version":"","kind":"APIService"},"scope":"Cluster","singularResource":"apiservice","verbs":["#;
    assert!(text(&aggregated).starts_with(head), "{}", &aggregated.text[..head.len()]);
    let part = r#""subresources":[{"subresource":"status","responseKind":{"group":"","version":"","kind":"APIService"},"verbs":["get","patch","update"]}]}],"freshness":"Current"}]}"#;
    assert!(text(&aggregated).contains(part));
}

#[tokio::test(start_paused = true)]
async fn tables_lists_and_statuses_are_written_in_order() {
    let api = api_with_account().await;
    let mut done = pod("done");
    done["spec"]["nodeName"] = json!("n");
    api.create(PODS, done).await;
    api.create(PODS, pod("next")).await;
    let failed = json!({"status": {"phase": "Failed"}});
    let merge = ("content-type", "application/merge-patch+json");
    assert_eq!(api.ask(Method::PATCH, &format!("{PODS}/done/status"), failed, &[merge]).await.code, 200);
    let page = api.get_as(&format!("{PODS}?limit=1&includeObject=None"), TABLE).await;
    let meta = &page.body["metadata"];
    let head = format!(
        r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":{},"continue":{},"remainingItemCount":1}},"columnDefinitions":[{{"name":"Name","type":"string","format":"name","description":"#,
        meta["resourceVersion"], meta["continue"]
    );
    assert!(text(&page).starts_with(&head), "{}", page.text);
    let conditions =
        r#""conditions":[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]"#;
    assert!(text(&page).contains(conditions), "{}", page.text);
    let list = api.get(&format!("{PODS}?limit=1")).await;
    let meta = &list.body["metadata"];
    let head = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":{},"continue":{},"remainingItemCount":1}},"items":[{{"#,
        meta["resourceVersion"], meta["continue"]
    );
    assert!(text(&list).starts_with(&head), "{}", list.text);
    let pretty = api.get(&format!("{PODS}?limit=1&pretty=true")).await;
    assert!(text(&pretty).starts_with(
        "{\n  \"kind\": \"PodList\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"resourceVersion\": "
    ));
    let bound = api.post(&format!("{PODS}/next/binding"), json!({"target": {"kind": "Node", "name": "n"}})).await;
    assert_eq!(text(&bound), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#);
}

#[tokio::test(start_paused = true)]
async fn keys_of_tokens_are_written_in_order() {
    let api = Api::start().await;
    let discovery = api.get("/.well-known/openid-configuration").await;
    assert!(text(&discovery).starts_with(r#"{"issuer":"#), "{}", discovery.text);
    assert!(
        text(&discovery).contains(r#""response_types_supported":["id_token"],"subject_types_supported":["public"],"#)
    );
    let keys = api.get("/openid/v1/jwks").await;
    assert!(text(&keys).starts_with(r#"{"keys":[{"use":"sig","kty":"#), "{}", keys.text);
}
