//! Tests explanations on small clusters.

use crate::attempt::{Attempt, Outcome};
use crate::attempts::Attempts;
use crate::document::NodeVerdict;
use crate::explain::explain;
use crate::export::{self, Format};
use crate::reason::reason;
use crate::recorder::{Limits, Recorder};
use crate::rows;
use crate::verify::verify;
use crate::what_if::{self, what_if};
use client::Lister;
use jiff::Timestamp;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use proto::kinds::api::storage::v1::StorageClass;
use scheduler_plugins::dynamic_resources::{self, DeviceClasses};
use scheduler_plugins::fixture::{Objects, TestCluster, info, node, pod, profile, profile_of};
use scheduler_plugins::storage::Storage as Caches;
use scheduler_reference::{Cluster, Devices, Storage};
use scheduling_framework::cycle::Decision;
use scheduling_framework::plugin_scores::PluginScores;
use scheduling_framework::{CycleState, EXTENDER};
use serde_json::{Value, json};
use std::sync::Arc;

const LARGE: Limits = Limits { attempts: 100, bytes: 1 << 30 };

/// Runs a cycle, and returns the attempt. A scheduled pod is assumed if `assume` is set.
fn attempt(cluster: &mut TestCluster, value: Value, assume: bool) -> Attempt {
    let (pod, next_start, mut state) = (info(value), cluster.rotation.next_start(), CycleState::default());
    let outcome = match cluster.decide(&pod, &mut state) {
        Ok(decision) => Outcome::Found(decision),
        Err(mut error) => {
            let TestCluster { profile, snapshot, nominated, .. } = cluster;
            let result = profile.run_post_filters(&mut error, &state, &pod, snapshot, nominated);
            let victims = result.victims.iter().map(|victim| victim.key.clone()).collect();
            Outcome::NotFound { error, nomination: result.nomination, victims }
        }
    };
    if let (Outcome::Found(decision), true) = (&outcome, assume) {
        cluster.cache.assume(pod.clone(), &decision.node);
    }
    Attempt {
        id: 0,
        at: Timestamp::UNIX_EPOCH,
        took: Default::default(),
        pod,
        number: 1,
        moves: Vec::new(),
        rejected_by: Vec::new(),
        profile: Arc::new(cluster.profile.clone()),
        namespaces: cluster.snapshot.namespaces().clone(),
        nominated: cluster.nominated.clone(),
        next_start,
        timings: Vec::new(),
        outcome,
        group_preemption: Default::default(),
        end: Default::default(),
    }
}

