//! The JSON of an extender's questions and answers.
//!
//! Corresponds to k8s.io/kube-scheduler/extender/v1. Its field names begin with a capital letter, and Go reads them in any
//! case, so that an extender may answer `nodenames`.

use proto::kinds::api::core::v1::{Node, Pod};
use proto::wire::json_syntax::syntax_error;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Highest score that an extender gives a node.
pub const MAX_EXTENDER_PRIORITY: i64 = 10;

/// The question of `filter` and `prioritize`. One of the two lists is null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderArgs<'a> {
    pub pod: &'a Pod,
    pub nodes: Option<NodeList<'a>>,
    pub node_names: Option<Vec<&'a str>>,
}

#[derive(Debug, Serialize)]
pub struct NodeList<'a> {
    pub metadata: Map<String, Value>,
    pub items: Vec<&'a Node>,
}

/// The answer of `filter`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExtenderFilterResult {
    pub nodes: Option<NamedList>,
    #[serde(rename = "nodenames")]
    pub node_names: Option<Vec<String>>,
    #[serde(rename = "failednodes")]
    pub failed_nodes: Option<BTreeMap<String, String>>,
    #[serde(rename = "failedandunresolvablenodes")]
    pub failed_and_unresolvable_nodes: Option<BTreeMap<String, String>>,
    pub error: Option<String>,
}

/// The names in a NodeList; an extender returns whole nodes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedList {
    pub items: Option<Vec<Named>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    pub metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub name: String,
}

/// One entry of the answer of `prioritize`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostPriority {
    pub host: String,
    pub score: i64,
}

/// The question of `preempt`. One of the two maps is null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderPreemptionArgs<'a> {
    pub pod: &'a Pod,
    pub node_name_to_victims: Option<BTreeMap<&'a str, Victims<'a>>>,
    pub node_name_to_meta_victims: Option<BTreeMap<&'a str, MetaVictims>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Victims<'a> {
    pub pods: Vec<&'a Pod>,
    #[serde(rename = "NumPDBViolations")]
    pub violations: i64,
}

/// Victims by their uids.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "PascalCase"))]
pub struct MetaVictims {
    pub pods: Option<Vec<AnyCase<MetaPod>>>,
    #[serde(rename(serialize = "NumPDBViolations", deserialize = "numpdbviolations"))]
    pub violations: i64,
}

/// Victims by node, as an extender names them.
pub type MetaVictimsByNode = BTreeMap<String, MetaVictims>;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MetaPod {
    #[serde(rename(serialize = "UID"))]
    pub uid: String,
}

/// The answer of `preempt`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExtenderPreemptionResult {
    #[serde(rename = "nodenametometavictims")]
    pub node_name_to_meta_victims: Option<BTreeMap<String, Option<AnyCase<MetaVictims>>>>,
}

/// The question of `bind`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderBindingArgs<'a> {
    pub pod_name: &'a str,
    pub pod_namespace: &'a str,
    #[serde(rename = "PodUID")]
    pub pod_uid: &'a str,
    pub node: &'a str,
}

/// The answer of `bind`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExtenderBindingResult {
    pub error: Option<String>,
}

/// A struct whose field names may be written in any case. Its own names are in lower case.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct AnyCase<T>(pub T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for AnyCase<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields: Option<Map<String, Value>> = Deserialize::deserialize(deserializer)?;
        let is_given = |(_, value): &(String, Value)| !value.is_null();
        let fields = fields.unwrap_or_default().into_iter().filter(is_given);
        let lower: Map<String, Value> = fields.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        serde_json::from_value(Value::Object(lower)).map(Self).map_err(D::Error::custom)
    }
}

/// Reads the first JSON value of an answer. Errors of syntax are in Go's words.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("EOF".to_owned());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    T::deserialize(&mut deserializer)
        .map_err(|error| syntax_error(bytes).unwrap_or_else(|| format!("json: cannot unmarshal the answer: {error}")))
}
