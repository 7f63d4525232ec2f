//! Compares decoding with the round trip of the same bodies through Go's types.

use super::*;
use crate::schema::builtin_type;
use serde_json::json;

fn target(kind: &str) -> TypeRef {
    let group = match kind {
        "Deployment" => "apps",
        "Lease" => "coordination",
        _ => "core",
    };
    builtin_type(&format!("io.k8s.api.{group}.v1.{kind}"))
}

fn text(kind: &str, body: &str) -> Result<Decoded, String> {
    let document = Document::parse(Format::Json, body.as_bytes()).unwrap();
    decode_document(&target(kind), document).map_err(|error| error.to_string())
}

fn value(kind: &str, body: Value) -> Value {
    decode(&target(kind), body).unwrap().value
}

#[test]
fn wrong_types_are_named_as_go_names_them() {
    let spec =
        |member: &str| format!(r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"c",{member}}}]}}}}}}}}"#);
    let cases = [
        (
            r#"{"spec":{"replicas":"3"}}"#.to_owned(),
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"replicas":1e+20}}"#.to_owned(),
            "number 1e+20 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"replicas":80.0}}"#.to_owned(),
            "number 80.0 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"replicas":3000000000}}"#.to_owned(),
            "number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"selector":[]}}"#.to_owned(),
            "array into Go struct field DeploymentSpec.spec.selector of type v1.LabelSelector",
        ),
        (
            r#"{"spec":{"selector":{"matchLabels":{"app":7}}}}"#.to_owned(),
            "number into Go struct field LabelSelector.spec.selector.matchLabels of type string",
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":{}}}}}"#.to_owned(),
            "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":["x"]}}}}"#.to_owned(),
            "string into Go struct field PodSpec.spec.template.spec.containers of type v1.Container",
        ),
        (
            spec(r#""ports":[{"containerPort":"80"}]"#),
            "string into Go struct field ContainerPort.spec.template.spec.containers.ports.containerPort of type int32",
        ),
        (
            spec(r#""args":[1]"#),
            "number into Go struct field Container.spec.template.spec.containers.args of type string",
        ),
        (
            spec(r#""livenessProbe":{"httpGet":{"port":1.5}}"#),
            "number 1.5 into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
    ];
    for (body, error) in cases {
        assert_eq!(text("Deployment", &body), Err(format!("json: cannot unmarshal {error}")), "{body}");
    }
}

#[test]
fn the_first_error_of_the_body_counts_and_own_decoders_come_before_it() {
    let body = r#"{"metadata":{"name":5},"data":[]}"#;
    assert!(text("ConfigMap", body).unwrap_err().contains("ObjectMeta.metadata.name"));
    let body = r#"{"data":[],"metadata":{"name":5}}"#;
    assert!(text("ConfigMap", body).unwrap_err().contains("ConfigMap.data"));
    let body = r#"{"data":[],"metadata":{"creationTimestamp":"soon"}}"#;
    assert!(text("ConfigMap", body).unwrap_err().starts_with("parsing time \"soon\""));
}

#[test]
fn strict_errors_stand_in_the_order_of_the_body() {
    let body = r#"{"metadata":{"lables":{}},"spec":{"template":{"spec":{"containers":[{"imagee":"y"}]}},"replicaz":1},"extra":{"a":1,"a":2}}"#;
    let decoded = text("Deployment", body).unwrap();
    let fields = ["metadata.lables", "spec.template.spec.containers[0].imagee", "spec.replicaz", "extra"];
    assert_eq!(decoded.strict_errors, fields.map(|field| format!("unknown field \"{field}\"")));
    assert!(decoded.value.get("extra").is_none());

    let body = r#"{"metadata":{"name":"cm","name":"cm2","labels":{"a":"1","a":"2"}},"data":{"k":"1","k":"2"},"data":{"z":"1"}}"#;
    let decoded = text("ConfigMap", body).unwrap();
    let fields = ["metadata.name", "metadata.labels.a", "data.k", "data"];
    assert_eq!(decoded.strict_errors, fields.map(|field| format!("duplicate field \"{field}\"")));
    assert_eq!(decoded.value["data"], json!({"k": "2", "z": "1"}));

    let decoded = text("ConfigMap", r#"{"data":{"a":"1","a":"2"},"unknown":1,"unknown":2}"#).unwrap();
    assert_eq!(decoded.strict_errors, ["duplicate field \"data.a\"", "unknown field \"unknown\""]);
}

#[test]
fn strict_errors_of_yaml_become_one_error_or_several_warnings() {
    let body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\n  name: cm3\nbogus: 1\n";
    let document = Document::parse(Format::Yaml, body).unwrap();
    let strict_errors = decode_document(&target("ConfigMap"), document).unwrap().strict_errors;
    assert_eq!(
        strict_error(&strict_errors),
        "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"name\" already set in map, unknown field \"bogus\""
    );
    assert_eq!(strict_warnings(&strict_errors), ["line 5: key \"name\" already set in map", "unknown field \"bogus\""]);
}

#[test]
fn empty_values_go_and_what_go_always_writes_stays() {
    let decoded = value(
        "Pod",
        json!({
            "metadata": {"labels": {}, "annotations": {"a": null}, "creationTimestamp": null, "generation": 0},
            "spec": {
                "hostNetwork": false, "enableServiceLinks": false, "securityContext": {}, "nodeName": "", "volumes": null,
                "containers": [{"image": "", "ports": [], "resources": null, "env": [{"name": "A", "value": ""}]}, null],
            },
        }),
    );
    assert_eq!(
        decoded,
        json!({
            "metadata": {"annotations": {"a": ""}},
            "spec": {
                "enableServiceLinks": false, "securityContext": {},
                "containers": [{"name": "", "resources": {}, "env": [{"name": "A"}]}, {"name": "", "resources": {}}],
            },
            "status": {},
        })
    );
}

#[test]
fn a_deployment_of_nothing_has_what_go_cannot_leave_out() {
    assert_eq!(
        value("Deployment", json!({})),
        json!({
            "metadata": {},
            "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}},
            "status": {},
        })
    );
    assert_eq!(
        value("Event", json!({"firstTimestamp": "0001-01-01T00:00:00Z"})),
        json!({
            "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "", "reportingInstance": "",
        })
    );
}

#[test]
fn quantities_take_their_canonical_form() {
    let cases = [
        ("1024Mi", "1Gi"),
        ("1000000", "1M"),
        ("1e6", "1e6"),
        ("1E6", "1E6"),
        ("1.5Gi", "1536Mi"),
        ("+5M", "+5M"),
        ("128974848", "128974848"),
        ("1.0", "1"),
        ("1Ei", "1Ei"),
        ("0.1m", "100u"),
    ];
    for (given, canonical) in cases {
        assert_eq!(walk::canonical_quantity(given).as_deref(), Ok(canonical), "{given}");
    }
    let limits = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": 1.5, "memory": 1_000_000}}}]}});
    let decoded = value("Pod", limits);
    assert_eq!(decoded["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "1500m", "memory": "1M"}));
    let error = text("Pod", r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":true}}}]}}"#).unwrap_err();
    assert!(error.starts_with("quantities must match the regular expression"), "{error}");
}

#[test]
fn bytes_are_base64_without_line_breaks() {
    assert_eq!(value("Secret", json!({"data": {"a": "YWJj\nZGVm"}}))["data"]["a"], json!("YWJjZGVm"));
    let error = text("Secret", r#"{"data":{"a":"%%%"}}"#).unwrap_err();
    assert_eq!(error, "illegal base64 data at input byte 0");
    let error = text("ConfigMap", r#"{"binaryData":{"a":5}}"#).unwrap_err();
    assert_eq!(error, "json: cannot unmarshal number into Go struct field ConfigMap.binaryData of type []uint8");
}

#[test]
fn parts_without_a_schema_are_kept_as_they_are() {
    let fields = json!({"f:data": {".": {}, "f:k": null}});
    let body = json!({"metadata": {"managedFields": [{"manager": "m", "fieldsV1": fields}]}});
    assert_eq!(value("ConfigMap", body)["metadata"]["managedFields"][0]["fieldsV1"], fields);
}

#[test]
fn schemas_of_custom_resources_are_decoded_where_other_values_may_stand() {
    let crd = builtin_type("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition");
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "typo": 1}},
        "b": {"additionalProperties": true}}});
    let body = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
    let decoded = decode(&crd, body).unwrap();
    assert_eq!(
        decoded.strict_errors,
        ["unknown field \"spec.versions[0].schema.openAPIV3Schema.properties.a.items.typo\""]
    );
    let b = &decoded.value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["b"];
    assert_eq!(b, &json!({"additionalProperties": true}));
}

#[test]
fn what_a_strategic_patch_makes_is_converted_and_says_so() {
    let container = |member: Value| json!({"spec": {"template": {"spec": {"containers": [member]}}}});
    let cases = [
        (json!({"metadata": {"labels": "x"}}), "cannot restore map from string"),
        (json!({"metadata": {"labels": ["x"]}}), "cannot restore map from slice"),
        (json!({"metadata": {"labels": {"a": 1}}}), "cannot convert int64 to string"),
        (json!({"metadata": {"labels": {"a": true}}}), "unrecognized type: string"),
        (json!({"metadata": "x"}), "cannot restore struct from: string"),
        (json!({"metadata": {"finalizers": {}}}), "cannot restore slice from map"),
        (json!({"metadata": {"creationTimestamp": 5}}), "json: cannot unmarshal number into Go value of type string"),
        (json!({"spec": {"replicas": "3"}}), "unrecognized type: int32"),
        (json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
        (json!({"spec": {"paused": 1}}), "unrecognized type: bool"),
        (json!({"spec": {"selector": 5}}), "cannot restore struct from: int64"),
        (container(json!("x")), "cannot restore struct from: string"),
        (container(json!({"imagePullPolicy": 5})), "cannot convert int64 to v1.PullPolicy"),
        (
            container(json!({"readinessProbe": {"httpGet": {"port": []}}})),
            "json: cannot unmarshal array into Go value of type int32",
        ),
    ];
    for (body, message) in cases {
        let error = convert(&target("Deployment"), body.clone()).unwrap_err();
        assert_eq!(error.to_string(), message, "{body}");
    }
    let body = json!({"spec": {"zebra": 1, "ant": 2}});
    assert_eq!(
        convert(&target("Deployment"), body).unwrap().strict_errors,
        [r#"unknown field "spec.ant""#, r#"unknown field "spec.zebra""#]
    );
}

/// Go ignores unknown fields however deep they nest.
#[test]
fn what_is_ignored_may_nest_deeper_than_what_is_kept() {
    let nested = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    let ignored = text("ConfigMap", &format!(r#"{{"data":{{"k":"v"}},"unknown":{}}}"#, nested(9_000))).unwrap();
    assert_eq!((&ignored.value["data"], ignored.value.get("unknown")), (&json!({"k": "v"}), None));
    assert_eq!(ignored.strict_errors, [r#"unknown field "unknown""#]);
    let wrong = text("ConfigMap", &format!(r#"{{"data":{{"k":{}}}}}"#, nested(9_000))).unwrap_err();
    assert_eq!(wrong, "exceeded max depth");
    let schema = json!({"type": "object", "properties": {
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let custom = TypeRef::custom("a.v1.K", std::sync::Arc::new(crate::schema::structural::Structural::parse(&schema)));
    let decoded = |body: String| {
        let document = Document::parse(Format::Json, body.as_bytes()).unwrap();
        decode_document(&custom, document).map_err(|error| error.to_string())
    };
    let pruned = decoded(format!(r#"{{"kind":"K","pruned":{},"open":{{"x":1}}}}"#, nested(9_000))).unwrap();
    assert_eq!(pruned.value, json!({"kind": "K", "open": {"x": 1}}));
    assert_eq!(decoded(format!(r#"{{"kind":"K","open":{}}}"#, nested(9_000))).unwrap_err(), "exceeded max depth");
}