/// Three nodes: `n2` is tainted and too small, and `n3` has a pod.
fn cluster() -> TestCluster {
    let small = json!({"status": {"allocatable": {"cpu": "500m"}},
        "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}});
    let nodes = [node("n1", "a", json!({})), node("n2", "a", small), node("n3", "b", json!({}))];
    let mut cluster = TestCluster::new(nodes);
    cluster.place(pod("old", "2", json!({})), "n3");
    cluster
}

#[test]
fn the_snapshot_of_every_attempt_is_kept() {
    let (mut cluster, recorder) = (cluster(), Recorder::new(Limits { attempts: 5, ..LARGE }));
    let mut then = Vec::new();
    for step in 0..12 {
        match step {
            3 => cluster.cache.set_node(node("n4", "b", json!({}))),
            6 => cluster.cache.remove_node("n1"),
            8 => drop(cluster.cache.remove_pod("old")),
            _ => {}
        }
        let attempt = attempt(&mut cluster, pod(&format!("p-{step}"), "500m", json!({})), true);
        let id = recorder.record(attempt, &cluster.snapshot);
        then.push((id, cluster.snapshot.clone()));
    }
    for (id, snapshot) in then {
        match recorder.get(id) {
            Some((attempt, kept)) => assert!(attempt.id == id && id > 7 && kept.same_as(&snapshot), "{id}"),
            None => assert!(id <= 7, "{id}"),
        }
    }
    assert!(recorder.get(99).is_none() && recorder.get(0).is_none());
}

#[test]
fn the_bytes_are_limited_too() {
    let (mut cluster, recorder) = (cluster(), Recorder::new(Limits { bytes: 20_000, ..LARGE }));
    for step in 0..30 {
        let attempt = attempt(&mut cluster, pod(&format!("p-{step}"), "10m", json!({})), true);
        recorder.record(attempt, &cluster.snapshot);
    }
    let kept = recorder.list();
    assert!((2..20).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().map(|attempt| attempt.id), Some(30));
}

#[test]
fn every_filter_and_score_is_shown() {
    let mut cluster = cluster();
    let attempt = attempt(&mut cluster, pod("web", "1", json!({})), false);
    let explanation = explain(&attempt, &cluster.snapshot);
    // The search takes one node of each zone in turn.
    let [n1, n3, n2] = &explanation.nodes[..] else { panic!("three nodes: {explanation:?}") };
    let rejecting = n2.filters.iter().filter(|filter| !filter.reasons.is_empty());
    let rejecting: Vec<(&str, &str)> = rejecting.map(|one| (one.plugin.as_str(), one.reasons[0].as_str())).collect();
    let taint = "node(s) had untolerated taint(s)";
    assert_eq!(rejecting, [("TaintToleration", taint), ("NodeResourcesFit", "Insufficient cpu")]);
    assert!(n2.searched && !n2.fits && n2.scores.is_empty() && n2.total.is_none());
    // A quarter of n1's CPU is used and three quarters of n3's, and next to nothing of their memory.
    for (node, fit) in [(n1, (75 + 99) / 2), (n3, (25 + 98) / 2)] {
        let score = |plugin: &str| node.scores.iter().find(|score| score.plugin == plugin).unwrap();
        assert_eq!((score("NodeResourcesFit").raw, score("NodeResourcesFit").score), (fit, fit));
        // No taint counts against the node, so that the reversed score is the highest.
        assert_eq!((score("TaintToleration").raw, score("TaintToleration").score), (0, 100));
        let sum: i64 = node.scores.iter().map(|score| score.weight * score.score).sum();
        assert!(node.searched && node.fits && node.total == Some(sum), "{node:?}");
    }
    assert!(n1.chosen && !n3.chosen);
    assert_eq!(explanation.differences, [""; 0]);
    assert_eq!((explanation.choice.evaluated, explanation.choice.feasible), (3, 2));
    assert_eq!(explanation.choice.ties, ["n1"]);
    let filters: Vec<&str> = explanation.nodes[0].filters.iter().map(|filter| filter.plugin.as_str()).collect();
    assert_eq!(filters, ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeResourcesFit"]);
}

#[test]
fn a_pod_that_fits_nowhere_shows_what_preemption_considers() {
    let mut cluster = cluster();
    for (name, priority, on) in [("a", 5, "n1"), ("b", 3, "n3"), ("c", 3, "n3")] {
        cluster.place(pod(name, "1", json!({"priority": priority})), on);
    }
    let attempt = attempt(&mut cluster, pod("vip", "4", json!({"priority": 9})), false);
    let explanation = explain(&attempt, &cluster.snapshot);
    let line = |c: &crate::document::PreemptionCandidate| format!("{} {:?} {}", c.node, c.victims, c.worse_because);
    let lines: Vec<String> = explanation.preemption.candidates.iter().map(line).collect();
    let best = r#"n3 ["shop/b", "shop/c", "shop/old"] "#;
    assert_eq!(lines, [best, r#"n1 ["shop/a"] a victim has a higher priority"#]);
    assert_eq!(explanation.preemption.nominated_to, explanation.preemption.candidates[0].node);
    assert_eq!(explanation.preemption.victims, explanation.preemption.candidates[0].victims);
}

#[test]
fn what_if_runs_the_cycle_again() {
    let mut cluster = cluster();
    let attempt = attempt(&mut cluster, pod("web", "400m", json!({})), false);
    let ask = |changes: &str| match what_if::parse(changes).and_then(|c| what_if(&attempt, &cluster.snapshot, &c)) {
        Ok((_, explanation)) if explanation.choice.node.is_empty() => explanation.attempt.message,
        Ok((_, explanation)) => format!("{} before, {} then", explanation.node_before, explanation.choice.node),
        Err(error) => error.to_string(),
    };
    for (changes, expected) in [
        ("weight=ImageLocality:9", "n1 before, n1 then"),
        ("node=n3", "n1 before, n3 then"),
        ("node=n2,without=TaintToleration", "n1 before, n2 then"),
        (
            "node=n2",
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't satisfy plugin(s) [WhatIf].",
        ),
        ("node=n9", "node=n9: the snapshot of the attempt does not have this node"),
        ("weight=Nothing:1", "weight=Nothing: the profile does not score with this plugin; it has TaintToleration, "),
        ("weight=ImageLocality:-1", "weight=ImageLocality:-1: want a weight from 0 to 92233720368547"),
        ("heavy", "\"heavy\": want weight=PLUGIN:N, without=PLUGIN or node=NAME"),
        ("without=", "\"without=\": want weight=PLUGIN:N, without=PLUGIN or node=NAME"),
    ] {
        assert!(ask(changes).starts_with(expected), "{changes}: {}", ask(changes));
    }
    assert!(ask("without=Nothing").starts_with("without=Nothing: the profile does not have this plugin; it has "));
    // The reference evaluator is asked about the changed profile.
    for changes in ["without=TaintToleration", "weight=ImageLocality:9", "node=n3"] {
        let (changed, explanation) = what_if(&attempt, &cluster.snapshot, &what_if::parse(changes).unwrap()).unwrap();
        let verified = verify(&changed, &cluster.snapshot, &explanation, None);
        assert_eq!((verified.unknown, verified.differences), (vec![], vec![]), "{changes}");
    }
    // Extenders are not asked again, and the evaluator does not know them.
    let mut asked = attempt;
    assert!(!asked.had_extenders());
    if let Outcome::Found(decision) = &mut asked.outcome {
        decision.scores.push(PluginScores { plugin: EXTENDER, weight: 1, scores: vec![1; decision.feasible.len()] });
    }
    let changes = what_if::parse("node=n3").unwrap();
    let (_, explanation) = what_if(&asked, &cluster.snapshot, &changes).unwrap();
    assert_eq!(explanation.what_if, ["node=n3", "without=the extenders"]);
    let verified = verify(&asked, &cluster.snapshot, &explain(&asked, &cluster.snapshot), None);
    assert_eq!(verified.unknown, ["extenders"]);
}

#[test]
fn the_reference_evaluator_agrees_where_it_knows_the_pod() {
    let mut cluster = cluster();
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}]});
    let known = attempt(&mut cluster, pod("web", "1", spread), false);
    let mut explanation = explain(&known, &cluster.snapshot);
    let verified = verify(&known, &cluster.snapshot, &explanation, None);
    assert_eq!((verified.differences, verified.unknown), (vec![], vec![]));
    assert!(verified.compared > 9);

    explanation.nodes[0].scores[0].score = 7;
    let verified = verify(&known, &cluster.snapshot, &explanation, None);
    assert_eq!(verified.differences, ["n1: TaintToleration 7; the reference: 100"]);

    let volume = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
    let unknown = attempt(&mut cluster, pod("db", "1", volume), false);
    let explanation = explain(&unknown, &cluster.snapshot);
    assert_eq!(verify(&unknown, &cluster.snapshot, &explanation, None).unknown, ["volumes with storage"]);
}

/// A cluster whose plugins read these claims and volumes, and the same objects for the reference evaluator.
fn with_storage(claims: &[Value], volumes: &[Value]) -> (TestCluster, Cluster) {
    let decoded_claims = || claims.iter().map(|it| PersistentVolumeClaim::decode_value(it.clone()).unwrap());
    let decoded_volumes = || volumes.iter().map(|it| PersistentVolume::decode_value(it.clone()).unwrap());
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    let class = StorageClass::decode_value(class).unwrap();
    let mut objects = Objects::default();
    objects.volumes.sources.storage = Caches {
        claims: Lister::of(decoded_claims()),
        classes: Lister::of([class.clone()]),
        ..Caches::empty().with_volumes(decoded_volumes())
    };
    let shape = json!({"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]});
    let binding = json!({"pluginConfig": [{"name": "VolumeBinding", "args": shape}]});
    let nodes = ["n1", "n2", "n3"].map(|name| node(name, if name == "n3" { "b" } else { "a" }, json!({})));
    let storage = Storage {
        claims: decoded_claims().collect(),
        volumes: decoded_volumes().collect(),
        classes: [class].into_iter().collect(),
        ..Storage::default()
    };
    let surroundings = Cluster { storage: Arc::new(storage), ..Cluster::default() };
    (TestCluster::with(profile_of(&binding, objects), nodes), surroundings)
}

#[test]
fn the_reference_evaluator_judges_pods_with_claims() {
    let mut claim = json!({
        "metadata": {"namespace": "shop", "name": "data", "uid": "data"},
        "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let volume = |name: &str, zone: &str, size: &str| {
        let here = json!([{"key": "zone", "operator": "In", "values": [zone]}]);
        json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}}},
            "status": {"phase": "Available"},
        })
    };
    let volumes = [volume("small", "a", "2Gi"), volume("large", "b", "10Gi")];
    let pod = pod("db", "1", json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}));
    let (mut cluster, surroundings) = with_storage(&[claim.clone()], &volumes);
    let mut tried = attempt(&mut cluster, pod, false);
    let explanation = explain(&tried, &cluster.snapshot);
    let verified = verify(&tried, &cluster.snapshot, &explanation, Some(&surroundings));
    assert_eq!((verified.unknown, verified.differences, verified.skipped), (vec![], vec![], vec![]));
    let of_volumes = |node: &NodeVerdict| node.scores.iter().find(|it| it.plugin == "VolumeBinding").map(|it| it.score);
    assert_eq!(explanation.nodes.iter().find(|node| node.name == "n3").map(of_volumes), Some(Some(10)));

    // The claim is bound meanwhile. Its other node does not fit any more for both, and scores of then are not compared.
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"]["volumeName"] = json!("large");
    let (later, surroundings) = with_storage(&[claim], &volumes);
    tried.profile = Arc::new(later.profile);
    let explanation = explain(&tried, &cluster.snapshot);
    let verified = verify(&tried, &cluster.snapshot, &explanation, Some(&surroundings));
    assert_eq!((verified.unknown, verified.differences), (vec![], vec![]));
    assert_eq!(verified.skipped, ["VolumeBinding"]);
    assert!(explanation.differences.iter().any(|it| it == "n1: does not fit now, fits then"), "{explanation:?}");
}

