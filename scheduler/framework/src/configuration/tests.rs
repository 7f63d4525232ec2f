//! Tests the reading of whole configurations.

use super::*;

fn read(fields: Value) -> Result<Configuration, Vec<String>> {
    let Value::Object(mut fields) = fields else { panic!("want an object") };
    Configuration::read(&OWN_FIELDS.iter().filter_map(|name| Some((*name, fields.remove(*name)?))).collect())
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(read(json!({})).unwrap(), Configuration::default());
    assert_eq!(read(json!({"profiles": []})).unwrap(), Configuration::default());
    assert_eq!(read(json!({"profiles": [{}]})).unwrap(), Configuration::default());
}

#[test]
fn a_profile_has_defaults_for_what_it_does_not_say() {
    let profiles = json!([
        {"schedulerName": "a", "percentageOfNodesToScore": 30, "tieBreak": "RoundRobin"},
        {"schedulerName": "b", "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 9}}]},
    ]);
    let configuration = read(json!({"profiles": profiles, "podMaxBackoffSeconds": 60})).unwrap();
    assert_eq!(configuration.pod_max_backoff_seconds, 60);
    let [a, b] = &configuration.profiles[..] else { panic!("{configuration:?}") };
    assert_eq!((a.percentage_of_nodes_to_score, a.tie_break), (Some(30), profile::TieBreak::RoundRobin));
    let weight = |profile: &ProfileConfiguration| profile.args_of("InterPodAffinity")["hardPodAffinityWeight"].clone();
    assert_eq!((weight(a), weight(b)), (json!(1), json!(9)));
    let ignored = json!(false);
    assert_eq!(b.args_of("InterPodAffinity")["ignorePreferredTermsOfExistingPods"], ignored);
    assert_eq!(a.plugins, default_plugins::default_plugins());
}

#[test]
fn gates_add_plugins_that_the_file_does_not_disable() {
    let disabled =
        |name: &str| json!({"schedulerName": name, "plugins": {"multiPoint": {"disabled": [{"name": name}]}}});
    let profiles = json!([{"schedulerName": "a"}, disabled("*"), disabled("GangScheduling")]);
    let has_gangs = |features: &Features| {
        let configuration = read(json!({"profiles": profiles.clone()})).unwrap().with_features(features.clone());
        let one = |profile: &ProfileConfiguration| profile.plugins.names().contains("GangScheduling");
        configuration.profiles.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(has_gangs(&Features::default()), [false; 3]);
    let gates = [("GenericWorkload".to_owned(), true), ("GangScheduling".to_owned(), true)];
    assert_eq!(has_gangs(&Features::of(&gates.into())), [true, false, false]);
}

#[test]
fn a_gate_lets_volume_binding_score() {
    let gates = [("StorageCapacityScoring".to_owned(), true)];
    let read = |shape: Value, gates: &[(String, bool)]| {
        let args = match shape {
            Value::Null => json!({}),
            shape => json!({"shape": shape}),
        };
        let profiles = json!([{"pluginConfig": [{"name": "VolumeBinding", "args": args}]}]);
        let features = Features::of(&gates.iter().cloned().collect());
        let read = Configuration::read_for(&BTreeMap::from([("profiles", profiles)]), features)?;
        Ok::<_, Vec<String>>(read.profiles[0].args_of("VolumeBinding")["shape"].clone())
    };
    let given = json!([{"utilization": 0, "score": 5}, {"utilization": 50, "score": 10}]);
    let usual = json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]);
    assert_eq!(read(given.clone(), &gates).unwrap(), given);
    assert_eq!(read(json!([]), &gates).unwrap(), usual);
    assert_eq!(read(json!(null), &gates).unwrap(), usual);
    assert_eq!(read(json!(null), &[]).unwrap(), json!(null));
    let path = "profiles[0].pluginConfig[0].args.shape";
    let why = read(json!([{"utilization": 101, "score": 5}]), &gates).unwrap_err();
    assert_eq!(why, [format!("{path}[0].utilization: Invalid value: 101: not in valid range [0, 100]")]);
    let why = read(json!([]), &[]).unwrap_err();
    let unexpected = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
    assert_eq!(why, [format!("{path}: Invalid value: []: {unexpected}")]);
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let unknown = json!({
        "profiles": [
            {"plugin": {}, "plugins": {"scor": {}, "score": {"enabled": [{"name": "A", "wait": 1}]}}},
            {"pluginConfig": [{"name": "NodeAffinity", "args": {"added": {}}}]},
        ],
        "extenders": [{"urlprefix": "http://127.0.0.1"}],
    });
    let expected = [
        r#"unknown field "extenders[0].urlprefix""#,
        r#"unknown field "profiles[0].plugin""#,
        r#"unknown field "profiles[0].plugins.scor""#,
        r#"unknown field "profiles[0].plugins.score.enabled[0].wait""#,
        r#"unknown field "profiles[1].pluginConfig[0].args.added""#,
    ];
    let mut errors = read(unknown).unwrap_err();
    errors.sort();
    assert_eq!(errors, expected);

    let types = json!({
        "profiles": [
            {"plugins": {"score": {"enabled": [{"name": "A"}, {"name": "B", "weight": "x"}]}}},
            {"plugins": {"multiPoint": {"enabled": [{"name": "A", "weight": 3_000_000_000_u32}]}}},
        ],
        "extenders": [{"weight": [1]}],
    });
    let mut errors = read(types).unwrap_err();
    errors.sort();
    let expected = [
        "extenders[0].weight: invalid type: sequence, expected i64",
        "profiles[0].plugins.score.enabled[1].weight: invalid type: string \"x\", expected i32",
        "profiles[1].plugins.multiPoint.enabled[0].weight: invalid value: integer `3000000000`, expected i32",
    ];
    assert_eq!(errors, expected);

    let fit = |kind: &str| json!({"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": kind}}});
    let sort = json!({"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Mine"}]}});
    let invalid = json!({
        "parallelism": 0,
        "percentageOfNodesToScore": 101,
        "podInitialBackoffSeconds": 0,
        "podMaxBackoffSeconds": -1,
        "profiles": [
            {"schedulerName": "a", "pluginConfig": [fit("Fullest"), fit("MostAllocated")]},
            {"schedulerName": "a", "percentageOfNodesToScore": -1},
            {"plugins": sort},
        ],
        "extenders": [
            {"prioritizeVerb": "prioritize", "bindVerb": "bind", "managedResources": [{"name": "example.com/gpu"}]},
            {"bindVerb": "bind", "managedResources": [{"name": "example.com/gpu"}, {"name": "cpu"}]},
        ],
    });
    let errors = read(invalid).unwrap_err();
    let starts = [
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
        r#"profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Fullest": "#,
        r#"profiles[0].pluginConfig[1]: Duplicate value: "NodeResourcesFit""#,
        "profiles[1].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        r#"profiles[1].schedulerName: Duplicate value: "profiles[0].schedulerName""#,
        "profiles[2].schedulerName: Required value",
        "profiles[2].plugins.queueSort: Invalid value: ",
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        "podMaxBackoffSeconds: Invalid value: -1: must be greater than or equal to PodInitialBackoffSeconds",
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        r#"extenders[1].managedResources[0].name: Invalid value: "example.com/gpu": duplicate extender managed resource name"#,
        r#"extenders[1].managedResources[1].name: Invalid value: "cpu": is an invalid extended resource name"#,
        r#"extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind"#,
    ];
    assert_eq!(errors.len(), starts.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error}, and not {start}");
    }
}

