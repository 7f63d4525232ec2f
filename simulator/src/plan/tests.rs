//! Tests of what a plan counts, and of when its faults happen.

use super::fault::{Crash, Freeze, Moment, Swap};
use super::*;
use component_base::env::Env;
use http::Method;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn write(plan: &mut FaultPlan, caller: Part, method: &Method, path: &str) -> Option<Moment> {
    plan.write(caller, &RequestInfo::of(method, path, ""))
}

#[test]
fn writes_are_counted_up_to_the_chosen_one() {
    let mut plan = FaultPlan::new(&[], Some("after-2".parse().unwrap()));
    let mut request = |method: &Method, path: &str| write(&mut plan, Part::ControllerManager, method, path);
    assert_eq!(request(&Method::POST, PODS), None, "the first write");
    assert_eq!(request(&Method::GET, PODS), None, "no write");
    assert_eq!(request(&Method::POST, "/api/v1/namespaces/default/events"), None, "nothing depends on it");
    assert_eq!(request(&Method::DELETE, &format!("{PODS}/p")), Some(Moment::After));
    assert_eq!(request(&Method::DELETE, &format!("{PODS}/q")), None, "only once");
    assert_eq!(plan.writes(), 3);
    assert_eq!(plan.reached(), [format!("controller-manager is killed after-2: delete {PODS}/p")]);
}

#[test]
fn a_crash_is_found_by_the_occurrence_of_its_write() {
    let (component, moment) = (Part::Scheduler, Moment::Before);
    let crash = Crash { component, moment, write: "create pods/binding".to_owned(), occurrence: 2 };
    let mut plan = FaultPlan::new(&[Fault { crash: Some(crash), ..Fault::default() }], None);
    let binding = format!("{PODS}/p/binding");
    assert_eq!(write(&mut plan, component, &Method::POST, &binding), None, "the first one");
    assert_eq!(write(&mut plan, Part::Nodes, &Method::POST, &binding), None, "another component");
    assert_eq!(write(&mut plan, component, &Method::POST, PODS), None, "another write");
    assert_eq!(write(&mut plan, component, &Method::POST, &binding), Some(moment));
    let expected = format!("scheduler crashes before its create pods/binding number 2: create {binding}");
    assert_eq!(plan.reached(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn deliveries_are_held_back_and_become_points() {
    let (component, now) = (Part::Scheduler, Env::simulated(1).now());
    let freeze = Freeze { component, watch: "pods".to_owned(), occurrence: 2, how_long: None };
    let swap = Swap { component, watch: "nodes".to_owned(), occurrence: 1 };
    let faults = [Fault { freeze: Some(freeze), ..Fault::default() }, Fault { swap: Some(swap), ..Fault::default() }];
    let mut plan = FaultPlan::new(&faults, None);
    let holds = [("pods", 5), ("nodes", 6), ("pods", 7), ("pods", 8)]
        .map(|(watch, revision)| plan.delivery(component, watch, revision, now));
    assert_eq!(holds, [None, Some(Hold::Swap), Some(Hold::Freeze(FROZEN_FOR)), None]);
    assert_eq!(plan.delivery(component, "nodes", 9, now + SWAP_LIMIT), None);
    let names: Vec<String> = plan.points().iter().map(Point::to_string).collect();
    // The third delivery is followed by one of the same watch, and the fourth by one that comes too late.
    assert_eq!(names, ["freeze-1", "freeze-2", "freeze-3", "freeze-4", "freeze-5", "swap-1", "swap-2"]);
}

#[test]
fn a_point_names_the_moment_of_its_fault() {
    let mut plan = FaultPlan::new(&[], None);
    write(&mut plan, Part::Nodes, &Method::POST, PODS);
    write(&mut plan, Part::Scheduler, &Method::POST, PODS);
    let points = plan.points();
    let again = write(&mut FaultPlan::new(&[points[3].fault()], None), Part::Scheduler, &Method::POST, PODS);
    assert_eq!((points[3].to_string().as_str(), again), ("crash-after-2", Some(Moment::After)));
}

#[test]
fn nothing_is_counted_before_the_story_begins() {
    let mut plan = FaultPlan::default();
    assert_eq!(write(&mut plan, Part::Scheduler, &Method::POST, PODS), None);
    assert_eq!((plan.writes(), plan.points()), (0, Vec::new()));
}

#[test]
fn watches_have_names() {
    let name = |query: &str, partial| watch_name(&RequestInfo::of(&Method::GET, "/api/v1/pods", query), partial);
    assert_eq!(name("watch=true", false).as_deref(), Some("pods"));
    assert_eq!(name("watch=true", true).as_deref(), Some("pods (metadata)"));
    let selected = "watch=true&fieldSelector=spec.nodeName%3Dnode-0";
    assert_eq!(name(selected, false).as_deref(), Some("pods with spec.nodeName=node-0"));
    let leases = RequestInfo::of(&Method::GET, "/apis/coordination.k8s.io/v1/leases", "watch=true");
    assert_eq!(watch_name(&leases, false), None);
}
