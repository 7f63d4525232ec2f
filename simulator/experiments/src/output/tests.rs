//! The files of a small run.

use super::decisions::{DECISIONS, Decisions, VERDICTS};
use super::explained::Explained;
use super::*;
use crate::decision::{Decided, Verdict};
use crate::metrics::summarise;
use crate::record;
use crate::study::{self, Study};
use crate::{cluster, workload};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const RUN: &str = r#"
{"at_us":0,"event":"node-added","node":"n,1","allocatable":{"cpu":4000,"memory":1000},"price_per_hour":0.1}
{"at_us":1500000,"event":"pod-created","pod":"default/a","requests":{"cpu":1000},"user":"<ann>","duration_us":1000000}
{"at_us":1500000,"event":"attempt-failed","pod":"default/a","reason":"no <room>"}
{"at_us":2000000,"event":"pod-scheduled","pod":"default/a","node":"n,1"}
{"at_us":2000000,"event":"pod-started","pod":"default/a"}
{"at_us":3000000,"event":"pod-finished","pod":"default/a","succeeded":true}
{"at_us":3000000,"event":"requests-answered","requests":{"create pods":1,"patch pods/status":3,"get /apis":1}}
{"at_us":3000000,"event":"ended"}
"#;

fn summary() -> Summary {
    summarise(&record::read(RUN, "events.jsonl").unwrap(), Duration::from_secs(1))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn example() -> Study {
    study::read(study::EXAMPLE).unwrap()
}

#[test]
fn tables_have_short_numbers_and_quoted_texts() {
    assert_eq!(
        text(tables::pods_csv(&summary())).lines().nth(1),
        Some("default/a,<ann>,,,0,1000,0,0,0,1,1.5,2,2,3,,true,\"n,1\",1,0,0,1")
    );
    assert_eq!(text(tables::nodes_csv(&summary())).lines().nth(1), Some("\"n,1\",,,0,0.083333,3,0.000083,1"));
    assert_eq!(
        text(tables::requests_csv(&summary())),
        "verb,resource,requests,per_pod\npatch,pods/status,3,3\ncreate,pods,1,1\nget,/apis,1,1\n"
    );
    let metrics = |is_repeatable| text(tables::metrics_json(&summary().values, is_repeatable));
    assert!(metrics(true).contains("\n  \"allocation.cpu\": 0.083333,\n") && !metrics(true).contains("repeatable"));
    assert!(metrics(false).contains("\n  \"repeatable\": false,\n"));
}

#[test]
fn samples_are_a_parquet_file() {
    let bytes = samples::parquet(&summary().samples).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    assert_eq!(samples::parquet(&summary().samples).unwrap(), bytes);
}

#[test]
fn decisions_are_read_as_they_were_written() {
    let decided = |number: u64, pod: &str, score| Decided {
        number,
        at_us: number * 10,
        pod: pod.to_owned(),
        attempt: 2,
        result: "scheduled".to_owned(),
        node: "n".to_owned(),
        evaluated: 3,
        feasible: 2,
        ties: 1,
        score,
        reason: "why".to_owned(),
        ..Decided::default()
    };
    let rows = [decided(1, "default/a", Some(-7)), decided(2, "default/b", Some(5)), decided(3, "default/a", None)];
    let verdict = Verdict {
        node: "n".to_owned(),
        point: "Score".to_owned(),
        plugin: "Fit".to_owned(),
        raw: Some(9),
        normalised: Some(3),
        weight: Some(2),
        ..Verdict::default()
    };
    let mut files = Decisions::new(Vec::<u8>::new(), Some(Vec::new())).unwrap();
    for row in &rows {
        let verdict = Verdict { number: row.number, ..verdict.clone() };
        files.add(row.clone(), vec![verdict; 2]).unwrap();
    }
    let files = files.finish().unwrap();
    assert_eq!([files[0].0, files[1].0], [DECISIONS, VERDICTS]);
    let pods = BTreeSet::from(["default/a".to_owned()]);
    let read = decisions::read(bytes::Bytes::from(files[0].1.clone()), &pods).unwrap();
    assert_eq!(read, [rows[0].clone(), rows[2].clone()]);
    // Of the verdicts, those of some attempts are read.
    let verdicts = bytes::Bytes::from(files[1].1.clone());
    let explained = decisions::explain(verdicts.clone(), &BTreeSet::from([1, 7])).unwrap();
    assert_eq!(explained.keys().collect::<Vec<_>>(), [&1]);
    assert_eq!(explained[&1].items(), "<li>n: 12 = Fit 3 · 2 + Fit 3 · 2</li>");
    assert_eq!(decisions::explain(verdicts, &BTreeSet::from([9])), Ok(BTreeMap::new()));
    // A run without any attempt has a file without rows.
    let empty = Decisions::new(Vec::<u8>::new(), None).unwrap().finish().unwrap();
    assert_eq!(decisions::read(bytes::Bytes::from(empty[0].1.clone()), &pods), Ok(Vec::new()));
}

/// A node that a plugin rejects.
fn explained() -> Explained {
    let mut explained = Explained::default();
    explained.add(Verdict {
        node: "n,1".to_owned(),
        point: "Filter".to_owned(),
        plugin: "Fit".to_owned(),
        result: "Unschedulable".to_owned(),
        reasons: "<full>".to_owned(),
        ..Verdict::default()
    });
    explained
}

#[test]
fn a_report_needs_no_other_file() {
    let mut study = example();
    study.policies[0].external = Some(study::External::default());
    let outcome = |policy: &str, seed| Outcome {
        setting: "small/mixed/none".to_owned(),
        policy: policy.to_owned(),
        seed,
        summary: summary(),
        decisions: vec![Decided {
            at_us: 1_500_000,
            pod: "default/a".to_owned(),
            result: "unschedulable".to_owned(),
            reason: "no <room>".to_owned(),
            number: 3,
            ..Decided::default()
        }],
        explained: BTreeMap::from([(3, explained())]),
    };
    let outcomes = [outcome("default", 1), outcome("default", 2), outcome("most-allocated", 1)];
    let refused = vec!["small/mixed/none: most-allocated has no runs with the seeds 2".to_owned()];
    let report = || report::report(&study, &outcomes, &[], &refused);
    let html = report().unwrap();
    assert!(html.contains("<th>default<br>(not repeatable)</th><th>most-allocated</th>"), "{html}");
    assert!(
        html.contains("<tr><td>pending.p50</td><td class=\"unit\">s</td><td>0.5 ± 0</td><td>0.5</td></tr>"),
        "{html}"
    );
    assert!(html.contains("<li>small/mixed/none: most-allocated has no runs with the seeds 2</li>"));
    assert!(
        html.contains("<li>1.5 s: <b>unschedulable</b>: no &lt;room&gt;<ul><li>Fit: &lt;full&gt;: n,1</li></ul></li>")
    );
    assert_eq!(
        html.matches("<svg").count(),
        1,
        "of CPU; there are no GPUs and no power, and no sample sees the pod wait"
    );
    assert!(!html.contains("http://") || html.matches("http://").count() == html.matches("http://www.w3.org/").count());
    assert_eq!(report(), Ok(html));
    let plots = curves::plots(&study, &outcomes.iter().collect::<Vec<_>>());
    let png = plots[0].1.png().unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 5_000);
    assert_eq!(plots[0].1.png(), Ok(png));
}

