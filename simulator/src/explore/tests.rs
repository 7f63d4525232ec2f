//! Tests of scenarios: which files are good, and what a cashier's mistakes need.

use super::fault_scenario::FaultScenario;
use super::minimise::{Play, Seen};
use super::*;
use proto::serializer::yaml;
use serde_json::json;
use std::convert::Infallible;

fn problems(text: &str) -> Vec<String> {
    FaultScenario::read(text).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn every_story_is_well_formed() {
    for (name, _) in stories::STORIES {
        let story = FaultScenario::told_in(name).unwrap();
        assert!(story.faults.is_none() && !story.steps.is_empty(), "{name}");
    }
}

#[test]
fn a_scenario_is_read_as_it_is_written() {
    let told = FaultScenario::of_story("gang", 3).told();
    assert_eq!(FaultScenario::read(&told.text()).unwrap(), told);
}

#[test]
fn every_mistake_of_a_scenario_has_its_path() {
    let text = "
apiVersion: orrery.dev/v1
kind: FaultScenario
steps:
- create: {apiVersion: v1, kind: Pud, metadata: {}}
- until: {object: pods/web, is: object.status.phase = 'Running'}
- delete: {object: web}
- {}
faults:
- crash: {component: scheduler, moment: after, write: create pods, occurrence: 0}
- {}
- drawn: {number: 3}
";
    let found = problems(text);
    let paths: Vec<&str> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
    let expected = [
        "apiVersion",
        "steps[0].create.kind",
        "steps[0].create.metadata.name",
        "steps[1].until.is",
        "steps[2].delete.object",
        "steps[3]",
        "faults[0].crash.occurrence",
        "faults[1]",
        "faults[2]",
    ];
    assert_eq!(paths, expected, "{found:?}");
    let text = "
apiVersion: orrery.dev/v1alpha1
kind: FaultScenario
story: deployment
sead: 3
faults:
- freeze: {component: scheduler, watch: pods, occurrence: 1, for: soon}
- crash: {component: etcd, moment: during, occurrence: 1}
";
    let found = problems(text).join("\n");
    for path in
        ["sead: unknown field", "faults[0].freeze.for: ", "faults[1].crash.component: ", "faults[1].crash.write: "]
    {
        assert!(found.contains(path), "nothing says {path}:\n{found}");
    }
    let text = "{apiVersion: orrery.dev/v1alpha1, kind: FaultScenario, story: job, actions: [{number: 1}]}";
    assert_eq!(problems(text), ["actions: the seed draws no actions in this story: it has steps"]);
    let text = "{apiVersion: orrery.dev/v1alpha1, kind: FaultScenario, story: nothing}";
    assert_eq!(problems(text), ["story: Unsupported value: \"nothing\": see orrery sim explore --list"]);
}

const PAYMENTS: &str = "until configmaps/ledger has size(object.data) == 1";
const CRASH: &str = "{crash: {component: cashier, moment: after, write: patch configmaps, occurrence: 1}}";
const FREEZE: &str = "{freeze: {component: cashier, watch: configmaps, occurrence: 4}}";
const SWAP: &str = "{swap: {component: cashier, watch: secrets, occurrence: 1}}";

fn fault(text: &str) -> Fault {
    serde_json::from_value(yaml::parse(text.as_bytes()).unwrap().value).unwrap()
}

fn scenario(story: &str, faults: &[&str]) -> FaultScenario {
    let faults = faults.iter().map(|text| fault(text)).collect();
    FaultScenario { faults: Some(faults), ..FaultScenario::of_story(story, 1) }
}

/// A frozen watch shows stale state: the order is not yet paid. A controller that relies on the order of two watches is found
/// when a pair of deliveries is swapped. A test of the whole program tries the crash.
#[test]
fn planted_mistakes_are_found_at_the_points_that_show_them() {
    for (story, text, promise) in [
        ("cashier-pays-again", FREEZE, Some(PAYMENTS)),
        (
            "cashier-rejects",
            SWAP,
            Some("until configmaps/order-1 has 'cashier.example.com/paid' in object.metadata.annotations"),
        ),
        ("cashier", CRASH, None),
    ] {
        let run = play(&scenario(story, &[text]));
        assert_eq!(run.trace.promise.as_deref(), promise, "{story} {text}: {:?}", run.trace.reached);
        assert_eq!(run.trace.reached.len(), 1, "{story} {text}");
        let point = run.trace.points.iter().find(|point| point.fault() == fault(text));
        assert!(text == FREEZE || point.is_some(), "{story} {text} is no point");
    }
}

/// Plays a model of the story: nothing is paid without a ledger, a customer and an order, and it is paid twice after a crash.
fn modelled(scenario: &FaultScenario) -> Option<String> {
    let text = json!(scenario.told().steps).to_string();
    let crashes = scenario.faults.iter().flatten().any(|one| *one == fault(CRASH));
    let is_paid =
        ["\"ledger\"", "\"ada\"", "\"order-1\""].iter().all(|name| text.contains(&format!("\"name\":{name}")));
    let waits = text.contains("40s") || text.contains("/paid");
    (text.contains("size(") && (!is_paid || crashes && waits)).then(|| PAYMENTS.to_owned())
}

/// Plays by a model.
struct Model<F>(F);

impl<F: Fn(&FaultScenario) -> Option<String>> Play for Model<F> {
    type Error = Infallible;

    fn play(&self, scenarios: &[FaultScenario], seen: &mut Seen<'_, Infallible>) -> Result<(), Infallible> {
        for (place, scenario) in scenarios.iter().enumerate() {
            if seen(place, self.0(scenario))?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Of three faults and seven steps, those are left without which nothing is paid twice.
#[test]
fn a_failing_scenario_shrinks_to_what_it_needs() {
    let freeze = "{freeze: {component: scheduler, watch: nodes, occurrence: 1, for: 5s}}";
    let failing = scenario("cashier-pays-again", &[freeze, CRASH, SWAP]);
    let minimised = minimise::minimise(&failing, &Model(modelled)).unwrap();
    let least = minimised.scenario;
    assert_eq!(least.faults, Some(vec![fault(CRASH)]));
    assert_eq!((least.promise.as_deref(), least.steps.len()), (Some(PAYMENTS), 5), "{}", least.text());
    assert!(!least.text().contains("prices"), "{}", least.text());
    assert_eq!(FaultScenario::read(&least.text()).unwrap(), least);
    assert!(minimised.runs < 120, "{} runs", minimised.runs);
}

/// Of five drawn faults and twelve actions, one fault matters after two of the actions. The last action alone breaks the same
/// promise, so the two are not left out for its sake.
#[test]
fn a_failing_scenario_with_drawn_faults_shrinks_to_faults_and_actions() {
    let drawn = |number| Drawn { number, ..Drawn::default() };
    let faults = (1..=5).map(|number| Fault { drawn: Some(drawn(number)), ..Fault::default() }).collect();
    let failing = FaultScenario {
        faults: Some(faults),
        actions: Some((1..=12).map(drawn).collect()),
        ..FaultScenario::of_story("survive", 1)
    };
    let promise = |scenario: &FaultScenario| {
        let has_fault = |number| scenario.faults.iter().flatten().any(|fault| fault.drawn == Some(drawn(number)));
        let takes = |number| scenario.actions.iter().flatten().any(|action| *action == drawn(number));
        let is_broken = has_fault(4) && takes(3) && takes(8) || takes(12) && !takes(8);
        is_broken.then(|| "quotas".to_owned())
    };
    let least = minimise::minimise(&failing, &Model(promise)).unwrap().scenario;
    assert_eq!(least.faults, Some(vec![Fault { drawn: Some(drawn(4)), ..Fault::default() }]));
    assert_eq!(least.actions, Some(vec![drawn(3), drawn(8)]));
    assert_eq!(FaultScenario::read(&least.text()).unwrap(), least);
}

#[test]
fn only_a_scenario_that_fails_because_of_its_faults_is_shrunk() {
    let failed = |scenario: &FaultScenario, promise: fn(&FaultScenario) -> Option<String>| {
        minimise::minimise(scenario, &Model(promise)).unwrap_err().to_string()
    };
    let named = scenario("cashier", &[CRASH]);
    assert_eq!(failed(&named, |_| None), "the scenario keeps every promise");
    let always = failed(&named, |_| Some("quotas".to_owned()));
    assert_eq!(always, "the scenario breaks a promise without its faults: quotas");
    let unnamed = failed(&FaultScenario::of_story("survive", 1), |_| None);
    assert!(unnamed.starts_with("the scenario does not name its faults"), "{unnamed}");
}
