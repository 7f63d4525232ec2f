//! The plugins, each in its own file, and the default profile.
//!
//! Corresponds to pkg/scheduler/framework/plugins and its getDefaultPlugins.

pub mod default_binder;
pub mod default_preemption;
pub mod default_selector;
pub mod dynamic_resources;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_balanced_allocation;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod pod_topology_spread;
pub mod priority_sort;
pub mod scheduling_gates;
pub mod selection;
pub mod taint_toleration;
pub mod volume_binding;

use crate::framework::{Bind, Plugin, Profile};
use client::Lister;
use component_base::rng::Random;
use default_selector::Workloads;
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use std::sync::Arc;
use volume_binding::VolumeBinding;

/// Scheduler name of the default profile.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The caches and the random stream that plugins read, besides nodes and pods.
pub struct Sources {
    pub workloads: Workloads,
    pub volumes: VolumeBinding,
    pub budgets: Lister<PodDisruptionBudget>,
    /// Chooses the node at which preemption begins its search.
    pub random: Random,
}

/// Returns the profile with Kubernetes' default plugins and weights.
pub fn default_profile(sources: Sources, binder: Arc<dyn Bind>) -> Profile {
    let gates = Arc::new(scheduling_gates::SchedulingGates);
    let unschedulable = Arc::new(node_unschedulable::NodeUnschedulable);
    let name = Arc::new(node_name::NodeName);
    let taints = Arc::new(taint_toleration::TaintToleration);
    let affinity = Arc::new(node_affinity::NodeAffinity);
    let ports = Arc::new(node_ports::NodePorts);
    let fit = Arc::new(node_resources_fit::NodeResourcesFit);
    let volumes = Arc::new(sources.volumes);
    let devices = Arc::new(dynamic_resources::DynamicResources);
    let spread = Arc::new(pod_topology_spread::PodTopologySpread { workloads: sources.workloads });
    let pods = Arc::new(inter_pod_affinity::InterPodAffinity);
    let balanced = Arc::new(node_resources_balanced_allocation::NodeResourcesBalancedAllocation);
    let images = Arc::new(image_locality::ImageLocality);

    let preemption =
        Arc::new(default_preemption::DefaultPreemption { budgets: sources.budgets, random: sources.random });

    let plugins: Vec<Arc<dyn Plugin>> = vec![
        gates.clone(),
        unschedulable.clone(),
        name.clone(),
        taints.clone(),
        affinity.clone(),
        ports.clone(),
        fit.clone(),
        volumes.clone(),
        spread.clone(),
        pods.clone(),
        devices.clone(),
    ];
    Profile {
        scheduler_name: DEFAULT_SCHEDULER.to_owned(),
        plugins,
        pre_enqueue: vec![gates],
        queue_sort: Some(Arc::new(priority_sort::PrioritySort)),
        pre_filter: vec![
            affinity.clone(),
            ports.clone(),
            fit.clone(),
            volumes.clone(),
            spread.clone(),
            pods.clone(),
            devices.clone(),
        ],
        filter: vec![
            unschedulable,
            name,
            taints.clone(),
            affinity.clone(),
            ports,
            fit.clone(),
            volumes.clone(),
            spread.clone(),
            pods.clone(),
        ],
        post_filter: vec![devices, preemption],
        pre_score: vec![affinity.clone(), spread.clone(), pods.clone(), balanced.clone()],
        score: vec![(taints, 3), (affinity, 2), (fit, 1), (spread, 2), (pods, 2), (balanced, 1), (images, 1)],
        reserve: vec![volumes.clone()],
        pre_bind: vec![volumes],
        bind: vec![binder],
        ..Profile::default()
    }
}
