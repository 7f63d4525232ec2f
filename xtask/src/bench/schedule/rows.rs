//! The scenarios of scheduling: a row for each, with scheduler_perf's name.
//!
//! Corresponds to the files performance-config.yaml below test/integration/scheduler_perf, for 1,000 nodes. A row at another
//! size has the same pods for each node.

use super::churn::Churn;
use super::template::Template;
use std::time::Duration;

/// So many pods of a template for each thousand nodes.
#[derive(Clone, Copy, Debug)]
pub struct Pods {
    pub template: Template,
    pub per_1000_nodes: usize,
}

/// What a row has beside nodes, pods and the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    Nothing,
    /// A Service with the pods of `Template::OfService`.
    Service,
    /// A node that takes the pods of `Template::DaemonSet`.
    DaemonNode,
    /// A driver of volumes on each node, with a limit.
    CsiDriver,
    /// So many devices on each node, and the controller that makes claims.
    Devices {
        per_node: usize,
    },
    /// The gates of gang scheduling.
    Gangs,
}

#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in scheduler_perf.
    pub name: &'static str,
    /// The zones of the nodes in turn.
    pub zones: &'static [&'static str],
    /// The pods that run before the measurement.
    pub before: &'static [Pods],
    pub measured: Pods,
    /// What happens meanwhile.
    pub churn: Option<Churn>,
    pub extra: Extra,
}

const fn pods(template: Template, per_1000_nodes: usize) -> Pods {
    Pods { template, per_1000_nodes }
}

const ONE_ZONE: &[&str] = &["zone1"];
const THREE_ZONES: &[&str] = &["moon-1", "moon-2", "moon-3"];
const EVERY_200_MS: Duration = Duration::from_millis(200);
const EVERY_SECOND: Duration = Duration::from_secs(1);

/// A row whose pods are like those that run before.
const fn alike(name: &'static str, template: Template, before: &'static [Pods], measured: usize) -> Row {
    Row { name, zones: ONE_ZONE, before, measured: pods(template, measured), churn: None, extra: Extra::Nothing }
}

pub const ROWS: &[Row] = &[
    alike("SchedulingBasic", Template::Default, &[pods(Template::Default, 1000)], 2000),
    alike("SchedulingNodeAffinity", Template::NodeAffinity, &[pods(Template::NodeAffinity, 1000)], 2000),
    alike("SchedulingPodAffinity", Template::PodAffinity, &[pods(Template::PodAffinity, 1000)], 1000),
    alike("SchedulingPodAntiAffinity", Template::PodAntiAffinity, &[pods(Template::PodAntiAffinity, 200)], 800),
    alike(
        "SchedulingPreferredPodAffinity",
        Template::PreferredPodAffinity,
        &[pods(Template::PreferredPodAffinity, 1000)],
        1000,
    ),
    alike(
        "SchedulingPreferredPodAntiAffinity",
        Template::PreferredPodAntiAffinity,
        &[pods(Template::PreferredPodAntiAffinity, 1000)],
        1000,
    ),
    Row {
        zones: THREE_ZONES,
        ..alike("TopologySpreading", Template::TopologySpreading, &[pods(Template::Default, 1000)], 1000)
    },
    Row {
        zones: THREE_ZONES,
        ..alike(
            "PreferredTopologySpreading",
            Template::PreferredTopologySpreading,
            &[pods(Template::Default, 1000)],
            1000,
        )
    },
    Row {
        zones: THREE_ZONES,
        extra: Extra::Service,
        ..alike("DefaultTopologySpreading", Template::OfService, &[pods(Template::Default, 1000)], 2000)
    },
    alike(
        "MixedSchedulingBasePod",
        Template::Default,
        &[
            pods(Template::Default, 400),
            pods(Template::PodAffinity, 400),
            pods(Template::PodAntiAffinity, 400),
            pods(Template::PreferredPodAffinity, 400),
            pods(Template::PreferredPodAntiAffinity, 400),
        ],
        1000,
    ),
    alike("PreemptionBasic", Template::HighPriority, &[pods(Template::LowPriority, 4000)], 1000),
    Row {
        churn: Some(Churn::Create { template: Template::HighPriority, every: EVERY_200_MS }),
        ..alike("PreemptionAsync", Template::Default, &[pods(Template::LowPriority, 4000)], 1000)
    },
    Row {
        churn: Some(Churn::Create { template: Template::HighPriorityLargeCpu, every: EVERY_200_MS }),
        ..alike("Unschedulable", Template::Default, &[pods(Template::Default, 20)], 2000)
    },
    Row {
        churn: Some(Churn::Recreate { every: EVERY_SECOND }),
        ..alike("SchedulingWithMixedChurn", Template::Default, &[], 2000)
    },
    Row { extra: Extra::DaemonNode, ..alike("SchedulingDaemonset", Template::DaemonSet, &[], 2000) },
    alike("SchedulingSecrets", Template::Secret, &[pods(Template::Secret, 1000)], 2000),
    alike("SchedulingInTreePVs", Template::InTreeVolume, &[pods(Template::InTreeVolume, 1000)], 1000),
    Row {
        extra: Extra::CsiDriver,
        ..alike("SchedulingCSIPVs", Template::CsiVolume, &[pods(Template::CsiVolume, 1000)], 1000)
    },
    // The pods take every device.
    Row {
        extra: Extra::Devices { per_node: 2 },
        ..alike(
            "SchedulingWithResourceClaimTemplate",
            Template::DeviceClaim,
            &[pods(Template::DeviceClaim, 1000)],
            1000,
        )
    },
    Row { extra: Extra::Gangs, ..alike("GangScheduling", Template::Gang, &[], 1500) },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ() {
        let names: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }

    #[test]
    fn every_pod_finds_room() {
        for Row { name, before, measured, extra, .. } in ROWS {
            let cpus = |pods: &Pods| {
                let pod = pods.template.pod("p", 0);
                let cpu: proto::meta::quantity::Quantity =
                    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str().unwrap().parse().unwrap();
                cpu.milli_value() * pods.per_1000_nodes as i64
            };
            let asked: i64 = before.iter().map(cpus).sum::<i64>() + cpus(measured);
            let preempts = measured.template == Template::HighPriority;
            assert!(preempts || *extra == Extra::DaemonNode || asked <= 4_000_000, "{name}: {asked}");
        }
    }
}
