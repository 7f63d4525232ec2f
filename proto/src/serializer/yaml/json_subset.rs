//! Reads YAML that is JSON, as `kubectl apply --server-side` sends it, by the JSON parser, which is many times faster.
//!
//! YAML 1.2 contains JSON, but go-yaml reads some of it in another way. So this module accepts only documents that both
//! read alike. It leaves to the YAML parser: characters outside plain ASCII, escapes by number, tabs, numbers with a
//! point or an exponent, long or duplicate keys, deep nesting.

use crate::serializer::json::{self, Parsed};
use serde_json::Value;

/// Limit on the length of a key. YAML's own limit is higher, which leaves room for quotes and escapes.
const MAX_KEY_BYTES: usize = 500;
/// Limit on the nesting, far below the limit of either parser.
const MAX_DEPTH: usize = 64;

/// Parses a document that is an object of this subset. Returns `None` for any other.
pub(super) fn parse(bytes: &[u8]) -> Option<Parsed> {
    let is_candidate = bytes.first() == Some(&b'{')
        && bytes.iter().all(|byte| matches!(byte, b'\n' | b' '..=b'~'))
        && !bytes.windows(2).any(|pair| pair == b"\\u");
    if !is_candidate {
        return None;
    }
    let parsed = json::parse(bytes).ok()?;
    (parsed.duplicates.is_empty() && reads_alike(&parsed.value, 0)).then_some(parsed)
}

fn reads_alike(value: &Value, depth: usize) -> bool {
    match value {
        _ if depth > MAX_DEPTH => false,
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(|item| reads_alike(item, depth + 1)),
        Value::Object(members) => {
            members.iter().all(|(key, member)| key.len() <= MAX_KEY_BYTES && reads_alike(member, depth + 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, json};

    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[ -~\n\t\r\u{8}\u{c}]{0,12}", "\\PC{0,6}", Just("<<".to_owned()), "(yes|~|0x1F|- a|a: b|#c|1)"]
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i8>().prop_map(|number| json!(f64::from(number) / 4.0)),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_the_yaml_parser_reads(value in tree(), is_pretty: bool) {
            let value = json!({"of": value});
            let written = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let written = written.unwrap();
            if let Some(taken) = parse(written.as_bytes()) {
                prop_assert_eq!(Ok(taken), read::parse_yaml(written.as_bytes()), "{}", written);
            }
        }
    }

    #[test]
    fn what_yaml_reads_in_another_way_is_left_to_it() {
        for taken in [r#"{"a":"b","c":[1,-2,null,true,{}]}"#, "{\n  \"a\": \"\\\"\\n\\t\\/\"\n}\n"] {
            assert!(parse(taken.as_bytes()).is_some(), "{taken}");
        }
        let long = format!("{{\"{}\":1}}", "k".repeat(2000));
        for left in [
            "a: 1",
            "[]",
            "{\"a\": 1.0}",
            "{\"a\": 1e3}",
            "{\"a\": 1, \"a\": 2}",
            "{\"a\":\t1}",
            r#"{"a": "\u0041"}"#,
            "{\"a\": \"é\"}",
            "{\"a\": 1",
            "{\"a\": 1} #",
            &long,
        ] {
            assert_eq!(parse(left.as_bytes()), None, "{left}");
        }
    }
}
