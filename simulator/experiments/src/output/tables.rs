//! `pods.csv`, `nodes.csv`, `requests.csv`, `metrics.json` and `comparisons.csv`.

use crate::compare::Comparison;
use crate::metrics::{NodeRow, PodRow, Summary, Values};
use crate::units::{number_text, seconds};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Member of `metrics.json` that is no metric.
const REPEATABLE: &str = "repeatable";

const POD_COLUMNS: [&str; 21] = [
    "pod",
    "user",
    "gang",
    "deployment",
    "priority",
    "cpu_milli",
    "memory_bytes",
    "gpu_count",
    "gpu_milli",
    "duration_s",
    "created_s",
    "scheduled_s",
    "started_s",
    "finished_s",
    "deleted_s",
    "succeeded",
    "node",
    "placements",
    "preemptions",
    "evictions",
    "failed_attempts",
];

const NODE_COLUMNS: [&str; 8] =
    ["node", "group", "gpu_model", "gpu_count", "cpu_allocation", "present_s", "price", "pods"];

const REQUEST_COLUMNS: [&str; 4] = ["verb", "resource", "requests", "per_pod"];

const COMPARISON_COLUMNS: [&str; 15] = [
    "setting",
    "metric",
    "policy",
    "baseline",
    "seeds",
    "mean",
    "baseline_mean",
    "difference",
    "low",
    "high",
    "cohens_d",
    "rank_biserial",
    "p",
    "p_adjusted",
    "repeatable",
];

/// Writes a row for each pod, in the order of their names. What did not happen is empty.
pub fn pods_csv(summary: &Summary) -> Vec<u8> {
    let time = |us: Option<u64>| us.map(|us| number_text(seconds(us))).unwrap_or_default();
    let row = |pod: &PodRow| -> Vec<String> {
        let created = &pod.created;
        let request = |name: &str| created.requests.get(name).copied().unwrap_or_default().to_string();
        vec![
            created.pod.clone(),
            created.user.clone(),
            created.gang.clone().unwrap_or_default(),
            created.deployment.clone().unwrap_or_default(),
            created.priority.to_string(),
            request("cpu"),
            request("memory"),
            created.gpu_count.to_string(),
            created.gpu_milli.to_string(),
            time(created.duration_us),
            time(Some(pod.created_us)),
            time(pod.scheduled_us),
            time(pod.started_us),
            time(pod.finished_us),
            time(pod.deleted_us),
            pod.succeeded.to_string(),
            pod.last_node.clone(),
            pod.placements.to_string(),
            pod.preemptions.to_string(),
            pod.evictions.to_string(),
            pod.failed_attempts.to_string(),
        ]
    };
    table(&POD_COLUMNS, summary.pods.iter().map(row))
}

/// Writes a row for each node, in the order of their names.
pub fn nodes_csv(summary: &Summary) -> Vec<u8> {
    let row = |node: &NodeRow| -> Vec<String> {
        vec![
            node.node.clone(),
            node.group.clone(),
            node.gpu_model.clone(),
            node.gpu_count.to_string(),
            number_text(node.cpu_allocation),
            number_text(node.present_s),
            number_text(node.price),
            node.pods.to_string(),
        ]
    };
    table(&NODE_COLUMNS, summary.nodes.iter().map(row))
}

/// Writes a row for each kind of request, the most frequent first.
pub fn requests_csv(summary: &Summary) -> Vec<u8> {
    let mut requests: Vec<(&String, u64)> = summary.requests.iter().map(|(name, count)| (name, *count)).collect();
    requests.sort_by_key(|(_, count)| Reverse(*count));
    let row = |(name, count): (&String, u64)| -> Vec<String> {
        let (verb, resource) = name.split_once(' ').unwrap_or((name, ""));
        let per_pod = number_text(count as f64 / summary.pods.len().max(1) as f64);
        vec![verb.to_owned(), resource.to_owned(), count.to_string(), per_pod]
    };
    table(&REQUEST_COLUMNS, requests.into_iter().map(row))
}

/// Writes a row for each comparison.
pub fn comparisons_csv(comparisons: &[Comparison]) -> Vec<u8> {
    let row = |one: &Comparison| -> Vec<String> {
        let texts = [&one.setting, &one.metric, &one.policy, &one.baseline].map(Clone::clone);
        let numbers = [
            one.mean,
            one.baseline_mean,
            one.difference,
            one.low,
            one.high,
            one.cohens_d,
            one.rank_biserial,
            one.p,
            one.p_adjusted,
        ];
        let numbers = std::iter::once(one.seeds.to_string()).chain(numbers.map(number_text));
        texts.into_iter().chain(numbers).chain([one.is_repeatable.to_string()]).collect()
    };
    table(&COMPARISON_COLUMNS, comparisons.iter().map(row))
}

/// Writes values as a JSON object with sorted names. That of a run that is not repeatable says so beside them.
pub fn metrics_json(values: &Values, is_repeatable: bool) -> Vec<u8> {
    let mut members: BTreeMap<&str, Value> = values.iter().map(|(name, value)| (name.as_str(), json!(value))).collect();
    if !is_repeatable {
        members.insert(REPEATABLE, json!(false));
    }
    let mut text = serde_json::to_vec_pretty(&members).expect("values are finite numbers");
    text.push(b'\n');
    text
}

fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = "a vector takes every row, and all rows have as many fields";
    writer.write_record(columns).expect(written);
    rows.for_each(|row| writer.write_record(row).expect(written));
    writer.into_inner().expect(written)
}
