//! Tables of scripts with what they decide, and of scripts that fail with their messages.

use super::*;
use crate::machine::Machine;
use component_base::env::Env;
use scheduler_plugins::fixture::{Objects, TestCluster, info, node, pod, registry};
use scheduling_framework::assembly::assemble;
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::configuration::args::script::ScriptLimits;
use scheduling_framework::configuration::profile::ProfileConfiguration;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, QueuedPodInfo};
use serde_json::{Value, json};
use std::sync::Arc;

const STEPS: i64 = 10_000;

fn limits() -> ScriptLimits {
    ScriptLimits { steps: STEPS, memory_bytes: 256 << 10 }
}

fn machine(source: &str) -> Machine {
    Machine::load("p.luau", source, &limits()).unwrap()
}

fn load_error(source: &str) -> String {
    Machine::load("p.luau", source, &limits()).err().unwrap_or_default()
}

/// Returns a node with two pods, one of which requests 500m.
fn one_node() -> NodeInfo {
    let extra = json!({
        "spec": {"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"example.com/gpu": "2"}},
    });
    let mut info = NodeInfo::default();
    info.set_node(node("n1", "west", extra));
    for (name, cpu) in [("web-1", "1"), ("db-1", "500m")] {
        info.add_pod(scheduler_plugins::fixture::info(pod(name, cpu, json!({}))));
    }
    info
}

fn a_pod() -> Arc<PodInfo> {
    let mut pod = pod("web-2", "250m", json!({"priority": 7, "tolerations": [{"key": "gpu", "operator": "Exists"}]}));
    pod["metadata"]["annotations"] = json!({"team": "blue"});
    info(pod)
}

/// Evaluates an expression over a pod and a node as the reason of a rejection.
fn reason(expression: &str) -> Result<String, String> {
    let source = format!("function filter(pod, node)\n  return {expression}\nend");
    Machine::load("p.luau", &source, &limits())?
        .filter(&a_pod(), &one_node())
        .map(|r| r.unwrap_or_else(|| "fits".into()))
}

#[test]
fn a_script_reads_pods_and_nodes() {
    for (expression, expected) in [
        ("pod.namespace .. '/' .. pod.name", "shop/web-2"),
        ("pod.labels.app", "web"),
        ("pod.annotations.team", "blue"),
        ("tostring(pod.priority)", "7"),
        ("tostring(pod.requests.cpu)", "0.25"),
        ("tostring(pod.requests.memory / 1024 / 1024)", "64"),
        ("pod.tolerations[1].key .. pod.tolerations[1].operator", "gpuExists"),
        ("pod.containers[1].image", "nginx"),
        ("node.name .. node.labels['topology.kubernetes.io/zone']", "n1west"),
        ("tostring(node.unschedulable)", "false"),
        ("node.taints[1].effect", "NoSchedule"),
        ("node.conditions[1].type .. node.conditions[1].status", "ReadyTrue"),
        ("string.format('%g of %g', node.requested.cpu, node.allocatable.cpu)", "1.5 of 4"),
        ("string.format('%d of %d', node.requested.pods, node.allocatable.pods)", "2 of 110"),
        ("tostring(node.allocatable['example.com/gpu'])", "2"),
        ("#node.pods .. node.pods[1].name .. node.pods[2].requests.cpu", "2db-11"),
        ("nil", "fits"),
        ("true", "fits"),
        ("false", "node(s) were rejected by p.luau"),
        ("'two\\nlines'", "twolines"),
        ("pod.labels.none or 'none'", "none"),
    ] {
        assert_eq!(reason(expression).as_deref(), Ok(expected), "{expression}");
    }
}

#[test]
fn a_call_that_fails_names_the_line() {
    let mut wrong = Vec::new();
    let mut check = |script: &str, result: Result<Option<String>, String>, expected: &str| {
        if result != Err(expected.to_owned()) {
            wrong.push(format!("{script}: {result:?}, and not {expected:?}"));
        }
    };
    for (expression, expected) in [
        ("pod.spec.x", "p.luau:2: attempt to index nil with 'x'"),
        ("5", "p.luau: filter returned a number, and not a boolean or a reason"),
        ("pod", "p.luau: filter returned a table, and not a boolean or a reason"),
        ("error('no')", "p.luau:2: no"),
        ("error({})", "p.luau:2: raised a table, and not a text"),
        ("error(pod)", "p.luau:2: raised a table, and not a text"),
        ("tostring(pod)", "p.luau:2: a table has no text"),
        ("string.format('%s', pod)", "p.luau:2: a table has no text"),
        ("string.rep('x', 1000000)", "p.luau: took more memory than it may"),
        ("string.rep()", "p.luau:2: missing argument #1 to 'rep' (string expected)"),
        ("string.find(('a'):rep(2000), '.-.-.-b')", "p.luau:2: took more than 10000 steps"),
        // What could change the next decision, or would not repeat.
        ("os.time()", "p.luau:2: attempt to index nil with 'time'"),
        ("math.random()", "p.luau:2: attempt to call a nil value"),
        ("pcall(error)", "p.luau:2: attempt to call a nil value"),
        ("require('x')", "p.luau:2: attempt to call a nil value"),
        ("loadstring('x')", "p.luau:2: attempt to call a nil value"),
    ] {
        check(expression, reason(expression).map(Some), expected);
    }
    for (statement, expected) in [
        ("while true do end", "p.luau:1: took more than 10000 steps"),
        ("local function f() return f() + 1 end f()", "p.luau: took more memory than it may"),
        ("local t = {} while true do t[#t + 1] = {} end", "p.luau: took more memory than it may"),
        ("local t = table.create(5000, 1) while true do table.sort(t) end", "p.luau:1: took more than 10000 steps"),
        ("pod.labels.app = 'x'", "p.luau:1: attempt to modify a readonly table"),
        ("node.requested.cpu = 0", "p.luau:1: attempt to modify a readonly table"),
        ("string.rep = nil", "p.luau:1: attempt to modify a readonly table"),
        ("kept = 1", "p.luau:1: attempt to modify a readonly table"),
    ] {
        let mut machine = machine(&format!("function filter(pod, node) {statement} end"));
        check(statement, machine.filter(&a_pod(), &one_node()), expected);
        // The next call has a budget of its own.
        check(statement, machine.filter(&a_pod(), &one_node()), expected);
    }
    // The error of the next call is its own.
    let script = "function filter(pod, node) if pod.name == 'web-2' then local s = 'x' while true do s = s .. s end end error('oops') end";
    let mut full = machine(script);
    check("doubled", full.filter(&a_pod(), &one_node()), "p.luau: took more memory than it may");
    check("after", full.filter(&info(pod("plain", "1", json!({}))), &one_node()), "p.luau:1: oops");
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn scores_are_numbers_in_their_range() {
    let score = |expression: &str| {
        machine(&format!("function score(pod, node) return {expression} end")).score(&a_pod(), &one_node())
    };
    for (expression, expected) in [
        ("0", Ok(0)),
        ("100", Ok(100)),
        ("49.5", Ok(50)),
        ("100 * node.requested.cpu / node.allocatable.cpu", Ok(38)),
        ("100.5", Err("p.luau: score returned 100.5, and not 0 to 100")),
        ("-1", Err("p.luau: score returned -1, and not 0 to 100")),
        ("0/0", Err("p.luau: score returned NaN, and not 0 to 100")),
        ("1/0", Err("p.luau: score returned inf, and not 0 to 100")),
        ("nil", Err("p.luau: score returned a nil, and not a number")),
        ("'50'", Err("p.luau: score returned a string, and not a number")),
    ] {
        assert_eq!(score(expression), expected.map_err(str::to_owned), "{expression}");
    }
}

#[test]
fn a_script_compares_two_pods() {
    let less = |statement: &str| {
        let (small, large) = (info(pod("a", "1", json!({}))), info(pod("b", "2", json!({"priority": 3}))));
        machine(&format!("function less(a, b) {statement} end")).less(&small, &large)
    };
    for (statement, expected) in [
        ("return a.requests.cpu < b.requests.cpu", Ok(true)),
        ("return a.priority > b.priority", Ok(false)),
        ("return", Err("p.luau: less returned a nil, and not a boolean")),
        ("return 1", Err("p.luau: less returned a number, and not a boolean")),
        ("return a.node.x < 1", Err("p.luau:1: attempt to index nil with 'x'")),
        ("while a.name ~= b.name do end return true", Err("p.luau:1: took more than 10000 steps")),
    ] {
        assert_eq!(less(statement), expected.map_err(str::to_owned), "{statement}");
    }
}

#[test]
fn a_script_scales_its_scores_over_all_nodes() {
    let normalize = |statement: &str| {
        let source = format!("function score() return 0 end function normalize(pod, scores) {statement} end");
        let mut scores = [-40, 10, 60];
        machine(&source).normalize(&a_pod(), &mut scores).map(|()| scores)
    };
    for (statement, expected) in [
        ("for at, score in scores do scores[at] = score + 40 end return scores", Ok([0, 50, 100])),
        ("return {0, 49.5, 100}", Ok([0, 50, 100])),
        ("return {0, 1}", Err("p.luau: normalize returned 2 scores for 3 nodes")),
        ("return {0, 'x', 1}", Err("p.luau: normalize returned a string, and not a number")),
        ("return scores", Err("p.luau: normalize returned -40, and not 0 to 100")),
        ("return {0, 0/0, 1}", Err("p.luau: normalize returned NaN, and not 0 to 100")),
        ("", Err("p.luau: normalize returned a nil, and not a table")),
        ("while true do end", Err("p.luau:1: took more than 10000 steps")),
    ] {
        assert_eq!(normalize(statement), expected.map_err(str::to_owned), "{statement}");
    }
    let mut raw =
        machine("function score(pod, node) return -1e9 end function normalize(pod, scores) return scores end");
    assert_eq!(raw.score(&a_pod(), &one_node()), Ok(-1_000_000_000));
    // In a cycle the best node of a range that no node fills gets all points.
    let best = "function score(pod, node) return if node.name == 'b' then -1000 else -5000 end
    function normalize(pod, scores) for at, score in scores do scores[at] = (score + 5000) / 40 end return scores end";
    assert_eq!(cluster(best).schedule(pod("web-1", "1", json!({}))), "web-1 -> b");
    let broken = "function score() return 1e6 end function normalize(pod, scores) return {} end";
    let (mut failed, pod) = (cluster(broken), info(pod("web-1", "1", json!({}))));
    let mut state = CycleState::default();
    let decision = failed.decide(&pod, &mut state).unwrap();
    let reserved = failed.profile.run_reserve(&mut state, &pod, &decision.node).unwrap_err();
    assert_eq!(reserved.reasons, ["p.luau: normalize returned 0 scores for 3 nodes".replace("p.luau", "source")]);
}

#[test]
fn a_bad_script_is_refused_with_line_and_column() {
    for (source, expected) in [
        ("function score(pod)\n  x = = 3\nend", "p.luau:2:7: Expected identifier when parsing expression, got '='"),
        ("function score(pod)\n  return 1", "p.luau:2:11: Expected 'end' (to close 'function' at line 1), got <eof>"),
        ("function filter(pod node) end", "p.luau:1:21: Expected ')' (to close '(' at column 16), got 'node'"),
        ("local x = pod.labels.app", "p.luau:1: attempt to index nil with 'labels'"),
        ("while true do end", "p.luau:1: took more than 10000 steps"),
        ("score = 5", "p.luau: score is a number, and not a function"),
        ("function normalize() end function less() end", "p.luau: defines normalize, but no score"),
        ("function scores() end", "p.luau: defines none of the functions filter, score and less"),
        ("", "p.luau: defines none of the functions filter, score and less"),
    ] {
        assert_eq!(load_error(source), expected, "{source}");
    }
    assert_eq!(load_error(&" ".repeat(300 << 10)), "p.luau: a script has at most 262144 bytes");
}

#[test]
fn tables_follow_the_state_of_a_node() {
    let source = "function filter(pod, node)
      local names = {}
      for _, other in node.pods do table.insert(names, other.name) end
      return table.concat(names, ' ') .. ' ' .. node.requested.cpu .. ' ' .. (node.labels.color or '')
    end";
    let (mut machine, pod_info, mut node_info) = (machine(source), a_pod(), one_node());
    let mut shown = |node: &NodeInfo| machine.filter(&pod_info, node).unwrap().unwrap();
    assert_eq!(shown(&node_info), "db-1 web-1 1.5 ");
    let before = node_info.clone();
    node_info.add_pod(info(pod("cache", "1", json!({}))));
    assert_eq!(shown(&node_info), "cache db-1 web-1 2.5 ");
    node_info.remove_pod("db-1");
    assert_eq!(shown(&node_info), "cache web-1 2 ");
    node_info.set_node(node("n1", "west", json!({"metadata": {"labels": {"color": "red"}}})));
    assert_eq!(shown(&node_info), "cache web-1 2 red");
    assert_eq!(shown(&before), "db-1 web-1 1.5 ");
}

#[test]
fn what_a_script_keeps_does_not_grow_without_end() {
    let source = "local kept = {}
    function score(pod, node) table.insert(kept, string.rep('x', 10000) .. #kept) return #kept % 100 end";
    let mut machine = machine(source);
    let (pod, node) = (a_pod(), one_node());
    let calls: Vec<i64> = (0..4000).map(|_| machine.score(&pod, &node).unwrap()).collect();
    // 40 MB would have been kept.
    assert!(calls.windows(2).any(|pair| pair == [pair[0], 1] && pair[0] != 0), "the script was never loaded again");
}

#[test]
fn two_runs_are_equal() {
    let source = "local seen = {}
    function score(pod, node)
      local sum = 0
      for name, label in node.labels do sum = (sum * 31 + #name * #label) % 97 end
      for name in node.requested do seen[name .. sum] = true end
      for name in seen do sum = (sum * 31 + #name) % 97 end
      return sum
    end";
    let run = || {
        let (mut machine, pod) = (machine(source), a_pod());
        (0..50).map(|_| machine.score(&pod, &one_node()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

fn queued(cpu: &str, priority: i32) -> QueuedPodInfo {
    QueuedPodInfo {
        pod_info: info(pod("web-1", cpu, json!({"priority": priority}))),
        timestamp: Env::simulated(1).now(),
        attempts: 0,
        initial_attempt_timestamp: None,
    }
}

fn profile(script: &Value, sorts: bool) -> Result<ProfileConfiguration, Vec<String>> {
    let mut plugins = json!({"multiPoint": {"enabled": [{"name": "Script", "weight": 100}]}});
    if sorts {
        plugins["queueSort"] = json!({"enabled": [{"name": "Script"}], "disabled": [{"name": "*"}]});
    }
    let value = json!({"schedulerName": "s", "plugins": plugins, "pluginConfig": [{"name": "Script", "args": script}]});
    let mut errors = Vec::new();
    let profile = ProfileConfiguration::read("profiles[0]", &value, &mut errors);
    if errors.is_empty() {
        let mut invalid = Vec::new();
        profile.validate("profiles[0]", &mut invalid);
        errors.extend(invalid.iter().map(ToString::to_string));
    }
    if errors.is_empty() { Ok(profile) } else { Err(errors) }
}

/// Returns a cluster of three nodes whose scheduler has the default plugins and a script.
fn cluster(source: &str) -> TestCluster {
    let mut registry = registry(Objects::default());
    register(&mut registry);
    let configuration = profile(&json!({"source": source}), source.contains("less")).unwrap();
    let nodes = ["a", "b", "c"].map(|name| node(name, name, json!({})));
    TestCluster::with(assemble(&configuration, &registry).unwrap(), nodes)
}

#[test]
fn a_script_takes_part_in_a_cycle() {
    let mut scores = cluster("function score(pod, node) return if node.name == 'b' then 100 else 0 end");
    assert_eq!(scores.schedule(pod("web-1", "1", json!({}))), "web-1 -> b");
    let mut filters = cluster("function filter(pod, node) return node.name == 'c' or 'not c' end");
    assert_eq!(filters.schedule(pod("web-1", "1", json!({}))), "web-1 -> c");
    let mut none = cluster("function filter(pod, node) return #node.pods > 5 or 'too empty' end");
    assert_eq!(none.schedule(pod("web-1", "1", json!({}))), "web-1: 0/3 nodes are available: 3 too empty.");
    let mut fails = cluster("function filter(pod, node) while pod.name == 'bad' do end end");
    let error = "bad: 0/3 nodes are available: 3 source:1: took more than 100000 steps.";
    assert_eq!(fails.schedule(pod("bad", "1", json!({}))), error);
    assert!(fails.schedule(pod("good", "1", json!({}))).starts_with("good -> "));
}

#[test]
fn a_failed_score_is_a_rejection_before_the_binding() {
    let mut cluster = cluster("function score(pod, node) return pod.labels.weight * 2 end");
    let (info, mut state) = (info(pod("web-1", "1", json!({}))), Default::default());
    let decision = cluster.decide(&info, &mut state).unwrap();
    let rejection = cluster.profile.run_reserve(&mut state, &info, &decision.node).unwrap_err();
    assert_eq!(rejection.plugin, "Script");
    assert_eq!(rejection.reasons, ["source:1: attempt to perform arithmetic (mul) on nil and number"]);
}

#[test]
fn a_script_orders_the_queue() {
    let mut cluster = cluster("function less(a, b) return a.requests.cpu < b.requests.cpu end");
    let sort = cluster.profile.queue_sort.clone().unwrap();
    let less = |a: &str, b: &str| sort.less(&queued(a, 0), &queued(b, 0));
    assert_eq!([less("100m", "1"), less("1", "100m"), less("1", "1")], [Ok(true), Ok(false), Ok(false)]);
    assert!(cluster.schedule(pod("web-1", "1", json!({}))).starts_with("web-1 -> "));
    let mut fails = self::cluster("function less(a, b) return a.x.y end");
    let error = "web-1: 0/3 nodes are available: source:1: attempt to index nil with 'y'.";
    assert_eq!(fails.schedule(pod("web-1", "1", json!({}))), error);
}

#[test]
fn bad_arguments_are_refused_with_their_field() {
    let path = "profiles[0].pluginConfig[0].args";
    let range =
        |field: &str, most: i64| format!("{path}.limits.{field}: Invalid value: 0: not in valid range [1, {most}]");
    for (args, expected) in [
        (json!({}), vec![format!("{path}.path: Required value: path or source is required")]),
        (
            json!({"path": "a", "source": "b"}),
            vec![format!("{path}.path: Invalid value: \"a\": may not be given together with source")],
        ),
        (
            json!({"path": "a", "limits": {"steps": 0, "memoryBytes": 0}}),
            vec![range("steps", 10_000_000), range("memoryBytes", 1 << 30)],
        ),
        (json!({"path": "a", "step": 1}), vec![format!("unknown field \"{path}.step\"")]),
        (json!({"kind": "ScriptArgs", "path": "a"}), vec![]),
    ] {
        assert_eq!(profile(&args, false).err().unwrap_or_default(), expected, "{args}");
    }
}

#[test]
fn the_files_of_enabled_scripts_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.luau");
    let args = json!({"path": path});
    let profiles = vec![profile(&args, false).unwrap(), ProfileConfiguration::with_defaults("d")];
    assert_eq!(paths(&Configuration { profiles, ..Configuration::default() }), vec![path.clone()]);
    let made = || {
        let mut registry = Registry::default();
        register(&mut registry);
        registry.get("Script").unwrap()(&args).err().unwrap_or_default()
    };
    assert!(made().starts_with(&format!("reading script {}: No such file", path.display())), "{}", made());
    std::fs::write(&path, "function filter(pod\nend").unwrap();
    assert!(made().starts_with(&format!("{}:2:1: Expected", path.display())), "{}", made());
    std::fs::write(&path, "function filter(pod) end").unwrap();
    assert_eq!(made(), "");
}

#[test]
fn the_example_policies_do_what_they_say() {
    let example = |name: &str| {
        let path = format!("{}/../../labs/policies/scripts/{name}.luau", env!("CARGO_MANIFEST_DIR"));
        cluster(&std::fs::read_to_string(path).unwrap())
    };
    let with = |name: &str, cpu: &str, labels: Value| {
        let mut pod = pod(name, cpu, json!({}));
        pod["metadata"]["labels"] = labels;
        pod
    };
    let mut quiet = example("quiet");
    quiet.cache.set_node(node("c", "c", json!({"metadata": {"labels": {"quiet": "yes"}}})));
    quiet.place(pod("first", "1", json!({})), "b");
    assert_eq!(quiet.schedule(with("loud", "1", json!({}))), "loud -> b");
    quiet.place(pod("second", "3", json!({})), "c");
    assert_eq!(quiet.schedule(with("calm", "1", json!({"quiet": "yes"}))), "calm -> c");

    let mut teams = example("teams");
    for node in ["a", "b"] {
        teams.place(with(&format!("red-{node}"), "1", json!({"team": "red"})), node);
    }
    assert_eq!(teams.schedule(with("red-1", "1", json!({"team": "red"}))), "red-1 -> c");
    let half = "red-2: 0/3 nodes are available: 3 the team has half of the node.";
    assert_eq!(teams.schedule(with("red-2", "1500m", json!({"team": "red"}))), half);

    let mut emptiest = example("emptiest-first");
    for node in ["a", "c"] {
        emptiest.place(pod(&format!("on-{node}"), "1", json!({})), node);
    }
    assert_eq!(emptiest.schedule(pod("next", "1", json!({}))), "next -> b");

    let first = example("small-first").profile.queue_sort.unwrap();
    let less = |a: (&str, i32), b: (&str, i32)| first.less(&queued(a.0, a.1), &queued(b.0, b.1)).unwrap();
    assert!(less(("3", 5), ("1", 0)) && less(("1", 0), ("2", 0)) && !less(("1", 0), ("3", 5)));
}
