//! Tables of observed volumes and nodes, each with the plan that follows.

use super::attachment;
use super::ledger::{Ledger, Reports};
use super::place::{Departure, Place};
use super::{node_plan, volume_plan};
use client::Plan;
use component_helpers::volumes::csi_volume::CsiVolume;
use controller_base::fixture;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{AttachedVolume, PersistentVolume, Pod, Taint};
use proto::kinds::api::storage::v1::{VolumeAttachment, VolumeAttachmentStatus, VolumeError};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "kubernetes.io/csi/csi.test^vol";

fn csi_volume() -> CsiVolume {
    CsiVolume { driver: "csi.test".to_owned(), handle: "vol".to_owned() }
}

fn persistent_volume(mode: &str) -> Arc<PersistentVolume> {
    let csi = json!({"driver": "csi.test", "volumeHandle": "vol"});
    let value = json!({"metadata": {"name": "pv"}, "spec": {"accessModes": [mode], "csi": csi}});
    Arc::new(PersistentVolume::decode_value(value).unwrap())
}

fn pod(key: &str) -> Arc<Pod> {
    let (namespace, name) = key.split_once('/').unwrap();
    let mut pod = fixture::pod(name);
    pod.metadata.namespace = Some(namespace.to_owned());
    Arc::new(pod)
}

/// A place, built step by step; nobody wants the volume there since second 0.
fn place(node: &str) -> Place {
    let mut object = fixture::node(node);
    fixture::annotate(&mut object, &[("volumes.kubernetes.io/controller-managed-attach-detach", "true")]);
    fixture::set_node_condition(&mut object, "Ready", "True", 0);
    Place {
        volume: csi_volume(),
        node_name: node.to_owned(),
        node: Some(Arc::new(object)),
        pods: Vec::new(),
        attachment: None,
        unwanted_since: Some(fixture::at(0)),
        reports: Reports::default(),
    }
}

impl Place {
    fn wanted_by(mut self, pods: &[&str]) -> Self {
        self.pods = pods.iter().map(|key| pod(key)).collect();
        self.unwanted_since = None;
        self
    }

    fn with_attachment(mut self, change: impl FnOnce(&mut VolumeAttachment)) -> Self {
        let mut attachment = attachment::new(&self.volume, "pv", &self.node_name);
        attachment.metadata.uid = Some("uid-va".to_owned());
        attachment.metadata.creation_timestamp = Some(fixture::time(0));
        change(&mut attachment);
        self.attachment = Some(Arc::new(attachment));
        self
    }

    fn attached(self) -> Self {
        self.with_attachment(|attachment| attachment.status.get_or_insert_default().attached = true)
    }

    fn on_node(mut self, change: impl FnOnce(&mut proto::kinds::api::core::v1::Node)) -> Self {
        change(Arc::make_mut(self.node.as_mut().unwrap()));
        self
    }

    fn reported(self) -> Self {
        let volume = AttachedVolume { name: NAME.to_owned(), device_path: String::new() };
        self.on_node(|node| node.status.get_or_insert_default().volumes_attached = Some(vec![volume]))
    }

    fn in_use(self) -> Self {
        self.on_node(|node| node.status.get_or_insert_default().volumes_in_use = Some(vec![NAME.to_owned()]))
    }

    fn not_ready(self) -> Self {
        self.on_node(|node| fixture::set_node_condition(node, "Ready", "Unknown", 0))
    }

    fn out_of_service(self) -> Self {
        let key = "node.kubernetes.io/out-of-service".to_owned();
        let taint = Taint { key, effect: "NoExecute".to_owned(), ..Taint::default() };
        self.on_node(|node| node.spec.get_or_insert_default().taints = Some(vec![taint]))
    }

    fn refused(mut self) -> Self {
        self.reports.multi_attach = true;
        self
    }
}

fn observed(mode: &str, places: Vec<Place>) -> volume_plan::Observed {
    volume_plan::Observed { persistent_volume: persistent_volume(mode), places, forces_detach: true, verifies: true }
}

