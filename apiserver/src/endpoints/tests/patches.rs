//! Tests of the error messages for patches of the wrong shape.

use super::{CONFIG_MAPS, PODS, api_with_account, pod};
use crate::testing::Api;
use http::Method;
use serde_json::json;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn patched(api: &Api, path: &str, media_type: &str, patch: &str) -> (u16, String) {
    let answer = api.ask(Method::PATCH, path, patch, &[("content-type", media_type)]).await;
    (answer.code, answer.message().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_the_wrong_shape_is_refused_in_kubernetes_words() {
    let api = Api::start().await;
    api.create(CONFIG_MAPS, json!({"metadata": {"name": "cm"}})).await;
    let path = format!("{CONFIG_MAPS}/cm");
    let cases = [
        (
            MERGE,
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            MERGE,
            "\"x\"",
            "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}",
        ),
        (MERGE, "null", "Invalid JSON Patch"),
        (MERGE, "{", "error decoding patch: unexpected end of JSON input"),
        (STRATEGIC, "[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (STRATEGIC, "7", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (STRATEGIC, "{", "unexpected end of JSON input"),
        (
            JSON,
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            JSON,
            "\"x\"",
            "error decoding patch: json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp",
        ),
    ];
    for (media_type, patch, message) in cases {
        let answered = patched(&api, &path, media_type, patch).await;
        assert_eq!(answered, (400, message.to_owned()), "{media_type} {patch}");
    }
    let whole = r#"[{"op":"replace","path":"","value":[]}]"#;
    let (code, message) = patched(&api, &path, JSON, whole).await;
    let why = r#" "" is invalid: patch: Invalid value: "[]": couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct {"#;
    assert!(code == 422 && message.starts_with(why), "{message}");
    for (media_type, patch) in [(STRATEGIC, "null"), (JSON, "null"), (JSON, "[]"), (MERGE, "{}")] {
        let (code, _) = patched(&api, &path, media_type, patch).await;
        assert_eq!(code, 200, "{media_type} {patch} changes nothing");
    }
}

/// `kubectl patch pod web -p '{"metadata":{"labels":"invalid"}}'`
#[tokio::test(start_paused = true)]
async fn a_strategic_patch_that_makes_no_object_is_shown_as_go_prints_it() {
    let api = api_with_account().await;
    api.create(PODS, pod("web")).await;
    let path = format!("{PODS}/web");
    let strategic = [
        (
            r#"{"metadata":{"labels":"invalid"}}"#,
            r#" "" is invalid: patch: Invalid value: "map[metadata:map[labels:invalid]]": cannot restore map from string"#,
        ),
        (
            r#"{"spec":{"containers":"c"}}"#,
            r#" "" is invalid: patch: Invalid value: "map[spec:map[containers:c]]": cannot restore slice from string"#,
        ),
        (
            r#"{"spec":"x"}"#,
            r#" "" is invalid: patch: Invalid value: "map[spec:x]": cannot restore struct from: string"#,
        ),
        (
            r#"{"spec":{"hostNetwork":"yes"}}"#,
            r#" "" is invalid: patch: Invalid value: "map[spec:map[hostNetwork:yes]]": unrecognized type: bool"#,
        ),
    ];
    for (patch, message) in strategic {
        assert_eq!(patched(&api, &path, STRATEGIC, patch).await, (422, message.to_owned()), "{patch}");
    }
    let wrong = r#"{"metadata":{"labels":"invalid"}}"#;
    let operation = r#"[{"op":"replace","path":"/metadata/labels","value":"invalid"}]"#;
    for (media_type, patch) in [(MERGE, wrong), (JSON, operation)] {
        let (code, message) = patched(&api, &path, media_type, patch).await;
        assert_eq!(code, 422);
        assert!(message.starts_with(r#" "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\""#), "{message}");
        let why =
            ": json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string";
        assert!(message.ends_with(why), "{message}");
    }
}
