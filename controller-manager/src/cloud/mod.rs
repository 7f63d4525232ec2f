//! The cloud controller manager: the controllers that depend on a cloud. The cloud is simulated.
//!
//! Corresponds to cmd/cloud-controller-manager and k8s.io/cloud-provider.

pub mod flags;
pub mod options;
pub mod node;
pub mod load_balancer;

use crate::manager::{self, Error};
use client::component::Component;
use component_base::env::Env;
use component_base::health_server::HealthServer;
use controller_base::descriptor::{ControllerDescriptor, triggers};
use options::{Config, PROVIDER};
use proto::kinds::api::core::v1::{Node, Service};
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
        start: node::start,
    },
    ControllerDescriptor {
        name: "service-lb-controller",
        aliases: &["service"],
        service_account: Some("service-controller"),
        component: "service-controller",
        queues: &["service"],
        informers: &[triggers::<Service>()],
        on_by_default: true,
        start: load_balancer::start,
    },
];

/// Runs as a process until the environment shuts down or leadership is lost.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let Config { original, client: connection, serving, cert_dir, cloud_provider, settings } = config;
    original.warn();
    options::check_provider(cloud_provider.as_deref())?;
    let settings = settings.settings();
    crate::controllers::selected(CONTROLLERS, &settings.controllers)?;
    let client = COMPONENT.connect(&env, &connection)?;
    let serving = COMPONENT.with_certificate(&env, serving, cert_dir.folder())?;
    let configz = json!({"controllers": settings.controllers, "cloudProvider": PROVIDER});
    COMPONENT.serve(&client, &serving, HealthServer::new().configz(json!({"cloudcontrollermanager": configz}))).await?;
    manager::run_controllers(COMPONENT, LEASE, CONTROLLERS, client, settings, env).await
}
