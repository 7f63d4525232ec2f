//! Annotations that hold a number which older versions of a kind had as a field: checks that their text is a number.
//!
//! Corresponds to the conversion functions of pkg/apis/apps/v1.

use proto::gvk::Gvk;
use request::query::parse_integer;
use serde_json::Value;
use strategy::kinds::workloads::TEMPLATE_GENERATION;
use strategy::validation::workloads::ROLLBACK;

/// Returns an error if such an annotation of the object is no number.
pub fn check(gvk: &Gvk, object: &Value) -> Result<(), String> {
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps", "Deployment") => match annotation(ROLLBACK) {
            Some(text) if !text.is_empty() => {
                let invalid = |why| format!("failed to parse annotation[{ROLLBACK}]={text} as int64: {why}");
                parse_integer(text).map(drop).map_err(invalid)
            }
            _ => Ok(()),
        },
        ("apps", "DaemonSet") => annotation(TEMPLATE_GENERATION).map_or(Ok(()), |text| parse_integer(text).map(drop)),
        _ => Ok(()),
    }
}
