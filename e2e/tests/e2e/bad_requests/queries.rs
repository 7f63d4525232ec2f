//! Invalid queries: selectors, continue tokens, resource versions, paths, methods.

use super::{CONFIG_MAPS, Case};
use e2e::raw_request::RawRequest;

pub fn cases() -> Vec<Case> {
    let mut cases = options();
    cases.extend(paths_and_methods());
    cases
}

fn options() -> Vec<Case> {
    let list = |query: &str| RawRequest::get(&format!("{CONFIG_MAPS}?{query}"));
    let bad = |query: &str, why: &str| Case::bad_request(list(query), why);
    let forbidden =
        |query: &str, why: &str| Case::invalid(list(query), format!(r#"ListOptions.meta.k8s.io "" is invalid: {why}"#));
    let token =
        |query: &str, why: &str| bad(query, &format!("invalid continue token: continue key is not valid: {why}"));
    vec![
        bad("labelSelector=a%20in%20(b", "unable to parse requirement: found '', expected: ',' or ')'"),
        bad("labelSelector=%3Db", "found '=', expected: !, identifier, or 'end of string'"),
        bad(
            "labelSelector=-bad%3D1",
            r#"unable to parse requirement: <nil>: Invalid value: "-bad": name part must consist of…"#,
        ),
        bad(
            "fieldSelector=data.x%3D1",
            r#""data.x" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
        bad("fieldSelector=metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        bad("limit=x", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
        token("limit=2&continue=%21%21", "illegal base64 data at input byte 0"),
        token("limit=2&continue=abc", "invalid character 'i' looking for beginning of value"),
        token("limit=2&continue=eyJ2IjoieCJ9", "server does not recognize this encoded version x"),
        bad(
            "resourceVersion=-1",
            r#"invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax"#,
        ),
        forbidden(
            "resourceVersionMatch=Exact",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        forbidden("sendInitialEvents=true", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        Case::new(
            list("resourceVersion=999999999&resourceVersionMatch=Exact"),
            504,
            "Timeout",
            "Timeout: Too large resource version: 999999999, current: …",
        ),
        Case::new(
            RawRequest::get(&format!("{CONFIG_MAPS}/there?resourceVersion=abc")),
            500,
            "",
            r#"resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#,
        ),
    ]
}

fn paths_and_methods() -> Vec<Case> {
    let unknown = |path: &str| {
        Case::new(RawRequest::get(path), 404, "NotFound", "the server could not find the requested resource")
    };
    let method = |request: RawRequest| {
        Case::new(request, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    };
    vec![
        unknown("/api/v2/namespaces/default/configmaps"),
        Case::no_route(RawRequest::get("/apis/none.example/v1/things")),
        unknown("/api/v1/namespaces/default/gadgets"),
        unknown("/api/v1/namespaces/default/configmaps/there/status"),
        unknown("/api/v1/configmaps/there"),
        method(RawRequest::post("/api/v1/configmaps", r#"{"metadata":{"name":"a"}}"#)),
        method(RawRequest::put(CONFIG_MAPS, "{}")),
        method(RawRequest::get("/api/v1/namespaces/default/serviceaccounts/default/token")),
        method(RawRequest::get("/apis/authentication.k8s.io/v1/tokenreviews")),
        Case::new(
            RawRequest::get("/api/v1/namespaces/default/pods/none/log"),
            404,
            "NotFound",
            r#"pods "none" not found"#,
        ),
    ]
}