#[test]
fn the_reference_evaluator_judges_pods_with_devices() {
    let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
    let slice = |node: &str, devices: &[&str]| {
        let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
        json!({"metadata": {"name": node}, "spec": {"driver": "gpu.example.com", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
    };
    let one = |name: &str, count: i64| json!({"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
    let request = json!({"name": "r", "firstAvailable": [one("two", 2), one("one", 1)]});
    let claim = json!({"metadata": {"namespace": "shop", "name": "train", "uid": "train"},
        "spec": {"devices": {"requests": [request]}}});
    let slices = [slice("n1", &["a", "b"]), slice("n2", &["a"]), slice("n3", &[])];
    let classes = || [DeviceClass::decode_value(class.clone()).unwrap()];
    let claims = || [ResourceClaim::decode_value(claim.clone()).unwrap()];
    let slices = || slices.iter().map(|slice| ResourceSlice::decode_value(slice.clone()).unwrap());
    let mut objects = Objects::default();
    objects.devices.sources =
        dynamic_resources::Sources::of(Lister::of(claims()), DeviceClasses::of(classes()), Lister::of(slices()));
    let devices = Devices {
        claims: claims().into_iter().collect(),
        classes: classes().into_iter().collect(),
        slices: slices().collect(),
    };
    let surroundings = Cluster { devices: Arc::new(devices), ..Cluster::default() };
    let nodes = ["n1", "n2", "n3"].map(|name| node(name, "a", json!({})));
    let mut cluster = TestCluster::with(profile(objects), nodes);
    let claims = json!([{"name": "c", "resourceClaimName": "train"}]);
    let pod = pod("job", "1", json!({"resourceClaims": claims}));
    let tried = attempt(&mut cluster, pod, false);
    let explanation = explain(&tried, &cluster.snapshot);
    let verified = verify(&tried, &cluster.snapshot, &explanation, Some(&surroundings));
    assert_eq!((verified.unknown, verified.differences, verified.skipped), (vec![], vec![], vec![]));
    let score = |node: &NodeVerdict| {
        let of_devices = node.scores.iter().find(|it| it.plugin == "DynamicResources").map(|it| it.score);
        (node.fits, of_devices)
    };
    // The first alternative is free on n1, and the second one on n2.
    let scores: Vec<_> = explanation.nodes.iter().map(score).collect();
    assert_eq!(scores, [(true, Some(100)), (true, Some(87)), (false, None)]);
    let verified = verify(&tried, &cluster.snapshot, &explanation, None);
    assert_eq!(verified.unknown, ["resource claims"]);
}

#[test]
fn a_sentence_says_why() {
    let mut cluster = cluster();
    let mut attempt = attempt(&mut cluster, pod("new", "1", json!({})), false);
    let names: Vec<String> = cluster.snapshot.nodes().iter().map(|node| node.name().to_owned()).collect();
    let score = |plugin, weight, scores: &[i64]| PluginScores { plugin, weight, scores: scores.to_vec() };
    let mut said = |feasible: &[usize], scores: Vec<PluginScores>| {
        let Outcome::Found(decision) = &mut attempt.outcome else { panic!("the pod fits") };
        *decision = Decision { node: names[0].clone(), evaluated: 3, feasible: feasible.to_vec(), ..decision.clone() };
        decision.scores = scores;
        reason(&attempt, &cluster.snapshot)
    };
    assert_eq!(said(&[0], Vec::new()), "1 of 3 nodes fit");
    let scores = vec![score("Spread", 1, &[10, 100]), score("Pack", 2, &[90, 5]), score("Quiet", 1, &[0, 0])];
    let expected = format!(
        "2 of 3 nodes fit; {} has the highest total, 190 (Pack 90·2, Spread 10·1), then {} with 110",
        names[0], names[1]
    );
    assert_eq!(said(&[0, 1], scores), expected);
    let expected =
        format!("3 of 3 nodes fit; {} has the highest total, 7 (Pack 7·1), drawn from 2 nodes with it", names[0]);
    assert_eq!(said(&[0, 1, 2], vec![score("Pack", 1, &[7, 3, 7])]), expected);
}

#[test]
fn rows_have_three_forms() {
    let mut cluster = cluster();
    let attempt = attempt(&mut cluster, pod("web", "1", json!({})), false);
    let rows = rows::rows(&explain(&attempt, &cluster.snapshot));
    let text = |format| String::from_utf8(export::write(&rows, format).unwrap()).unwrap();
    let csv = text(Format::Csv);
    let head = "id,at,pod,attempt,profile,node,searched,fits,chosen,point,plugin,result,reasons,raw,score,weight\n";
    assert!(csv.starts_with(head), "{csv}");
    let attempt = "0,1970-01-01T00:00:00Z,shop/web,1,default-scheduler";
    for row in [
        format!("{attempt},n1,true,true,true,Score,NodeResourcesFit,,,87,87,1\n"),
        format!(
            "{attempt},n2,true,false,false,Filter,TaintToleration,UnschedulableAndUnresolvable,\
             node(s) had untolerated taint(s),,,\n"
        ),
    ] {
        assert!(csv.contains(&row), "{row} in {csv}");
    }
    let last: Value = serde_json::from_str(text(Format::JsonLines).lines().last().unwrap()).unwrap();
    assert_eq!((&last["node"], &last["point"], &last["weight"]), (&json!("n2"), &json!("Filter"), &Value::Null));

    let file = export::write(&rows, Format::Parquet).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
    let read: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(read.len(), rows.len());
    let scored = "plugin: \"NodeResourcesFit\", result: \"\", reasons: \"\", raw: 87, score: 87, weight: 1}";
    assert!(read.iter().any(|row| row.ends_with(scored)), "{read:?}");
    assert!(read.last().unwrap().ends_with("raw: null, score: null, weight: null}"), "{read:?}");
}
