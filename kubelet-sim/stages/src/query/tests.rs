//! Queries as jq evaluates them.

use super::*;
use serde_json::json;

fn pod() -> Value {
    json!({
        "metadata": {
            "name": "web",
            "labels": {"app": "shop", "tier.example.com/x": "front"},
            "ownerReferences": [{"kind": "Job"}, {"kind": "Custom"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}],
            "containerStatuses": [
                {"name": "a", "restartCount": 2, "state": {"terminated": {"exitCode": 1}}},
                {"name": "b", "restartCount": 0, "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}},
            ],
        },
    })
}

#[test]
fn queries_find_values() {
    let cases = [
        (".metadata.deletionTimestamp", json!([null])),
        (".status.conditions.[] | select( .type == \"Ready\" ) | .status", json!(["True"])),
        (".status.conditions[] | select(.type != \"Ready\").status", json!(["False"])),
        (".metadata.ownerReferences.[].kind", json!(["Job", "Custom"])),
        (".metadata.labels[\"tier.example.com/x\"]", json!(["front"])),
        (".metadata.labels.\"tier.example.com/x\"", json!(["front"])),
        (".metadata.annotations[\"a\"]", json!([null])),
        (".status.containerStatuses.[].state.terminated.exitCode", json!([1, null])),
        (".status.containerStatuses[0].restartCount, .status.containerStatuses[-1].name", json!([2, "b"])),
        (".status.containerStatuses | map(.restartCount) | add", json!([2])),
        ("[.status.containerStatuses[].restartCount] | max - min * 3 + 1", json!([3])),
        (".metadata.name | startswith(\"w\") and (test(\"^x\") | not)", json!([true])),
        (".spec.replicas // 3", json!([3])),
        ("(.missing[] // empty), \"next\"", json!(["next"])),
        ("if .status.phase == \"Pending\" then 1 elif .status.phase == \"Running\" then 2 else 3 end", json!([2])),
        (".metadata.name[1:]", json!(["eb"])),
        (".status | keys", json!([["conditions", "containerStatuses", "phase"]])),
        ("[..|.exitCode?] | map(select(. != null))", json!([[1]])),
        (".status.conditions | any(.status == \"True\"), all(.status == \"True\")", json!([true, false])),
        ("1 + 2 * 3 == 7 and 7 % 4 == 3", json!([true])),
        ("\"5\" | tonumber | -(.) | tostring", json!(["-5"])),
        ("null < false, false < 0, 0 < \"\", \"\" < []", json!([true, true, true, true])),
        (".metadata.labels | to_entries | map(.key) | join(\",\")", json!(["app,tier.example.com/x"])),
    ];
    for (query, expected) in cases {
        let found = Query::parse(query).and_then(|query| query.evaluate(&pod()).map(|v| json!(v)));
        assert_eq!(found, Ok(expected), "{query}");
    }
}

/// Doubles the object with each pipe.
const DOUBLED: &str =
    "[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]|[.,.]";

/// A selector sees no difference between a query that fails and one that finds nothing.
#[test]
fn a_query_that_fails_finds_nothing() {
    let cases = [
        (".status.phase.name", "cannot index string with string"),
        (".spec.containers[]", "cannot iterate over null"),
        (".status.phase, 1 / 0", "cannot divide by zero"),
        ("1 % 0", "cannot divide by zero"),
        (".metadata - 1", "cannot do arithmetic with object and number"),
        (".metadata.labels | test(\"a\")", "test: object is no string"),
        (DOUBLED, "the query produces too many values"),
    ];
    for (query, error) in cases {
        let parsed = Query::parse(query).unwrap();
        assert_eq!(parsed.evaluate(&pod()).unwrap_err(), error, "{query}");
        assert!(parsed.run(&pod()).is_empty());
    }
}

#[test]
fn what_is_no_query_is_refused() {
    let cases = [
        ("", "a query must not be empty"),
        (".a |", "unexpected end"),
        (".a | def f: f; f", "function not defined: def/0"),
        ("range(10)", "function not defined: range/1"),
        ("while(true; .)", "function not defined: while/2"),
        (".a as $x | $x", "unexpected '$'"),
        (".a = 1", "unexpected '='"),
        ("select(.a", "unexpected end: \")\" is missing"),
        ("if . then 1", "unexpected end: \"end\" is missing"),
        ("\"a", "a text has no end"),
        ("\"\\(1)\"", "texts with \\( ) are not supported"),
        (".a ]", "unexpected \"]\""),
    ];
    for (query, error) in cases {
        assert_eq!(Query::parse(query).map(|_| ()).unwrap_err(), error, "{query}");
    }
    for long in [".a".repeat(249), format!("1{}", "+1".repeat(124)), format!("1{}", ",1".repeat(124))] {
        Query::parse(&long).unwrap().run(&json!(null));
    }
    for deep in ["(".repeat(5_000), "[".repeat(200), "-".repeat(200), ".|".repeat(300)] {
        assert!(Query::parse(&deep).is_err());
    }
}
