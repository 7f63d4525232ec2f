//! Prints a label selector as Go does, which is the text that Kubernetes' events show.
//!
//! Corresponds to the generated String methods of k8s.io/apimachinery/pkg/apis/meta/v1.

use proto::kinds::metav1::{LabelSelector, LabelSelectorRequirement};

pub fn as_go_prints(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},"));
    let requirement = |requirement: &LabelSelectorRequirement| {
        let values = requirement.values.as_deref().unwrap_or_default().join(" ");
        let LabelSelectorRequirement { key, operator, .. } = requirement;
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    };
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        selector.match_expressions.iter().flatten().map(requirement).collect::<String>()
    )
}
