//! Fuzz targets of the parsers that face the network. A parser must read or refuse every input, and must read again
//! what was written from its result.

use crate::meta::field_selector::FieldSelector;
use crate::meta::selector::Selector;
use crate::serializer::{json, protobuf, yaml};
use std::collections::BTreeMap;

/// JSON: the written text is canonical, and reads as the same value.
pub fn json(input: &[u8]) {
    let Ok(parsed) = json::parse(input) else { return };
    let written = json::to_canonical(&parsed.value);
    let again = json::parse(&written).expect("what was written is JSON");
    assert_eq!(again.value, parsed.value);
    assert_eq!(again.duplicates, Vec::<String>::new());
    assert_eq!(json::to_canonical(&again.value), written);
}

/// YAML: the written text reads as the same value.
pub fn yaml(input: &[u8]) {
    let Ok(parsed) = yaml::parse(input) else { return };
    let written = yaml::to_yaml(&parsed.value);
    match yaml::parse(written.as_bytes()) {
        Ok(again) => assert_eq!(again.value, parsed.value, "{written}"),
        Err(why) => panic!("{why}: {written}"),
    }
}

/// Protobuf: the envelope of a body.
pub fn protobuf(input: &[u8]) {
    protobuf::open(input).ok();
}

/// Label selectors: the printed form selects the same.
pub fn label_selector(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(selector) = Selector::parse(&text) else { return };
    let printed = selector.to_string();
    let again = Selector::parse(&printed).unwrap_or_else(|why| panic!("{printed}: {why}"));
    assert_eq!(again.to_string(), printed);
    for labels in [&[][..], &[("a", "b")], &[("a", "1"), ("x", "")]] {
        let labels: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(again.matches(&labels), selector.matches(&labels), "{printed}");
    }
}

/// Field selectors: the printed form has the same terms, but perhaps in another order.
pub fn field_selector(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(selector) = FieldSelector::parse(&text) else { return };
    let printed = selector.to_string();
    let again = FieldSelector::parse(&printed).unwrap_or_else(|why| panic!("{printed}: {why}"));
    let sorted = |selector: &FieldSelector| {
        let mut terms = selector.terms().to_vec();
        terms.sort_by(|a, b| (&a.path, a.equal, &a.value).cmp(&(&b.path, b.equal, &b.value)));
        terms
    };
    assert_eq!(sorted(&again), sorted(&selector), "{printed}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::run;

    const ROUNDS: u32 = 3_000;

    #[test]
    fn json_is_read_or_refused() {
        run(
            &[
                br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"replicas":3}}"#,
                br#"[1,-2.5e3,true,null,"\u00e9\n\ud83d\udc31",{"a":{"a":[]}},18446744073709551615,1e999]"#,
                br#"{"a":1,"a":{"b":2},"a":{"c":3}}"#,
            ],
            &["{", "}", "[", "]", "\"", ":", ",", "\\u", "\\ud800", "null", "1e", "-0", "{\"a\":", "[[", " ", "\u{e9}"],
            ROUNDS,
            json,
        );
    }

    #[test]
    fn yaml_is_read_or_refused() {
        run(
            &[
                b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {x: y, 'z': \"1\"}\nspec:\n- a: |\n    text\n  b: >-\n    more\n- 1\n",
                b"base: &b {a: 1}\nuse:\n  <<: *b\n  c: *b\n---\nsecond: 2\n",
                b"- 0x1F\n- 0o17\n- 1e3\n- .inf\n- ~\n- yes\n- !!str 5\n- 2026-01-02\n- !!binary aGk=\n- ? k\n  : v\n",
                br#"{"a":[1,{"b":null}],"c":"\u00e9"}"#,
            ],
            &[
                "- ", ": ", "\n", "  ", "{", "}", "[", "]", "*b", "&b ", "<<: ", "|\n", ">\n", "'", "\"", "#", "!!str ",
                "---\n", "? ", "\t", "~", "\u{e9}", "\u{85}", "\u{feff}", "%YAML 1.1\n", "- - ", "a: &a [*a]",
            ],
            ROUNDS,
            yaml,
        );
    }

    #[test]
    fn protobuf_is_read_or_refused() {
        run(
            &[
                b"k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Secret\x12\x04\x0a\x02\x0a\x00\x1a\x00\"\x00",
                b"k8s\x00\x12\x02\x08\x01",
            ],
            &["k8s\0", "\u{a}", "\u{12}", "\u{7f}"],
            ROUNDS,
            protobuf,
        );
    }

    #[test]
    fn label_selectors_are_read_or_refused() {
        run(
            &[b"a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2", b"example.com/name==value, x in (), y in (,a)", b""],
            &[
                "=", "==", "!=", "!", ",", "(", ")", " in ", " notin ", "in", ">", "<", "a", "1", "/", ".", "-", " ",
                "\u{e9}",
            ],
            ROUNDS,
            label_selector,
        );
    }

    #[test]
    fn field_selectors_are_read_or_refused() {
        run(
            &[b"metadata.name=web,status.phase!=Running", b"a=b\\,c\\=d\\\\,x==y", b""],
            &["=", "==", "!=", ",", "\\", "\\,", "\\=", ".", "a", "\u{e9}"],
            ROUNDS,
            field_selector,
        );
    }
}
