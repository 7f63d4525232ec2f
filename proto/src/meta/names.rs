//! Checks the form of names, label keys and label values. Errors are worded as Kubernetes words them.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/validation and pkg/api/validation. Each check returns all errors that
//! it finds, so an empty list means that the text is valid.

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";

const LABEL_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;
/// Limit on all annotations of one object, keys and values together.
pub const ANNOTATIONS_BYTES: usize = 256 * 1024;

/// `must be no more than 63 characters`
fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// Formats `<what> (e.g. 'a',  or 'b', regex used for validation is 'r')`, with Kubernetes' double space.
fn pattern(what: &str, regex: &str, examples: &[&str]) -> String {
    let mut text = format!("{what} (");
    for (i, example) in examples.iter().enumerate() {
        text.push_str(if i == 0 { "e.g. '" } else { " or '" });
        text.push_str(example);
        text.push_str("', ");
    }
    text.push_str("regex used for validation is '");
    text.push_str(regex);
    text.push_str("')");
    text
}

fn lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// Returns whether every character is `inner`, and the first and last are `outer`.
fn shaped(text: &str, outer: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => outer(*first) && outer(*last) && bytes.iter().all(|b| inner(*b)),
        _ => false,
    }
}

fn is_label(text: &str) -> bool {
    shaped(text, lower, |b| lower(b) || b == b'-')
}

fn is_name_part(text: &str) -> bool {
    shaped(text, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Returns an error for a text over the limit, and `wrong_form` unless the form is right.
fn errors(text: &str, limit: usize, is_right_form: bool, wrong_form: impl Fn() -> String) -> Vec<String> {
    let length = (text.len() > limit).then(|| too_long(limit));
    length.into_iter().chain((!is_right_form).then(wrong_form)).collect()
}

/// Checks the name of a namespace or a container.
pub fn dns1123_label(text: &str) -> Vec<String> {
    errors(text, LABEL_LENGTH, is_label(text), || {
        // A subdomain is a valid name of most other kinds.
        if is_subdomain(text) {
            return "must not contain dots".to_owned();
        }
        pattern(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character",
            DNS1123_LABEL,
            &["my-name", "123-abc"],
        )
    })
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Checks the name of an object of most kinds.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    errors(text, SUBDOMAIN_LENGTH, is_subdomain(text), || {
        pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN,
            &["example.com"],
        )
    })
}

/// Checks the name of a service, which is the first label of a host name.
pub fn dns1035_label(text: &str) -> Vec<String> {
    errors(text, LABEL_LENGTH, is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()), || {
        pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            DNS1035_LABEL,
            &["my-name", "abc-123"],
        )
    })
}

const NAME_CHARACTERS: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const NAME_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];

/// Checks a label or annotation key, a resource name or a finalizer: `example.com/name` or `name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    qualified(text, "a qualified name")
}

/// Checks a `qualified_name` with the error of label selectors.
pub fn label_key(text: &str) -> Vec<String> {
    qualified(text, "a valid label key")
}

fn qualified(text: &str, what: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(dns1123_subdomain(prefix).into_iter().map(|e| format!("prefix part {e}")));
            }
            name
        }
        _ => {
            let shape = pattern(&format!("{what} {NAME_CHARACTERS}"), QUALIFIED_NAME, NAME_EXAMPLES);
            return vec![format!("{shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LENGTH {
        errors.push(format!("name part {}", too_long(LABEL_LENGTH)));
    }
    if !is_name_part(name) {
        errors.push(pattern(&format!("name part {NAME_CHARACTERS}"), QUALIFIED_NAME, NAME_EXAMPLES));
    }
    errors
}

pub fn label_value(text: &str) -> Vec<String> {
    errors(text, LABEL_LENGTH, text.is_empty() || is_name_part(text), || {
        pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        )
    })
}

/// Checks a key of a ConfigMap or Secret.
pub fn config_map_key(text: &str) -> Vec<String> {
    let is_key_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let is_right_form = !text.is_empty() && text.bytes().all(is_key_byte);
    let mut errors = errors(text, SUBDOMAIN_LENGTH, is_right_form, || {
        let what = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        pattern(what, CONFIG_KEY, &["key.name", "KEY_NAME", "key-name"])
    });
    match text {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// Checks a name that must only be one segment of a URL path, as those of RBAC roles.
pub fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => return vec![format!("may not be '{text}'")],
        _ => {}
    }
    ["/", "%"].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// Replaces a hyphen at the end of a `generateName` by a letter before its form is checked: random characters follow
/// it.
pub fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => prefix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(check: fn(&str) -> Vec<String>, texts: &[&str]) -> Vec<bool> {
        texts.iter().map(|t| check(t).is_empty()).collect()
    }

    #[test]
    fn labels_and_subdomains() {
        assert_eq!(
            verdicts(dns1123_label, &["a", "1-a", "a.b", "-a", "a-", "A", ""]),
            [true, true, false, false, false, false, false]
        );
        assert_eq!(
            verdicts(dns1123_subdomain, &["a.b", "1", "a..b", ".a", "a_b", ""]),
            [true, true, false, false, false, false]
        );
        assert_eq!(verdicts(dns1035_label, &["a-1", "1a", "a."]), [true, false, false]);
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn complaints_are_worded_as_kubernetes_words_them() {
        assert_eq!(
            dns1123_subdomain("Bad_"),
            ["a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
              must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]
        );
        assert_eq!(
            label_value("bad value"),
            ["a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
              start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
              for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]
        );
        let part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        assert_eq!(qualified_name("-bad"), [part]);
        assert_eq!(qualified_name(""), ["name part must be non-empty", part]);
        assert_eq!(qualified_name("/x"), ["prefix part must be non-empty"]);
        assert!(qualified_name("Bad/x")[0].starts_with("prefix part a lowercase RFC 1123 subdomain must consist"));
        assert!(
            label_key("x/y/z")[0]
                .ends_with("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")
        );
        assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 characters"]);
        assert_eq!(path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(config_map_key("..x"), ["must not start with '..'"]);
    }

    #[test]
    fn generated_names_may_have_a_prefix_that_ends_in_a_hyphen() {
        assert_eq!(mask_trailing_dash("web-"), "weba");
        assert_eq!(mask_trailing_dash("-"), "-");
        assert_eq!(mask_trailing_dash("web"), "web");
    }
}
