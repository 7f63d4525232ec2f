//! Numbers that older versions of a kind had as fields, and that v1 keeps as the text of an annotation.
//!
//! Corresponds to the conversion functions of pkg/apis/apps/v1.

use proto::gvk::Gvk;
use request::query::parse_integer;
use serde_json::Value;
use strategy::kinds::workloads::TEMPLATE_GENERATION;
use strategy::validation::workloads::ROLLBACK;

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
