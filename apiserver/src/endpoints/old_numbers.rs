//! Numbers that older versions of a kind had as fields, and that v1 keeps as the text of an annotation.
//!
//! Corresponds to the conversion functions of pkg/apis/apps/v1.

use crate::registry::strategies::workloads::TEMPLATE_GENERATION;
use crate::registry::validation::workloads::ROLLBACK;
use crate::request::query::parse_integer;
use proto::gvk::Gvk;
use serde_json::Value;

/// Why an annotation cannot be the number that it stands for.
pub fn check(gvk: &Gvk, object: &Value) -> Result<(), String> {
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps", "Deployment") => match annotation(ROLLBACK) {
            Some(text) if !text.is_empty() => {
                let unread = |why| format!("failed to parse annotation[{ROLLBACK}]={text} as int64: {why}");
                parse_integer(text).map(drop).map_err(unread)
            }
            _ => Ok(()),
        },
        ("apps", "DaemonSet") => annotation(TEMPLATE_GENERATION).map_or(Ok(()), |text| parse_integer(text).map(drop)),
        _ => Ok(()),
    }
}
