//! Bodies that cannot be read: syntax, types, fields, kinds, media types, size.

use super::{CONFIG_MAPS, Case, DEPLOYMENTS};
use e2e::raw_request::RawRequest;

const THERE: &str = "/api/v1/namespaces/default/configmaps/there";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

fn json(body: &str) -> RawRequest {
    RawRequest::post(CONFIG_MAPS, body)
}

fn strict(body: &str) -> RawRequest {
    RawRequest::post(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), body)
}

fn yaml(body: &str) -> RawRequest {
    json(body).content_type("application/yaml")
}

fn patch(content_type: &str, body: &str) -> RawRequest {
    RawRequest::patch(THERE, content_type, body)
}

pub fn cases() -> Vec<Case> {
    let mut cases = syntax();
    cases.extend(types_and_fields());
    cases.extend(kinds());
    cases.extend(media_types_and_size());
    cases
}

fn syntax() -> Vec<Case> {
    let unrecognized = |request: RawRequest, why: &str| {
        Case::bad_request(request, format!("the object provided is unrecognized (must be of type ConfigMap): {why}"))
    };
    let parse = |body: &str, why: &str| {
        unrecognized(json(body), &format!("couldn't get version/kind; json parse error: {why}"))
    };
    vec![
        parse(
            r#"{"kind":"ConfigMap","metadata":{"na"#,
            r#"unexpected end of JSON input ({"kind":"ConfigMap","metadata" ...)"#,
        ),
        parse("", "unexpected end of JSON input (<empty>)"),
        parse("{'a':1}", r"invalid character '\'' looking for beginning of object key string ({'a':1})"),
        parse(
            r#"{"kind":"ConfigMap"} tail"#,
            r#"invalid character 't' after top-level value ({"kind":"ConfigMap"} tail)"#,
        ),
        parse("[]", "json: cannot unmarshal array into Go value of type struct {…"),
        parse(
            "kind: ConfigMap",
            "invalid character 'k' looking for beginning of value (6b696e643a20436f6e6669674d6170)",
        ),
        unrecognized(
            yaml("kind: ConfigMap\n\tx: y\n"),
            "yaml: line 2: found a tab character that violates indentation…",
        ),
        unrecognized(yaml("a: b: c\n"), "yaml: mapping values are not allowed in this context (613a20623a20630a)"),
        Case::bad_request(patch(MERGE, "{"), "error decoding patch: unexpected end of JSON input…"),
        Case::bad_request(patch(JSON_PATCH, "["), "error decoding patch: unexpected end of JSON input"),
        Case::bad_request(
            patch(JSON_PATCH, r#"{"op":"add"}"#),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        Case::bad_request(
            RawRequest::delete(THERE, "{"),
            "couldn't get version/kind; json parse error: unexpected end of JSON input",
        ),
    ]
}

fn types_and_fields() -> Vec<Case> {
    let handled = |request: RawRequest, kind: &str, why: &str| {
        Case::bad_request(request, format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}"))
    };
    let config_map = |request: RawRequest, why: &str| handled(request, "ConfigMap", why);
    let field = "json: cannot unmarshal";
    let replicas = r#"{"metadata":{"name":"d"},"spec":{"replicas":"3"}}"#;
    vec![
        config_map(
            json(r#"{"metadata":"x"}"#),
            &format!("{field} string into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        ),
        config_map(
            json(r#"{"metadata":{"name":5}}"#),
            &format!("{field} number into Go struct field ObjectMeta.metadata.name of type string"),
        ),
        config_map(
            json(r#"{"metadata":{"name":"a"},"data":[]}"#),
            &format!("{field} array into Go struct field ConfigMap.data of type map[string]string"),
        ),
        config_map(
            yaml("metadata: {name: a}\ndata: {a: 1}\n"),
            &format!("{field} number into Go struct field ConfigMap.data of type string"),
        ),
        handled(
            RawRequest::post(DEPLOYMENTS, replicas),
            "Deployment",
            &format!("{field} string into Go struct field DeploymentSpec.spec.replicas of type int32"),
        ),
        config_map(
            strict(r#"{"metadata":{"name":"a","lables":{}},"dta":{}}"#),
            r#"strict decoding error: unknown field "metadata.lables", unknown field "dta""#,
        ),
        config_map(
            strict(r#"{"metadata":{"name":"a","name":"b"},"data":{"k":"1","k":"2"}}"#),
            r#"strict decoding error: duplicate field "metadata.name", duplicate field "data.k""#,
        ),
        config_map(
            strict("metadata:\n  name: a\n  name: b\n").content_type("application/yaml"),
            "strict decoding error: yaml: unmarshal errors:\n  line 3: key \"name\" already set in map",
        ),
        Case::invalid(
            RawRequest::post(&format!("{CONFIG_MAPS}?fieldValidation=Odd"), "{}"),
            r#"CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Odd": supported values: "", "Ignore", "Strict", "Warn""#,
        ),
    ]
}

fn kinds() -> Vec<Case> {
    vec![
        Case::bad_request(
            json(r#"{"apiVersion":"v1","kind":"Nothing"}"#),
            r#"Nothing in version "v1" cannot be handled as a ConfigMap: no kind "Nothing" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30""#,
        ),
        Case::bad_request(
            json(r#"{"apiVersion":"v1","kind":"Secret"}"#),
            r#"Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion"#,
        ),
        Case::bad_request(
            json(r#"{"apiVersion":"v9","kind":"ConfigMap"}"#),
            r#"ConfigMap in version "v9" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v9" in scheme "pkg/api/legacyscheme/scheme.go:30""#,
        ),
    ]
}

fn media_types_and_size() -> Vec<Case> {
    let known = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let large = format!(r#"{{"metadata":{{"name":"large"}},"data":{{"a":"{}"}}}}"#, "x".repeat(3 << 20));
    let too_large = || "Request entity too large: limit is 3145728";
    vec![
        Case::unsupported(json("a=b").content_type("application/x-www-form-urlencoded"), known),
        Case::unsupported(json("<a/>").content_type("application/xml"), known),
        Case::unsupported(patch("application/json", "{}"), "415: Unsupported Media Type"),
        Case::unsupported(RawRequest::delete(THERE, "x").content_type("text/plain"), known),
        Case::new(json(&large), 413, "RequestEntityTooLarge", too_large()),
        Case::new(patch(MERGE, &large), 413, "RequestEntityTooLarge", too_large()),
        Case::new(
            RawRequest::get(THERE).header("accept", "text/html"),
            406,
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml…",
        ),
    ]
}
