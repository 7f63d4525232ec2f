//! Tests the validation of arguments: cases from the documentation of KubeSchedulerConfiguration v1.

use super::*;

/// Returns what is wrong with the arguments.
fn errors(plugin: &str, value: &Value) -> Vec<String> {
    let mut unreadable = Vec::new();
    let args = read(plugin, "args", value, &mut unreadable);
    let mut invalid = Vec::new();
    validate(plugin, "args", &args, &mut invalid);
    unreadable.into_iter().chain(invalid.iter().map(ToString::to_string)).collect()
}

fn check(plugin: &str, table: impl IntoIterator<Item = (Value, &'static [&'static str])>) {
    for (value, expected) in table {
        assert_eq!(errors(plugin, &value), expected, "{plugin}: {value}");
    }
}

const AT_ONCE: [&str; 2] = [
    "args.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
    "args.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage",
];

#[test]
fn preemption_affinity_and_volumes() {
    let table: [(Value, &'static [&'static str]); 4] = [
        (json!({}), &[]),
        (json!({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}), &AT_ONCE),
        (
            json!({"minCandidateNodesPercentage": 101}),
            &["args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]"],
        ),
        (
            json!({"minCandidateNodesAbsolute": -1}),
            &["args.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)"],
        ),
    ];
    check("DefaultPreemption", table);
    let weight: &'static [&'static str] =
        &["args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"];
    check("InterPodAffinity", [(json!({"hardPodAffinityWeight": 101}), weight)]);
    let volumes: &'static [&'static str] =
        &["args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"];
    check("VolumeBinding", [(json!({"bindTimeoutSeconds": -1}), volumes)]);
    let devices: &'static [&'static str] = &[
        r#"args.filterTimeout: Invalid value: "-1s": must be zero or positive"#,
        r#"args.bindingTimeout: Invalid value: "500ms": must be at least 1 second"#,
    ];
    check("DynamicResources", [(json!({"filterTimeout": "-1s", "bindingTimeout": "500ms"}), devices)]);
}

#[test]
fn node_affinity() {
    let required = |expression: Value| {
        json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [expression]}]}}})
    };
    const PATH: &str = "args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]\
                        .matchExpressions[0]";
    for (expression, expected) in [
        (json!({"key": "zone", "operator": "In", "values": ["a"]}), None),
        (
            json!({"key": "zone", "operator": "In"}),
            Some(".values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
        ),
        (
            json!({"key": "zone", "operator": "Exists", "values": ["a"]}),
            Some(r#".values: Invalid value: ["a"]: values set must be empty for exists and does not exist"#),
        ),
        (
            json!({"key": "cores", "operator": "Gt", "values": ["many"]}),
            Some(r#".values[0]: Invalid value: "many": for 'Gt', 'Lt' operators, the value must be an integer"#),
        ),
        (
            json!({"key": "zone", "operator": "Like"}),
            Some(
                r#".operator: Unsupported value: "Like": supported values: "DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn""#,
            ),
        ),
    ] {
        let expected: Vec<String> = expected.iter().map(|why| format!("{PATH}{why}")).collect();
        assert_eq!(errors("NodeAffinity", &required(expression)), expected);
    }
}

#[test]
fn scoring_strategies() {
    let strategy = |value: Value| json!({"scoringStrategy": value});
    let shape = |points: Value| {
        strategy(json!({"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points}}))
    };
    let table: [(Value, &'static [&'static str]); 8] = [
        (strategy(json!({"type": "MostAllocated"})), &[]),
        (
            strategy(json!({"type": "Fullest"})),
            &[
                r#"args.scoringStrategy.type: Unsupported value: "Fullest": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio""#,
            ],
        ),
        (
            strategy(
                json!({"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}, {"name": "memory"}]}),
            ),
            &[
                "args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
            ],
        ),
        (
            strategy(json!({"type": "RequestedToCapacityRatio"})),
            &["args.scoringStrategy.requestedToCapacityRatio: Required value"],
        ),
        (shape(json!([])), &["args.scoringStrategy.shape: Required value: at least one point must be specified"]),
        (
            shape(json!([{"utilization": 50, "score": 11}, {"utilization": 50, "score": 1}])),
            &[
                "args.scoringStrategy.shape[1].utilization: Invalid value: 50: utilization values must be sorted in increasing order",
                "args.scoringStrategy.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
            ],
        ),
        (
            json!({"ignoredResourceGroups": ["example.com/gpu"]}),
            &[
                r#"args.ignoredResourceGroups[0]: Invalid value: "example.com/gpu": resource group name can't contain '/'"#,
            ],
        ),
        (json!({"ignoredResources": ["example.com/gpu"]}), &[]),
    ];
    check("NodeResourcesFit", table);
    let twice: &'static [&'static str] =
        &[r#"args.resources[1].name: Duplicate value: "cpu""#, "args.resources[1].weight: Invalid value: 2: must be 1"];
    let resources = json!({"resources": [{"name": "cpu"}, {"name": "cpu", "weight": 2}]});
    check("NodeResourcesBalancedAllocation", [(resources, twice)]);
}

#[test]
fn spread_constraints() {
    let list = |constraints: Value| json!({"defaultingType": "List", "defaultConstraints": constraints});
    let zone = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    let wrong = json!({"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Never", "labelSelector": {}});
    let table: [(Value, &'static [&'static str]); 5] = [
        (list(json!([zone])), &[]),
        (list(json!([zone, zone])), &[r#"args.defaultConstraints[1]: Duplicate value: "{zone, DoNotSchedule}""#]),
        (
            json!({"defaultConstraints": [zone]}),
            &[r#"args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty"#],
        ),
        (
            json!({"defaultingType": "Mine"}),
            &[r#"args.defaultingType: Unsupported value: "Mine": supported values: "System", "List""#],
        ),
        (
            list(json!([wrong])),
            &[
                "args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "args.defaultConstraints[0].topologyKey: Required value: can not be empty",
                r#"args.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway""#,
                "args.defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod",
            ],
        ),
    ];
    check("PodTopologySpread", table);
}

#[test]
fn fields_and_kinds_are_strict() {
    let unknown = json!({"scoringStrategy": {"type": "MostAllocated", "resource": []}, "ignored": []});
    assert_eq!(
        errors("NodeResourcesFit", &unknown),
        [r#"unknown field "args.ignored""#, r#"unknown field "args.scoringStrategy.resource""#]
    );
    let kind = json!({"apiVersion": API_VERSION, "kind": "NodeAffinityArgs"});
    assert_eq!(errors("NodeAffinity", &kind), [""; 0]);
    assert_eq!(
        errors("VolumeBinding", &kind),
        [r#"args.kind: args for plugin VolumeBinding want "VolumeBindingArgs", and not "NodeAffinityArgs""#]
    );
    let wrong = errors("VolumeBinding", &json!({"bindTimeoutSeconds": "long"}));
    assert!(wrong[0].starts_with("args.bindTimeoutSeconds: invalid type: string"), "{wrong:?}");
    assert_eq!(errors("Mine", &json!({"anything": 1})), [""; 0], "a plugin of another crate checks its own");
}