/// Prints the plan of a volume at a second, with nodes for the names of their attachments.
fn planned(observed: &volume_plan::Observed, second: i64) -> String {
    let plan = volume_plan::plan(observed, fixture::at(second));
    observed.places.iter().fold(plan.to_string(), |text, place| {
        text.replace(&attachment::name(&place.volume, &place.node_name), &place.node_name)
    })
}

#[test]
fn forced_detaches_are_counted_by_their_reason() {
    let env = component_base::env::Env::simulated(1);
    let detaches = super::metrics::ForcedDetaches::new(&env);
    for place in [
        place("unmounted").attached(),
        place("lost").attached().in_use().not_ready(),
        place("off").attached().in_use().out_of_service(),
        place("busy").attached().in_use(),
    ] {
        let observed = observed("ReadWriteOnce", vec![place]);
        detaches.count(&observed.places, &volume_plan::plan(&observed, fixture::at(400)));
    }
    let text = env.metrics().encode();
    let name = "attach_detach_controller_attachdetach_controller_forced_detaches{";
    let mut counts: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(name)).collect();
    counts.sort_unstable();
    assert_eq!(counts, ["reason=\"out-of-service\"} 1", "reason=\"timeout\"} 1"]);
}

#[test]
fn a_volume_follows_its_pods() {
    let create = |node: &str| format!("create volumeattachments.storage.k8s.io {node}\n");
    let delete = |node: &str| format!("delete volumeattachments.storage.k8s.io {node} uid=uid-va\n");
    let event = |pod: &str, why: &str| {
        format!(
            "event Warning FailedAttachVolume Pod {pod}: Multi-Attach error for volume \"pv\" Volume is already {why}\n"
        )
    };
    let exclusively = "exclusively attached to one node and can't be attached to another";
    let cases: Vec<(&str, &str, Vec<Place>, i64, String)> = vec![
        ("a pod wants it", "ReadWriteOnce", vec![place("a").wanted_by(&["x/p"])], 0, create("a")),
        (
            "the node attaches itself",
            "ReadWriteOnce",
            vec![place("a").wanted_by(&["x/p"]).on_node(|node| node.metadata.annotations = None)],
            0,
            String::new(),
        ),
        (
            "it is attached",
            "ReadWriteOnce",
            vec![place("a").wanted_by(&["x/p"]).attached().reported()],
            0,
            String::new(),
        ),
        (
            "another node's pod uses it",
            "ReadWriteOnce",
            vec![place("a").wanted_by(&["x/p", "y/q"]).attached().reported(), place("b").wanted_by(&["x/r", "z/s"])],
            0,
            event("x/r", "used by pod(s) p and 1 pod(s) in different namespaces")
                + &event("z/s", "used by 2 pod(s) in different namespaces"),
        ),
        (
            "another node's pod of the same namespace uses it",
            "ReadWriteOncePod",
            vec![place("a").wanted_by(&["x/p", "x/q"]).attached(), place("b").wanted_by(&["x/r"])],
            0,
            event("x/r", "used by pod(s) p, q"),
        ),
        (
            "another node is about to lose it",
            "ReadWriteOnce",
            vec![place("a").attached().reported().in_use(), place("b").wanted_by(&["x/r"])],
            0,
            event("x/r", exclusively),
        ),
        (
            "the pod has been told",
            "ReadWriteOnce",
            vec![place("a").attached().reported().in_use(), place("b").wanted_by(&["x/r"]).refused()],
            0,
            String::new(),
        ),
        (
            "many nodes may have it",
            "ReadWriteMany",
            vec![place("a").wanted_by(&["x/p"]).attached().reported(), place("b").wanted_by(&["x/r"])],
            0,
            create("b"),
        ),
        (
            "two nodes want it at once",
            "ReadWriteOnce",
            vec![place("a").wanted_by(&["x/p"]), place("b").wanted_by(&["x/r"])],
            0,
            create("a") + &event("x/r", "used by pod(s) p"),
        ),
        ("it is still reported", "ReadWriteOnce", vec![place("a").attached().reported()], 0, String::new()),
        ("it is no longer reported", "ReadWriteOnce", vec![place("a").attached()], 0, delete("a")),
        ("it is still mounted", "ReadWriteOnce", vec![place("a").attached().in_use()], 10_000, String::new()),
        (
            "it is mounted on an unhealthy node",
            "ReadWriteOnce",
            vec![place("a").attached().in_use().not_ready()],
            60,
            "look again after 300s\n".to_owned(),
        ),
        (
            "it was mounted on an unhealthy node for six minutes",
            "ReadWriteOnce",
            vec![place("a").attached().in_use().not_ready()],
            360,
            delete("a"),
        ),
        ("the machine is off", "ReadWriteOnce", vec![place("a").attached().in_use().out_of_service()], 0, delete("a")),
        (
            "the node is gone",
            "ReadWriteOnce",
            vec![Place { node: None, ..place("a").attached() }],
            359,
            "look again after 1s\n".to_owned(),
        ),
        (
            "it is being detached",
            "ReadWriteOnce",
            vec![place("a").with_attachment(|va| va.metadata.deletion_timestamp = Some(fixture::time(0)))],
            0,
            String::new(),
        ),
    ];
    for (what, mode, places, second, expected) in cases {
        assert_eq!(planned(&observed(mode, places), second), expected, "{what}");
    }
}

