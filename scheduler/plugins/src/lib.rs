//! The plugins, each in its own file, and the registry that has them all.
//!
//! Corresponds to pkg/scheduler/framework/plugins and its registry.go. `configuration::default_plugins` has the default
//! profile.

pub mod attached_volumes;
pub mod default_binder;
pub mod default_preemption;
pub mod default_selector;
pub mod domain_tally;
pub mod dynamic_resources;
pub mod gang_scheduling;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_declared_features;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_balanced_allocation;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod pod_group_pods_count;
mod pod_group_preemption;
pub mod pod_topology_spread;
pub mod priority_sort;
mod recent;
pub mod resource_allocation;
pub mod scheduling_gates;
pub mod scoring_strategy;
mod signatures;
pub mod storage;
pub mod taint_toleration;
pub mod topology_placement_generator;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod affinity_tests;
#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod cycle_tests;
#[cfg(test)]
mod kept_cycle_tests;
#[cfg(test)]
mod kept_preemption_tests;
#[cfg(test)]
mod hint_tests;

use attached_volumes::AttachedVolumes;
use client::Lister;
use component_base::rng::Random;
use default_selector::Workloads;
use dynamic_resources::DynamicResources;
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use scheduling_framework::configuration::args;
use scheduling_framework::{Bind, Features, Plugin, PodGroups, Points, Registry, WaitingPods, features};
use std::sync::Arc;
use volume_binding::VolumeBinding;

/// The caches and the random stream that plugins read, besides nodes and pods. Clones share them.
#[derive(Clone)]
pub struct Sources {
    pub workloads: Workloads,
    pub volumes: VolumeBinding,
    pub devices: DynamicResources,
    pub budgets: Lister<PodDisruptionBudget>,
    /// Chooses the node at which preemption begins its search.
    pub random: Random,
}

/// Returns Kubernetes' plugins. `DefaultBinder` binds through `binder`.
pub fn in_tree<B: Bind + 'static>(sources: &Sources, binder: Arc<B>) -> Registry {
    let mut registry = Registry::default();
    add_plain(&mut registry);
    add_scored(&mut registry);
    add_stateful(&mut registry, sources);
    registry.add("DefaultBinder", move |_| Ok(Points::of(&binder).bind(&binder)));
    registry
}

fn declared_features(is_on: bool) -> Result<Points, String> {
    let plugin = node_declared_features::NodeDeclaredFeatures { is_on };
    made(plugin, |p, points| points.pre_filter(p).filter(p).sign(p))
}

/// Adds the plugins of PodGroups, and those that depend on gates.
pub fn add_gated(registry: &mut Registry, features: &Features, groups: &PodGroups, waiting_pods: &WaitingPods) {
    let is_on = features.is_on(features::NODE_DECLARED_FEATURES);
    registry.add("NodeDeclaredFeatures", move |_| declared_features(is_on));
    let (groups, waiting_pods) = (groups.clone(), waiting_pods.clone());
    registry.add("GangScheduling", move |_| {
        let (groups, waiting_pods) = (groups.clone(), waiting_pods.clone());
        let plugin = gang_scheduling::GangScheduling { groups, waiting_pods };
        made(plugin, |p, points| points.pre_enqueue(p).reserve(p).permit(p))
    });
    registry.add("TopologyPlacementGenerator", |_| {
        made(topology_placement_generator::TopologyPlacementGenerator, |p, points| points.placement_generate(p))
    });
    registry.add("PodGroupPodsCount", |_| {
        made(pod_group_pods_count::PodGroupPodsCount, |p, points| points.placement_score(p))
    });
}

/// Adds plugins without arguments.
fn add_plain(registry: &mut Registry) {
    registry.add("SchedulingGates", |_| made(scheduling_gates::SchedulingGates, |p, points| points.pre_enqueue(p)));
    registry.add("PrioritySort", |_| made(priority_sort::PrioritySort, |p, points| points.queue_sort(p)));
    registry.add("NodeUnschedulable", |_| {
        made(node_unschedulable::NodeUnschedulable, |p, points| points.filter(p).sign(p))
    });
    registry.add("NodeName", |_| made(node_name::NodeName, |p, points| points.filter(p).sign(p)));
    registry.add("TaintToleration", |_| {
        made(taint_toleration::TaintToleration, |p, points| points.filter(p).score(p).sign(p))
    });
    registry.add("NodePorts", |_| made(node_ports::NodePorts, |p, points| points.pre_filter(p).filter(p).sign(p)));
    registry.add("ImageLocality", |_| made(image_locality::ImageLocality, |p, points| points.score(p).sign(p)));
    registry.add("NodeDeclaredFeatures", |_| declared_features(true));
}