#[test]
fn a_manifest_tells_whether_a_cell_is_finished() {
    let study = example();
    let cells = study.cells();
    let files = crate::files::Texts(&[]);
    let manifest = |cell: &study::Cell<'_>| {
        let machines = cluster::machines(cell.cluster, &files, "clusters[0]").unwrap();
        let mut draw = crate::draw::seeded(cell.seed);
        let arrivals = workload::arrivals(cell.workload, &files, &mut draw, "workloads[0]").unwrap();
        let inputs = manifest::inputs(&study, cell, &machines, &arrivals, &[]);
        Manifest::new(&study, cell, "0.1.0", inputs, cell.policy.configuration.as_ref())
    };
    let first = manifest(&cells[0]);
    let mut finished = first.clone();
    finished.add("metrics.json", b"{}");
    let read: Manifest = serde_json::from_slice(&finished.text()).unwrap();
    assert!(first.is_same_run(&read));
    assert!(!manifest(&cells[1]).is_same_run(&read), "another seed");
    let other_policy = manifest(&cells[5]);
    assert!(!other_policy.is_same_run(&read));
    assert_eq!(other_policy.inputs, first.inputs, "the policies meet the same pods");
    assert_ne!(manifest(&cells[1]).inputs, first.inputs);
    assert!(first.repeatable);
    let external = study::Policy { external: Some(study::External::default()), ..cells[0].policy.clone() };
    assert!(!manifest(&study::Cell { policy: &external, ..cells[0] }).repeatable);
    assert_eq!(manifest::hash(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