#[test]
fn flags_keep_volumes_where_they_are() {
    let mut never_by_force = observed("ReadWriteOnce", vec![place("a").attached().in_use().not_ready()]);
    never_by_force.forces_detach = false;
    assert_eq!(planned(&never_by_force, 10_000), "");
    let mut vanished = observed("ReadWriteOnce", vec![place("a").wanted_by(&["x/p"]).reported()]);
    assert_eq!(planned(&vanished, 0), "create volumeattachments.storage.k8s.io a\n");
    vanished.verifies = false;
    assert_eq!(planned(&vanished, 0), "", "the node's status is believed");
}

#[test]
fn failures_are_reported_more_and_more_seldom() {
    let failed = |message: &str| VolumeError { message: Some(message.to_owned()), ..VolumeError::default() };
    let error = place("a").wanted_by(&["x/p"]).with_attachment(|va| {
        va.status =
            Some(VolumeAttachmentStatus { attach_error: Some(failed("no")), ..VolumeAttachmentStatus::default() });
    });
    let silent = place("a").wanted_by(&["x/p"]).with_attachment(|_| {});
    let deleted = place("a").wanted_by(&["x/p"]).attached();
    let deleted = Place {
        attachment: deleted.attachment.map(|mut va| {
            Arc::make_mut(&mut va).metadata.deletion_timestamp = Some(fixture::time(0));
            va
        }),
        ..place("a").wanted_by(&["x/p"])
    };
    let late = "timed out waiting for external-attacher of csi.test CSI driver to attach volume vol";
    let reported = |failures, at| Reports { failures, last_failure: Some(fixture::at(at)), multi_attach: false };
    for (place, reports, expected_message, expected_at) in [
        (&error, Reports::default(), "no", at_ms(0)),
        (&error, reported(1, 10), "no", at_ms(10_500)),
        (&error, reported(4, 10), "no", at_ms(14_000)),
        (&error, reported(40, 10), "no", at_ms(132_000)),
        (&silent, Reports::default(), late, at_ms(120_000)),
        (&silent, reported(1, 120), late, at_ms(240_500)),
        (&deleted, Reports::default(), "volume attachment is being deleted", at_ms(0)),
    ] {
        let failure = Place { reports, ..place.clone() }.failure().unwrap();
        assert_eq!((failure.message.as_str(), failure.at), (expected_message, expected_at));
    }
    let event = "event Warning FailedAttachVolume Pod x/p: AttachVolume.Attach failed for volume \"pv\" : no\n";
    assert_eq!(planned(&observed("ReadWriteOnce", vec![error.clone()]), 0), format!("{event}look again after 1s\n"));
    let told = Place { reports: reported(9, 0), ..error };
    assert_eq!(planned(&observed("ReadWriteOnce", vec![told]), 22), "look again after 100s\n");
}

