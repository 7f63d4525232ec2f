//! Tests that gates are refused, warned about and accepted as by the originals.

use super::table::{KUBERNETES, LIBRARIES};
use super::*;
use std::collections::BTreeSet;

/// Returns the error or the warnings of a command line.
fn outcome(component: &str, notation: Notation, values: &[&str]) -> Result<Vec<String>, String> {
    check(component, &parse(values.iter().copied(), notation)?)
}

fn no_effect(component: &str, gate: &str) -> String {
    format!("--feature-gates: {gate} is accepted as by {component}, and has no effect here")
}

#[test]
fn a_wrong_gate_is_refused_in_the_originals_words() {
    use Notation::{Grouped, Plain};
    let mixed = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
    for (component, notation, values, expected) in [
        ("kube-apiserver", Grouped, &["NoSuchGate=true"][..], "unrecognized feature gate: NoSuchGate"),
        ("kube-apiserver", Grouped, &["WatchList=true,noSuchGate=true"], "unrecognized feature gate: noSuchGate"),
        (
            "kube-apiserver",
            Grouped,
            &["SidecarContainers=false"],
            "cannot set feature gate SidecarContainers to false, feature is locked to true",
        ),
        (
            "kubelet",
            Plain,
            &["GitRepoVolumeDriver=true"],
            "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
        ),
        (
            "kubelet",
            Plain,
            &["NodeSwap=false", "KubeletTracing=false"],
            "[cannot set feature gate KubeletTracing to false, feature is locked to true, cannot set feature gate \
             NodeSwap to false, feature is locked to true]",
        ),
        (
            "kube-apiserver",
            Grouped,
            &["WatchList=perhaps"],
            "invalid value of WatchList=perhaps, err: strconv.ParseBool: parsing \"perhaps\": invalid syntax",
        ),
        (
            "kubelet",
            Plain,
            &["WatchList=yes"],
            "invalid value of WatchList: yes, err: strconv.ParseBool: parsing \"yes\": invalid syntax",
        ),
        ("kube-scheduler", Grouped, &["WatchList"], "missing bool value for WatchList"),
        ("kube-proxy", Plain, &["WatchList"], "malformed pair, expect string=bool"),
        ("kube-scheduler", Grouped, &["batch:WatchList=true"], "component not registered: batch"),
        ("kube-scheduler", Grouped, &["kube:WatchList=true", "AllBeta=true"], mixed),
        // Only components with grouped gates accept a group.
        ("kubelet", Plain, &["kube:WatchList=true"], "unrecognized feature gate: kube:WatchList"),
        (
            "kube-scheduler",
            Grouped,
            &["ControllerManagerReleaseLeaderElectionLockOnExit=true"],
            "unrecognized feature gate: ControllerManagerReleaseLeaderElectionLockOnExit",
        ),
        (
            "cloud-controller-manager",
            Plain,
            &["SidecarContainers=true"],
            "unrecognized feature gate: SidecarContainers",
        ),
        (
            "kube-scheduler",
            Grouped,
            &["GangScheduling=true"],
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        (
            "kube-apiserver",
            Grouped,
            &["APIServerIdentity=false"],
            "UnknownVersionInteroperabilityProxy is enabled, but depends on features that are disabled: \
             [APIServerIdentity]",
        ),
    ] {
        assert_eq!(outcome(component, notation, values).unwrap_err(), expected, "{component} {values:?}");
    }
}

#[test]
fn a_known_gate_is_accepted_and_warned_of_where_it_asks_for_a_difference() {
    let leaving =
        |what: &str, gate: &str| format!("Setting {what} feature gate {gate}. It will be removed in a future release.");
    for (component, values, expected) in [
        ("kube-apiserver", &["", "WatchList=true,"][..], vec![]),
        ("kube-apiserver", &["kube:WatchList=true,kube:OpenAPIEnums=1"], vec![]),
        ("kube-apiserver", &["OpenAPIEnums=false"], vec![no_effect("kube-apiserver", "OpenAPIEnums=false")]),
        // The later one counts.
        ("kube-apiserver", &["WatchList=false", " WatchList = T "], vec![]),
        ("kube-scheduler", &["AllAlpha=true"], vec![no_effect("kube-scheduler", "AllAlpha=true")]),
        ("kube-scheduler", &["AllAlpha=false,AllBeta=false"], vec![]),
        ("kube-scheduler", &["GangScheduling=true,GenericWorkload=true"], vec![]),
        ("kube-apiserver", &["SidecarContainers=true"], vec![leaving("GA", "SidecarContainers=true")]),
        (
            "kube-apiserver",
            &["KMSv1=true"],
            vec![leaving("deprecated", "KMSv1=true"), no_effect("kube-apiserver", "KMSv1=true")],
        ),
        (
            "kube-controller-manager",
            &["ControllerManagerReleaseLeaderElectionLockOnExit=false,CloudControllerManagerWebhook=false"],
            vec![],
        ),
    ] {
        assert_eq!(outcome(component, Notation::Grouped, values), Ok(expected), "{component} {values:?}");
    }
}

/// A gate's own value wins over `AllAlpha` and `AllBeta`, in any order.
#[test]
fn many_gates_change_at_once_and_are_checked_together() {
    let wrong = outcome("kube-apiserver", Notation::Grouped, &["AllBeta=true,PodLevelResources=false"]).unwrap_err();
    let lacks = "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: \
                 [PodLevelResources]";
    assert!(wrong.contains(lacks), "{wrong}");
    let right = ["AllBeta=true,PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false"];
    assert_eq!(outcome("kube-apiserver", Notation::Grouped, &right).unwrap().len(), 1, "one has no effect as a whole");
    let both = outcome("kube-apiserver", Notation::Grouped, &["AllAlpha=true,AllBeta=true"]);
    assert_eq!(both.unwrap().len(), 2);
}

#[test]
fn a_gate_that_switches_something_is_no_cause_for_a_warning() {
    let asked = |values: &str| parse([values], Notation::Grouped).unwrap();
    let scale_to_zero = |component: &str, values: &str| is_on(component, &asked(values), "HPAScaleToZero");
    assert_eq!(outcome("kube-apiserver", Notation::Grouped, &["HPAScaleToZero=true"]), Ok(vec![]));
    let elsewhere = outcome("kube-controller-manager", Notation::Grouped, &["HPAScaleToZero=true"]);
    assert_eq!(elsewhere, Ok(vec![no_effect("kube-controller-manager", "HPAScaleToZero=true")]));
    for (values, expected) in [
        ("", false),
        ("HPAScaleToZero=true", true),
        ("AllAlpha=true", true),
        ("AllAlpha=true,HPAScaleToZero=false", false),
        ("AllBeta=true", false),
    ] {
        assert_eq!(scale_to_zero("kube-apiserver", values), expected, "{values}");
    }
    let on = enabled("kube-apiserver", &asked("HPAScaleToZero=true,WatchList=false"));
    assert!(on.contains("HPAScaleToZero") && !on.contains("WatchList") && on.contains("SidecarContainers"));
}

/// Returns the page about gates: those that switch something, and then the names of the others.
fn page() -> String {
    let all: BTreeMap<&str, &Gate> = LIBRARIES.iter().chain(KUBERNETES).map(|gate| (gate.name, gate)).collect();
    let mut page = PREFACE.to_owned();
    let stage = |gate: &Gate| format!("{:?}", gate.stage);
    let value = |gate: &Gate| if gate.default { "on" } else { "off" };
    let is_switch = |gate: &&&Gate| {
        [gate.serves, gate.controls, gate.schedules, gate.everywhere].iter().any(|switched| !switched.is_empty())
    };
    for gate in all.values().filter(is_switch) {
        let components = [API_SERVER, CONTROLLER_MANAGER, SCHEDULER];
        let in_each = components.map(|component| (format!("`{component}`"), gate.switches_in(component)));
        let everywhere = vec![("every component".to_owned(), gate.everywhere)];
        let switched = if gate.everywhere.is_empty() { in_each.into() } else { everywhere };
        for (component, what) in switched.iter().filter(|(_, what)| !what.is_empty()) {
            page += &format!("| `{}` | {} | {} | {component} | {what} |\n", gate.name, stage(gate), value(gate));
        }
    }
    page += OTHERS;
    for gate in all.values().filter(|gate| !is_switch(gate)) {
        let locked = if gate.is_locked { ", locked" } else { "" };
        page += &format!("| `{}` | {} | {}{locked} |\n", gate.name, stage(gate), value(gate));
    }
    page
}

const PREFACE: &str = "\
# Feature gates

`--feature-gates` of each component knows the gates of Kubernetes v1.36, their stages and their defaults, and refuses an unknown
name, a value for a gate that is locked, and a gate without those that it needs. The table is
`component-base/src/options/feature_gates/table.rs`; a test compares it with this page.

## Gates that switch something here

A field whose gate is off is dropped when an object is created or updated, unless the stored object has it already
(`apiserver/strategy/src/gates.rs`).

    $ orrery up --apiserver-arg=feature-gates=MaxUnavailableStatefulSet=true
    $ kubectl apply -f web.yaml
    statefulset.apps/web created
    $ kubectl get statefulset web -o jsonpath='{.spec.updateStrategy.rollingUpdate}'
    {\"maxUnavailable\":2,\"partition\":0}

Without the flag, the last line is `{\"partition\":0}`.

| gate | stage | default | switches in | what |
|---|---|---|---|---|
";

const OTHERS: &str = "
## Gates without effect

A component accepts these, and logs a warning when one gets another value than its default.

| gate | stage | default |
|---|---|---|
";

#[test]
fn the_page_about_gates_is_true() {
    assert_eq!(include_str!("../../../../docs/feature-gates.md"), page());
}

#[test]
fn every_gate_stands_once_and_needs_gates_that_are_there() {
    let all: Vec<&Gate> = LIBRARIES.iter().chain(KUBERNETES).collect();
    let names: BTreeSet<&str> = all.iter().map(|gate| gate.name).collect();
    assert_eq!(names.len(), all.len());
    // The programs' help shows 150 gates that are alpha or beta.
    let is_shown = |gate: &&&Gate| matches!(gate.stage, Stage::Alpha | Stage::Beta);
    assert_eq!(all.iter().filter(is_shown).count(), 150);
    for gate in all {
        assert!(gate.needs.iter().all(|needed| names.contains(needed)), "{}", gate.name);
        assert!(gate.stage != Stage::Alpha || !gate.default && !gate.is_locked, "{}", gate.name);
    }
    // The defaults are consistent.
    for component in ["kube-apiserver", "kube-scheduler", CLOUD_CONTROLLER_MANAGER] {
        assert_eq!(check(component, &GateValues::new()), Ok(vec![]));
    }
}
