//! The cloud controller manager: the controllers that depend on a cloud. The cloud is simulated.
//!
//! Corresponds to cmd/cloud-controller-manager and k8s.io/cloud-provider.

pub mod flags;
pub mod options;

use crate::manager::{self, Error};
use client::Client;
use client::component::Component;
use cloud::{machines, node, node_lifecycle, node_route, service_lb};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::zpages::ZPages;
use controller_base::cloud_options::CloudAccess;
use controller_base::descriptor::{ControllerDescriptor, reads, triggers};
use controller_base::options::Settings;
use options::{Config, PROVIDER};
use proto::kinds::api::core::v1::{ConfigMap, Node, Service};
use serde_json::json;

/// Name and default port of cloud-controller-manager.
const COMPONENT: Component =
    Component { name: "cloud-controller-manager", port: 10258, original: "cloud-controller-manager" };
/// Name of the Lease that the leader holds.
const LEASE: &str = "cloud-controller-manager";

/// The controllers, in the order in which they start.
pub const CONTROLLERS: &[ControllerDescriptor] = &[
    ControllerDescriptor {
        name: "cloud-node-controller",
        aliases: &["cloud-node"],
        service_account: Some("node-controller"),
        component: "cloud-node-controller",
        queues: &["cloud_node"],
        informers: &[triggers::<Node>()],
        on_by_default: true,
        start: node::controller::start,
    },
    ControllerDescriptor {
        name: "cloud-node-lifecycle-controller",
        aliases: &["cloud-node-lifecycle"],
        service_account: Some("node-controller"),
        component: "cloud-node-lifecycle-controller",
        queues: &[],
        informers: &[reads::<Node>()],
        on_by_default: true,
        start: node_lifecycle::start,
    },
    ControllerDescriptor {
        name: "service-lb-controller",
        aliases: &["service"],
        service_account: Some("service-controller"),
        component: "service-controller",
        queues: &["service"],
        informers: &[triggers::<Service>(), triggers::<Node>()],
        on_by_default: true,
        start: service_lb::controller::start,
    },
    ControllerDescriptor {
        name: "node-route-controller",
        aliases: &["route"],
        service_account: Some("route-controller"),
        component: "route_controller",
        queues: &["node_route"],
        informers: &[triggers::<Node>()],
        on_by_default: true,
        start: node_route::controller::start,
    },
    ControllerDescriptor {
        name: "simulated-machine-controller",
        aliases: &[],
        service_account: Some("simulated-machine-controller"),
        component: "simulated-machine-controller",
        queues: &[],
        informers: &[reads::<Node>(), reads::<ConfigMap>().in_namespace("kube-system")],
        on_by_default: true,
        start: machines::controller::start,
    },
];

/// Runs as a process until the environment shuts down or leadership is lost.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let Config { original, client: connection, serving, cert_dir, cloud_provider, cloud_config, settings } = config;
    original.warn();
    options::check_provider(cloud_provider.as_deref())?;
    let cloud = options::connection(cloud_config.as_deref())?;
    let (mut settings, options) = settings.settings();
    crate::selection::selected(CONTROLLERS, &settings.controllers)?;
    let client = COMPONENT.connect(&env, &connection)?;
    let serving = COMPONENT.with_certificate(&env, serving, cert_dir.folder())?;
    let configz = json!({"controllers": settings.controllers, "cloudProvider": PROVIDER, "cloud": cloud.server});
    let pages = HealthServer::new().configz(json!({"cloudcontrollermanager": configz}));
    COMPONENT.serve(&client, &serving, pages.zpages(ZPages::of(&env, &original))).await?;
    let cloud = Client::connect(&env, &cloud, COMPONENT.name).map_err(client::ConnectError::from);
    settings.cloud = Some(CloudAccess { client: cloud.map_err(client::component::Error::from)?, options });
    run_with(client, settings, env).await
}

/// Runs inside another process, which gives the clients of both servers: the cluster's, and the cloud's in the settings.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    manager::run_controllers(COMPONENT, LEASE, CONTROLLERS, client, settings, env).await
}