fn at_ms(milliseconds: i64) -> Timestamp {
    fixture::at(0) + Duration::from_millis(milliseconds.unsigned_abs())
}

#[test]
fn a_node_reports_what_is_attached_and_may_stay() {
    let report = "merge patch nodes/status a {\"status\":{\"volumesAttached\":[{\"devicePath\":\"\",\"name\":\"kubernetes.io/csi/csi.test^vol\"}]}}\n";
    let nothing = "merge patch nodes/status a {\"status\":{\"volumesAttached\":null}}\n";
    let succeeded = "event Normal SuccessfulAttachVolume Pod x/p: AttachVolume.Attach succeeded for volume \"pv\" \n";
    let wanted = || place("a").wanted_by(&["x/p"]);
    let deleting = |va: &mut VolumeAttachment| {
        va.status.get_or_insert_default().attached = true;
        va.metadata.deletion_timestamp = Some(fixture::time(0));
    };
    for (what, place, expected) in [
        ("the driver is at work", wanted().with_attachment(|_| {}), String::new()),
        ("it was attached", wanted().attached(), format!("{report}{succeeded}")),
        ("it is reported", wanted().attached().reported(), String::new()),
        ("it is mounted", place("a").attached().reported().in_use(), String::new()),
        ("it is unmounted", place("a").attached().reported(), nothing.to_owned()),
        ("it is off", place("a").attached().reported().in_use().out_of_service(), nothing.to_owned()),
        ("it is being detached", wanted().with_attachment(deleting).reported(), nothing.to_owned()),
        ("its attachment has vanished", wanted().reported(), nothing.to_owned()),
    ] {
        let node = place.node.clone().unwrap();
        let volumes = vec![("pv".to_owned(), place)];
        let observed = node_plan::Observed { node, volumes, forces_detach: true, verifies: true };
        assert_eq!(node_plan::plan(&observed, fixture::at(1)).to_string(), expected, "{what}");
    }
}

#[test]
fn an_unhealthy_node_keeps_its_volume_for_six_minutes() {
    let place = place("a").attached().reported().in_use().not_ready();
    assert_eq!(place.departure(true), Departure::At(fixture::at(360)));
    assert_eq!(place.departure(false), Departure::Never);
    let observed = node_plan::Observed {
        node: place.node.clone().unwrap(),
        volumes: vec![("pv".to_owned(), place)],
        forces_detach: true,
        verifies: true,
    };
    let early = Plan { requeue_after: Some(Duration::from_secs(260)), ..Plan::default() };
    assert_eq!(node_plan::plan(&observed, fixture::at(100)), early);
    assert_eq!(node_plan::plan(&observed, fixture::at(360)).actions.len(), 1);
}

#[test]
fn the_ledger_counts_from_when_the_last_pod_has_gone() {
    let ledger = Ledger::default();
    let observe =
        |is_wanted, is_attached, second| ledger.observe(("vol", "a"), is_wanted, is_attached, fixture::at(second));
    observe(true, false, 0);
    ledger.refused("vol", "a");
    ledger.failed("vol", "a", fixture::at(1));
    let reports = Reports { multi_attach: true, failures: 1, last_failure: Some(fixture::at(1)) };
    assert_eq!(observe(true, false, 2), (None, reports));
    assert_eq!(observe(true, true, 3), (None, Reports::default()));
    assert_eq!(observe(false, true, 4), (Some(fixture::at(4)), Reports::default()));
    assert_eq!(observe(false, true, 9), (Some(fixture::at(4)), Reports::default()));
    assert_eq!(observe(true, true, 10), (None, Reports::default()));
    assert_eq!(observe(false, true, 11), (Some(fixture::at(11)), Reports::default()));
    ledger.retain("vol", |_| false);
    assert_eq!(observe(false, true, 20), (Some(fixture::at(20)), Reports::default()));
}
