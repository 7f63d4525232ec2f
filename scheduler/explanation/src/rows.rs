//! `Row`, one plugin's word on one node.

use crate::document::Explanation;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Number of the attempt since the scheduler started.
    pub id: i64,
    pub at: String,
    pub pod: String,
    /// Number of the pod's attempt.
    pub attempt: i64,
    pub profile: String,
    pub node: String,
    pub searched: bool,
    pub fits: bool,
    pub chosen: bool,
    /// `Filter` or `Score`.
    pub point: &'static str,
    pub plugin: String,
    /// The result of a filter.
    pub result: String,
    pub reasons: String,
    pub raw: Option<i64>,
    pub score: Option<i64>,
    pub weight: Option<i64>,
}

/// Returns the rows of an explanation, node by node.
pub fn rows(explanation: &Explanation) -> Vec<Row> {
    let attempt = &explanation.attempt;
    let mut rows = Vec::new();
    for node in &explanation.nodes {
        let row = Row {
            id: i64::try_from(attempt.id).unwrap_or(i64::MAX),
            at: attempt.at.clone(),
            pod: attempt.pod.clone(),
            attempt: attempt.attempt.into(),
            profile: attempt.profile.clone(),
            node: node.name.clone(),
            searched: node.searched,
            fits: node.fits,
            chosen: node.chosen,
            point: "Filter",
            plugin: String::new(),
            result: String::new(),
            reasons: String::new(),
            raw: None,
            score: None,
            weight: None,
        };
        rows.extend(node.filters.iter().map(|filter| Row {
            plugin: filter.plugin.clone(),
            result: filter.result.clone(),
            reasons: filter.reasons.join("; "),
            ..row.clone()
        }));
        rows.extend(node.scores.iter().map(|score| Row {
            point: "Score",
            plugin: score.plugin.clone(),
            raw: Some(score.raw),
            score: Some(score.score),
            weight: Some(score.weight),
            ..row.clone()
        }));
    }
    rows
}
