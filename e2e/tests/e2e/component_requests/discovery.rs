//! Requests of every component for discovery, lists and watches.

use super::row::{ACCEPT, ACCEPT_WATCH, Caller, FIRST_LIST, JSON, METADATA, METADATA_LIST, PROTOBUF, Program, Row};
use super::row::{STREAMED_LIST, WATCH};
use serde_json::Value;

const MANAGER: Program =
    Program { name: "kube-controller-manager", part: "", caller: Caller::User("system:kube-controller-manager", "") };
const INFORMERS: Program = MANAGER.part("shared-informers");
const METADATA_INFORMERS: Program = MANAGER.part("metadata-informers");
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
/// `Accept` header of a client that knows both versions of aggregated discovery, and the older discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const AGGREGATED_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const OLD_AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// The flag with which a component uses JSON. The message of a refusal names it.
const SETTING: &str = "--kube-api-content-type=application/json";

pub fn rows() -> Vec<Row> {
    let all = [discovers(), lists(), watches(), refused()];
    all.into_iter().flatten().collect()
}

fn discovers() -> Vec<Row> {
    vec![
        INFORMERS.get("/healthz?timeout=10s").accept("application/json, */*").media_type(PLAIN_TEXT),
        INFORMERS.get("/version?timeout=32s").accept("application/json, */*").sees("/minor", "36"),
        INFORMERS
            .get("/api?timeout=32s")
            .accept(AGGREGATED)
            .media_type(AGGREGATED_V2)
            .sees("/kind", "APIGroupDiscoveryList")
            .sees("/items/0/versions/0/version", "v1"),
        INFORMERS
            .get("/apis?timeout=32s")
            .accept(AGGREGATED)
            .media_type(AGGREGATED_V2)
            .sees("/apiVersion", "apidiscovery.k8s.io/v2"),
        INFORMERS.get("/apis?timeout=32s").accept(OLD_AGGREGATED).sees("/kind", "APIGroupList"),
        INFORMERS.get("/api?timeout=32s").accept(OLD_AGGREGATED).sees("/kind", "APIVersions"),
        INFORMERS.get("/apis/apps/v1?timeout=32s").accept("application/json, */*").sees("/kind", "APIResourceList"),
        INFORMERS.get("/apis/metrics.k8s.io/v1beta1?timeout=32s").accept(ACCEPT).code(404).media_type(PLAIN_TEXT),
    ]
}

fn lists() -> Vec<Row> {
    vec![
        INFORMERS
            .get(format!("/api/v1/namespaces?{FIRST_LIST}"))
            .sees("/kind", "NamespaceList")
            .sees("/apiVersion", "v1")
            .sees("/metadata/continue", Value::Null)
            .keeps("revision", "/metadata/resourceVersion"),
        METADATA_INFORMERS
            .get(format!("/api/v1/namespaces?{FIRST_LIST}"))
            .accept(METADATA_LIST)
            .sees("/kind", "PartialObjectMetadataList")
            .sees("/apiVersion", "meta.k8s.io/v1")
            .sees("/items/0/spec", Value::Null),
        METADATA_INFORMERS
            .get("/api/v1/namespaces/kube-system")
            .accept(METADATA)
            .sees("/kind", "PartialObjectMetadata")
            .sees("/metadata/labels/kubernetes.io~1metadata.name", "kube-system")
            .sees("/status", Value::Null),
        INFORMERS
            .get("/api/v1/namespaces?limit=1&resourceVersion={revision}&resourceVersionMatch=NotOlderThan")
            .sees("/kind", "NamespaceList"),
    ]
}

fn watches() -> Vec<Row> {
    let one = "fieldSelector=metadata.name%3Dkube-system";
    let end = "/1/object/metadata/annotations/k8s.io~1initial-events-end";
    vec![
        INFORMERS
            .watch(format!("/api/v1/namespaces?{one}&{STREAMED_LIST}"), 2)
            .sees("/0/type", "ADDED")
            .sees("/0/object/kind", "Namespace")
            .sees("/0/object/status/phase", "Active")
            .sees("/1/type", "BOOKMARK")
            .sees("/1/object/kind", "Namespace")
            .sees(end, "true"),
        INFORMERS.watch(format!("/api/v1/namespaces?{one}&{STREAMED_LIST}"), 2).accept(ACCEPT).sees(end, "true"),
        INFORMERS.watch(format!("/api/v1/namespaces?{one}&{STREAMED_LIST}"), 2).accept(JSON).sees(end, "true"),
        METADATA_INFORMERS
            .watch(format!("/api/v1/namespaces?{one}&{STREAMED_LIST}"), 2)
            .accept(METADATA)
            .sees("/0/object/kind", "PartialObjectMetadata")
            .sees("/0/object/apiVersion", "meta.k8s.io/v1")
            .sees("/0/object/status", Value::Null)
            .sees("/1/object/kind", "PartialObjectMetadata")
            .sees(end, "true"),
        // A watch that was cut is opened again without initial objects.
        INFORMERS.watch(format!("/api/v1/namespaces?{one}&{WATCH}"), 1).sees("/0/type", "ADDED"),
        INFORMERS
            .get("/api/v1/namespaces?resourceVersion=1&sendInitialEvents=true&watch=true")
            .accept(ACCEPT_WATCH)
            .code(422)
            .sees("/reason", "Invalid"),
    ]
}

/// The refusal of a client that accepts only protobuf names the flag to set.
fn refused() -> Vec<Row> {
    let names = |row: Row| row.code(406).sees("/reason", "NotAcceptable").says(SETTING);
    vec![
        names(INFORMERS.get(format!("/api/v1/namespaces?{FIRST_LIST}")).accept(PROTOBUF)),
        names(
            INFORMERS
                .get(format!("/api/v1/namespaces?{STREAMED_LIST}"))
                .accept("application/vnd.kubernetes.protobuf;stream=watch"),
        ),
        names(
            METADATA_INFORMERS
                .get(format!("/api/v1/namespaces?{FIRST_LIST}"))
                .accept("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        ),
        // No flag helps a client that accepts only CBOR.
        INFORMERS.get("/api/v1/namespaces").accept("application/cbor").code(406).sees("/reason", "NotAcceptable"),
    ]
}
