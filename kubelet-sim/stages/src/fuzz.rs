//! The fuzz targets of stages: any text is read or refused with a reason, and what is read ends within its limits.

use crate::document;
use crate::query::Query;
use crate::stage::Subject;
use crate::template::{Facts, Template};
use jiff::Timestamp;
use serde_json::{Value, json};

fn pod() -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"a": "b"}, "uid": "u"},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i:1"}, {"name": "é"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "n": 3},
    })
}

fn facts() -> Facts {
    Facts {
        now: Timestamp::UNIX_EPOCH,
        started: Timestamp::UNIX_EPOCH,
        version: "v1".to_owned(),
        node_name: "node-0".to_owned(),
        node_ips: vec!["10.0.0.1".to_owned()],
        node_port: Some(1),
        pod_ips: vec!["10.0.0.2".to_owned()],
    }
}

/// Parses and runs a query.
pub fn query(input: &[u8]) {
    match Query::parse(&String::from_utf8_lossy(input)) {
        Ok(query) => drop(query.evaluate(&pod())),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Parses and renders a template.
pub fn template(input: &[u8]) {
    match Template::parse(&String::from_utf8_lossy(input)) {
        Ok(template) => drop(template.render_yaml(&pod(), &facts())),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Reads a file of stages, and takes every step of those that match.
pub fn file(input: &[u8]) {
    match document::parse(&String::from_utf8_lossy(input)) {
        Ok(stages) => {
            for stage in stages.iter().filter(|stage| stage.matches(Subject::Pod, &pod())) {
                let _ = stage.weight(&pod());
                let _ = stage.delay(&pod(), Timestamp::UNIX_EPOCH, 0.5);
                let _ = stage.actions(&pod(), &facts());
            }
        }
        Err(problems) => assert!(!problems.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::mutation::run;

    #[test]
    fn queries_are_read_or_refused() {
        let examples: &[&[u8]] = &[
            b".status.conditions.[] | select( .type == \"Ready\" ) | .status",
            b"[..|.a?] | map(select(. != null)) | length // -1 * 2 % 3 / 4",
            b"if .a[1:2] then .b[\"x\"] elif any(. > 1) and (.c | not) then first(.[]), 2 else [] end",
        ];
        let words =
            [".", "..", "[]", "[0]", "|", ",", "//", "select(", "map(.)", "1", "\"a\"", "and", "==", ")", "if ", "?"];
        run(examples, &words, 4_000, query);
    }

    #[test]
    fn templates_are_read_or_refused() {
        let examples: &[&[u8]] = &[
            b"{{ $now := Now }}{{ range $i, $c := .spec.containers }}- {name: {{ $c.name | Quote }}}\n{{ end }}",
            b"{{ define \"t\" }}{{ with .a }}{{ . }}{{ else }}x{{ end }}{{ end }}{{- template \"t\" dict \"a\" 1 -}}",
            b"{{ if and .a (not .b) }}{{ printf \"%05d %q\" 7 \"x\" }}{{ else if eq 1 2 }}{{/* c */}}{{ end }}{{ YAML .status 1 }}",
            b"{{ (index .spec.containers 0).name | trunc -2 | upper }}{{ $x := 1 }}{{ $x = add1 $x }}{{ until 3 }}",
        ];
        let words = [
            "{{",
            "}}",
            "{{-",
            "-}}",
            "{{ end }}",
            "{{ else }}",
            "{{ range . }}",
            "{{ if . }}",
            "{{ template \"t\" . }}",
            "$x",
            ":=",
            "|",
            "(",
            ")",
            ".a",
            "index",
            "9223372036854775807",
            "-1",
            "slice",
            "repeat",
            "div",
            "untilStep",
            "\"",
            "`",
            "'",
        ];
        run(examples, &words, 4_000, template);
    }

    #[test]
    fn files_are_read_or_refused() {
        let examples: &[&[u8]] = &[
            b"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\nspec:\n  resourceRef: {kind: Pod}\n  selector: {matchExpressions: [{key: .status.n, operator: In, values: ['3']}]}\n  weightFrom: {cel: {expression: self.status.n}}\n  delay: {durationMilliseconds: 5, jitterDurationFrom: {expressionFrom: '\"5s\"'}}\n  next: {finalizers: {add: [{value: a}]}, statusTemplate: 'n: {{ add1 .status.n }}'}\n",
            b"kind: List\nitems:\n- {apiVersion: kwok.x-k8s.io/v1alpha1, kind: Stage, metadata: {name: s}, spec: {resourceRef: {kind: Pod}, selector: {}, steps: [{delete: true}, {patch: {type: json, root: status, template: '[{op: add, path: /n, value: 1}]'}}]}}\n---\n{}\n",
        ];
        run(examples, &["---\n", "{", "}", "[", "]", ": ", "\n", "  ", "null", "-1", "{{"], 3_000, file);
    }
}
