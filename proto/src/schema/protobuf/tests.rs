//! Compares messages, which are built field by field, with the trees that they become.

use super::*;
use serde_json::json;

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut self, number: u8, value: u64) -> Self {
        self.0.push(number << 3);
        self.raw_varint(value);
        self
    }

    fn bytes(mut self, number: u8, bytes: &[u8]) -> Self {
        self.raw_varint(u64::from(number) << 3 | 2);
        self.raw_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, number: u8, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }

    fn message(self, number: u8, message: Message) -> Self {
        self.bytes(number, &message.0)
    }

    fn entry(self, number: u8, key: &str, value: Message) -> Self {
        self.message(number, Message::default().text(1, key).message(2, value))
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

fn message() -> Message {
    Message::default()
}

fn parsed(kind: &str, message: Message) -> Value {
    read(&builtin_type(&format!("io.k8s.api.{kind}")), &message.0).unwrap()
}

#[test]
fn names_labels_and_data_of_a_config_map() {
    let labels = message().text(1, "tier").text(2, "x");
    let body = message()
        .message(1, message().text(1, "cm").message(11, labels))
        .message(2, message().text(1, "k").text(2, "v"))
        .message(3, message().text(1, "b").bytes(2, b"\0\x01"));
    assert_eq!(
        parsed("core.v1.ConfigMap", body),
        json!({"metadata": {"name": "cm", "labels": {"tier": "x"}}, "data": {"k": "v"}, "binaryData": {"b": "AAE="}})
    );
}

#[test]
fn embedded_structs_lie_flat_in_json() {
    let port = message().varint(1, 0).varint(2, 80);
    let probe = message().message(1, message().message(2, message().text(1, "/").message(2, port))).varint(2, 5);
    let volume = message().text(1, "v").message(2, message().message(2, message()));
    let container = message().text(1, "c").message(10, probe);
    let body = message().message(2, message().message(1, volume).message(2, container));
    assert_eq!(
        parsed("core.v1.Pod", body),
        json!({"spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 5}}],
        }})
    );
}

#[test]
fn well_known_types_take_their_json_form() {
    let memory = message().text(1, "1Gi");
    let resources = message().entry(1, "memory", memory);
    let container = message().text(1, "c").message(8, resources);
    let deleted = message().varint(1, 1_614_834_367).varint(2, 5);
    let body = message()
        .message(1, message().message(8, message()).message(9, deleted))
        .message(2, message().message(2, container));
    assert_eq!(
        parsed("core.v1.Pod", body),
        json!({
            "metadata": {"creationTimestamp": null, "deletionTimestamp": "2021-03-04T05:06:07Z"},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]},
        })
    );
    let renewed = message().varint(1, 1_614_834_367).varint(2, 123_456_000);
    let lease = parsed("coordination.v1.Lease", message().message(2, message().message(4, renewed)));
    assert_eq!(lease, json!({"spec": {"renewTime": "2021-03-04T05:06:07.123456Z"}}));
    let percent = message().varint(1, 1).varint(2, 0).text(3, "25%");
    let strategy = message().text(1, "RollingUpdate").message(2, message().message(1, percent));
    let deployment = parsed("apps.v1.Deployment", message().message(2, message().message(4, strategy)));
    assert_eq!(
        deployment,
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}}}})
    );
}

#[test]
fn raw_json_and_wrapped_lists_are_unpacked() {
    let raw = message().bytes(1, br#"{"a":[1]}"#);
    let revision = parsed("apps.v1.ControllerRevision", message().message(2, raw).varint(3, 7));
    assert_eq!(revision, json!({"data": {"a": [1]}, "revision": 7}));
    let scopes = message().text(1, "read").text(1, "write");
    let review =
        parsed("authorization.v1.SubjectAccessReview", message().message(2, message().entry(5, "scopes", scopes)));
    assert_eq!(review, json!({"spec": {"extra": {"scopes": ["read", "write"]}}}));
}

#[test]
fn schemas_of_custom_resources_keep_what_may_stand_in_their_place() {
    let text_type = || message().text(5, "string");
    let items = message().message(1, text_type());
    let schema = message().message(24, items).message(30, message().varint(1, 1));
    let props = builtin_type("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let value = read(&props, &schema.0).unwrap();
    assert_eq!(value, json!({"items": {"type": "string"}, "additionalProperties": true}));
}

#[test]
fn broken_messages_are_errors() {
    let pod = builtin_type("io.k8s.api.core.v1.Pod");
    assert_eq!(read(&pod, b"\n\x7fshort"), Err("unexpected EOF".to_owned()));
    assert_eq!(read(&pod, &message().varint(1, 5).0), Err("proto: wrong wireType = 0".to_owned()));
    assert_eq!(read(&pod, &message().text(99, "from a later version").0), Ok(json!({})));
}
