//! What a check says of wrong decisions. `scheduler/comparison` compares the evaluator with the scheduler.

use super::*;
use proto::Kind;
use serde_json::json;
use std::sync::Arc;

/// A wrong decision is found, whatever is wrong with it.
#[test]
fn a_wrong_decision_is_named() {
    let node = |name: &str, cpu: &str| {
        let node =
            json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}});
        Arc::new(Node::decode_value(node).unwrap())
    };
    let mut cluster = Cluster::default();
    [("small", "1"), ("large", "8"), ("middle", "4")]
        .into_iter()
        .for_each(|(name, cpu)| cluster.set_node(node(name, cpu)));
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}});
    let pod = json!({"metadata": {"namespace": "x", "name": "p", "uid": "p"}, "spec": {"containers": [container]}});
    let pod = Pod::decode_value(pod).unwrap();
    let settings = Settings { scores: vec![("NodeResourcesFit".to_owned(), 1)], ..Settings::default() };
    let evaluation = cluster.evaluate(&pod, &settings);
    assert_eq!(evaluation.best, ["large".to_owned()].into());
    // Of 8 cores 75 percent are free with the pod, and of 4 cores 50; of 8 GiB of memory 87.
    let scores = Some([("NodeResourcesFit".to_owned(), vec![81, 68])].into());
    let right = Decision {
        node: "large".to_owned(),
        feasible: ["large", "middle"].map(str::to_owned).into(),
        is_complete: true,
        scores,
    };
    assert_eq!(cluster.check(&pod, &settings, &right), [""; 0]);
    let wrong = |decision: Decision| cluster.check(&pod, &settings, &decision).join("; ");
    assert_eq!(wrong(Decision { node: "middle".to_owned(), ..right.clone() }), "middle is not among the best");
    // Without scores, the choice is judged all the same.
    let unrecorded = Decision { node: "middle".to_owned(), scores: None, ..right.clone() };
    assert_eq!(wrong(unrecorded), "middle is not among the best");
    let feasible = vec!["large".to_owned(), "small".to_owned()];
    assert_eq!(
        wrong(Decision { feasible, ..right.clone() }),
        "the pod fits on middle too; the pod does not fit on small: Insufficient cpu (NodeResourcesFit)"
    );
    let scores = Some([("NodeResourcesFit".to_owned(), vec![81, 70])].into());
    assert_eq!(wrong(Decision { scores, ..right.clone() }), "NodeResourcesFit scores [81, 70] and not [81, 68]");
}
