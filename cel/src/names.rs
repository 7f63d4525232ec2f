//! Escapes names of properties for rules: `a-b` becomes `a__dash__b`, `namespace` becomes `__namespace__`.
//!
//! Corresponds to k8s.io/apiserver/pkg/cel Escape.

use crate::is_reserved;

/// Returns the escaped name; `None` if rules cannot use it.
pub fn escaped(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/')) {
        return None;
    }
    Some(
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__"),
    )
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_are_escaped() {
        for (name, wanted) in [
            ("a", Some("a")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("namespace", Some("__namespace__")),
            ("int", Some("int")),
            ("1a", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(escaped(name).as_deref(), wanted, "{name}");
        }
    }
}