#[test]
fn arguments_of_a_queue_sort_that_differ_are_named_with_their_place() {
    let profile = |name: &str, source: &str| {
        let script = json!({"name": "Script", "args": {"source": source}});
        let fit = json!({"name": "NodeResourcesFit"});
        let sort = json!({"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Script"}]}});
        json!({"schedulerName": name, "plugins": sort, "pluginConfig": [fit, script]})
    };
    assert!(read(json!({"profiles": [profile("a", "1"), profile("b", "1")]})).is_ok());
    let errors = read(json!({"profiles": [profile("a", "1"), profile("b", "2")]})).unwrap_err();
    let [error] = &errors[..] else { panic!("one error: {errors:?}") };
    assert!(error.starts_with("profiles[1].pluginConfig[1].args: Invalid value: "), "{error}");
    assert!(error.ends_with("queueSort args must be the same for all profiles"), "{error}");
}

#[test]
fn fields_without_effect_are_named() {
    let named = |value: bool| {
        let fields = ["delayCacheUntilActive", "enableProfiling", "enableContentionProfiling", "podMaxBackoffSeconds"];
        let fields: BTreeMap<_, _> = fields.into_iter().map(|name| (name, json!(value))).collect();
        Configuration::without_effect(&fields).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(named(true), "enableProfiling enableContentionProfiling");
    assert_eq!(named(false), "delayCacheUntilActive");
    let fields = BTreeMap::from([("parallelism", json!(4))]);
    assert_eq!(Configuration::without_effect(&fields).collect::<Vec<_>>(), ["parallelism"]);
}
