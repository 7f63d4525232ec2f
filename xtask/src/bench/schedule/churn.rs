//! `Churn`, what happens to a cluster while pods are measured.

use super::node;
use super::template::{MEASURED, Template};
use crate::bench::Error;
use crate::bench::objects::post;
use client::Client;
use client::request::Call;
use component_base::env::Env;
use http::Method;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub enum Churn {
    /// Another pod after each interval.
    Create { template: Template, every: Duration },
    /// A node, a pod that fits nowhere and a Service, which come and go in turn.
    Recreate { every: Duration },
}

/// Returns a node that comes and goes.
pub fn passing_node(number: usize) -> Value {
    node::node(&format!("node-churn-{number}"), "zone1")
}

impl Churn {
    /// Goes on until something fails. `nodes` counts the nodes that have been there.
    pub async fn run(self, env: &Env, client: &Client, nodes: &AtomicUsize) -> Error {
        let failed = match self {
            Self::Create { template, every } => create(env, client, template, every).await,
            Self::Recreate { every } => recreate(env, client, every, nodes).await,
        };
        failed.into()
    }
}

fn pods() -> String {
    format!("/api/v1/namespaces/{MEASURED}/pods")
}

async fn create(env: &Env, client: &Client, template: Template, every: Duration) -> client::Error {
    let mut number = 0;
    loop {
        if let Err(error) = post(client.clone(), &pods(), template.pod(&format!("churn-{number}"), number)).await {
            return error;
        }
        number += 1;
        env.sleep(every).await;
    }
}

async fn recreate(env: &Env, client: &Client, every: Duration, nodes: &AtomicUsize) -> client::Error {
    loop {
        let number = nodes.fetch_add(1, Ordering::Relaxed);
        let spec =
            json!({"selector": {"app": "foo"}, "ports": [{"protocol": "TCP", "port": 8080, "targetPort": 8080}]});
        let name = format!("churn-{number}");
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        let pod = Template::HighPriorityLargeCpu.pod(&name, number);
        let all = [
            ("/api/v1/nodes".to_owned(), passing_node(number)),
            (pods(), pod),
            (format!("/api/v1/namespaces/{MEASURED}/services"), service),
        ];
        for (collection, object) in &all {
            if let Err(error) = post(client.clone(), collection, object.clone()).await {
                return error;
            }
        }
        env.sleep(every).await;
        for (collection, object) in &all {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if let Err(error) = client.call(&Call::new(Method::DELETE, format!("{collection}/{name}"))).await {
                return error;
            }
        }
        env.sleep(every).await;
    }
}
