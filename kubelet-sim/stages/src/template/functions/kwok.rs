//! The functions of KWOK: quoting, times, YAML, and facts about the node and the pod.

use crate::template::facts::{Facts, node_conditions};
use crate::template::functions::{Function, MAX_MADE, fixed, many};
use crate::template::value::Value;
use proto::go_text;
use proto::serializer::yaml;
use serde_json::Value as Json;

pub const FUNCTIONS: &[Function] = &[
    fixed("Quote", 1, |a, _| Ok(Value::text(quoted(&a[0])))),
    fixed("Now", 0, |_, facts| Ok(Value::text(facts.now.to_string()))),
    fixed("StartTime", 0, |_, facts| Ok(Value::text(facts.started.to_string()))),
    fixed("Version", 0, |_, facts| Ok(Value::text(&facts.version))),
    many("YAML", 1, |a, _| to_yaml(&a[0], a.get(1))),
    fixed("NodeConditions", 0, |_, _| {
        let conditions = node_conditions().into_iter().map(serde_json::to_value);
        let conditions: Vec<Json> = conditions.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        Ok(Value::of(&Json::Array(conditions)))
    }),
    fixed("NodeName", 0, |_, facts| Ok(Value::text(&facts.node_name))),
    fixed("NodeIP", 0, |_, facts| Ok(first(&facts.node_ips))),
    fixed("NodeIPs", 0, |_, facts| Ok(all(&facts.node_ips))),
    fixed("NodePort", 0, |_, facts| Ok(Value::Int(facts.node_port.map_or(0, i64::from)))),
    fixed("NodeIPWith", 1, |a, facts| Ok(first(node_ips(&a[0], facts)?))),
    fixed("NodeIPsWith", 1, |a, facts| Ok(all(node_ips(&a[0], facts)?))),
    fixed("PodIP", 0, |_, facts| Ok(first(&facts.pod_ips))),
    fixed("PodIPs", 0, |_, facts| Ok(all(&facts.pod_ips))),
    fixed("PodIPWith", 5, |a, facts| Ok(first(pod_ips(a, facts)?))),
    fixed("PodIPsWith", 5, |a, facts| Ok(all(pod_ips(a, facts)?))),
];

/// Writes a value as a JSON text. What is no text is written as JSON first, so `5` becomes `"5"`.
fn quoted(value: &Value) -> String {
    match value {
        Value::Text(text) => go_text::html_escaped(&Json::String(text.to_string()).to_string()),
        other => go_text::quoted(&go_text::html_escaped(&other.json().to_string())),
    }
}

/// Writes a value as YAML. With a number above zero, it starts on a new line and every line is indented by twice as many blanks.
fn to_yaml(value: &Value, levels: Option<&Value>) -> Result<Value, String> {
    let text = yaml::to_yaml(&value.json());
    let blanks = levels.map_or(0, Value::to_int).saturating_mul(2);
    match usize::try_from(blanks) {
        Ok(0) | Err(_) => Ok(Value::text(text)),
        Ok(blanks) if blanks.saturating_mul(text.lines().count()) > MAX_MADE => {
            Err("the indentation is too large".to_owned())
        }
        Ok(blanks) => Ok(Value::text(format!("\n{text}").replace('\n', &format!("\n{}", " ".repeat(blanks))))),
    }
}

fn first(addresses: &[String]) -> Value {
    Value::text(addresses.first().map_or("", String::as_str))
}

fn all(addresses: &[String]) -> Value {
    Value::list(addresses.iter().map(Value::text).collect())
}

/// Returns the addresses of the named node.
///
/// Deviation: KWOK answers for every node. Here a template asks only about the node that its object is on.
fn node_ips<'f>(node: &Value, facts: &'f Facts) -> Result<&'f [String], String> {
    match node.as_text()? {
        name if name == facts.node_name => Ok(&facts.node_ips),
        name => Err(format!("node {name:?} is not the node of this object")),
    }
}

/// Returns the addresses of a pod on the named node: the node's own when the pod uses the host's network.
fn pod_ips<'f>(arguments: &[Value], facts: &'f Facts) -> Result<&'f [String], String> {
    let node_ips = node_ips(&arguments[0], facts)?;
    Ok(if arguments[1].is_true() { node_ips } else { &facts.pod_ips })
}