/// Adds plugins whose scores depend on arguments.
fn add_scored(registry: &mut Registry) {
    registry.add("NodeAffinity", |args| {
        let plugin = node_affinity::NodeAffinity::new(args::of(args)?);
        made(plugin, |p, points| points.pre_filter(p).filter(p).pre_score(p).score(p).sign(p))
    });
    registry.add("NodeResourcesFit", |args| {
        let plugin = node_resources_fit::NodeResourcesFit::new(args::of(args)?);
        made(plugin, |p, points| points.pre_filter(p).filter(p).score(p).sign(p))
    });
    registry.add("InterPodAffinity", |args| {
        let plugin = inter_pod_affinity::InterPodAffinity::new(args::of(args)?);
        made(plugin, |p, points| points.pre_filter(p).filter(p).pre_score(p).score(p).sign(p))
    });
    registry.add("NodeResourcesBalancedAllocation", |args| {
        let args = args::of(args)?;
        let plugin = node_resources_balanced_allocation::NodeResourcesBalancedAllocation::new(&args);
        made(plugin, |p, points| points.pre_score(p).score(p).sign(p))
    });
}

/// Adds plugins that read caches of their own.
fn add_stateful(registry: &mut Registry, sources: &Sources) {
    let volumes = sources.volumes.clone();
    registry.add("VolumeBinding", move |args| {
        let plugin = VolumeBinding { args: args::of(args)?, ..volumes.clone() };
        // Without a shape, which needs a gate, there is nothing to score.
        match plugin.args.shape {
            Some(_) => made(plugin, |p, points| {
                points.pre_filter(p).filter(p).pre_score(p).score(p).reserve(p).pre_bind(p).sign(p)
            }),
            None => made(plugin, |p, points| points.pre_filter(p).filter(p).reserve(p).pre_bind(p).sign(p)),
        }
    });
    let storage = sources.volumes.sources.storage.clone();
    registry.add("VolumeRestrictions", move |_| {
        let plugin = volume_restrictions::VolumeRestrictions { storage: storage.clone() };
        made(plugin, |p, points| points.pre_filter(p).filter(p).sign(p))
    });
    let storage = sources.volumes.sources.storage.clone();
    registry.add("VolumeZone", move |_| {
        let plugin = volume_zone::VolumeZone { storage: storage.clone() };
        made(plugin, |p, points| points.pre_filter(p).filter(p).sign(p))
    });
    let volumes = AttachedVolumes::new(sources.volumes.sources.storage.clone());
    registry.add("NodeVolumeLimits", move |_| {
        let plugin = node_volume_limits::NodeVolumeLimits { volumes: volumes.clone() };
        made(plugin, |p, points| points.pre_filter(p).filter(p).sign(p))
    });
    let devices = sources.devices.clone();
    registry.add("DynamicResources", move |args| {
        made(devices.configured(&args::of(args)?)?, |p, points| {
            let filtering = points.pre_enqueue(p).pre_filter(p).filter(p).post_filter(p);
            filtering.pre_score(p).score(p).reserve(p).pre_bind(p).sign(p)
        })
    });
    let workloads = sources.workloads.clone();
    registry.add("PodTopologySpread", move |args| {
        let plugin = pod_topology_spread::PodTopologySpread::new(args::of(args)?, workloads.clone());
        made(plugin, |p, points| points.pre_filter(p).filter(p).pre_score(p).score(p).sign(p))
    });
    let (budgets, random) = (sources.budgets.clone(), sources.random.clone());
    registry.add("DefaultPreemption", move |args| {
        let (budgets, random) = (budgets.clone(), random.clone());
        let plugin = default_preemption::DefaultPreemption { args: args::of(args)?, budgets, random };
        made(plugin, |p, points| points.post_filter(p).pod_group_post_filter(p))
    });
}

/// Returns a plugin with its extension points.
fn made<P: Plugin + 'static>(plugin: P, points: fn(&Arc<P>, Points) -> Points) -> Result<Points, String> {
    let plugin = Arc::new(plugin);
    Ok(points(&plugin, Points::of(&plugin)))
}
