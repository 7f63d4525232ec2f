//! `Steps`: a plan whose steps are requests to the API server and orders to the cloud. It can be printed and compared.
//!
//! `client::Plan` is the same for the API server alone.

use client::{Action, Actor, ApplyError, Plan, apply};
use simulated_cloud::cloud_client::CloudClient;
use simulated_cloud::model::{LoadBalancerSpec, Route};
use simulated_cloud::problem::Problem;
use std::fmt;
use std::time::Duration;

/// A request that changes the cloud.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    PutLoadBalancer { name: String, spec: LoadBalancerSpec },
    SetBackends { name: String, backends: Vec<String> },
    DeleteLoadBalancer { name: String },
    PutRoute(Route),
    DeleteRoute { name: String },
}

impl Order {
    pub async fn send(&self, cloud: &CloudClient) -> Result<(), Problem> {
        match self {
            Self::PutLoadBalancer { name, spec } => cloud.put_load_balancer(name, spec).await,
            Self::SetBackends { name, backends } => cloud.set_backends(name, backends).await,
            Self::DeleteLoadBalancer { name } => cloud.delete_load_balancer(name).await,
            Self::PutRoute(route) => cloud.put_route(route).await,
            Self::DeleteRoute { name } => cloud.delete_route(name).await,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PutLoadBalancer { name, spec } => {
                write!(f, "cloud: put load balancer {name} for {}", spec.description)?;
                spec.requested_address.map_or(Ok(()), |address| write!(f, " at {address}"))?;
                for port in &spec.ports {
                    write!(f, " {}/{}", port.port, port.protocol)?;
                    port.node_port.map_or(Ok(()), |node_port| write!(f, "->{node_port}"))?;
                }
                write!(f, " backends {}", listed(&spec.backends))
            }
            Self::SetBackends { name, backends } => {
                write!(f, "cloud: set backends of load balancer {name}: {}", listed(backends))
            }
            Self::DeleteLoadBalancer { name } => write!(f, "cloud: delete load balancer {name}"),
            Self::PutRoute(Route { name, destination, machine }) => {
                write!(f, "cloud: put route {name}: {destination} to {machine}")
            }
            Self::DeleteRoute { name } => write!(f, "cloud: delete route {name}"),
        }
    }
}

fn listed(backends: &[String]) -> String {
    if backends.is_empty() { "none".to_owned() } else { backends.join(",") }
}

/// One step, with the words that say what failed when it fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub request: Request,
    pub failure: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Kubernetes(Action),
    Cloud(Order),
}

/// Steps, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    pub steps: Vec<Step>,
    /// Time after which the key is reconciled again in any case.
    pub requeue_after: Option<Duration>,
}

impl Steps {
    pub fn event(&mut self, event: Action) {
        self.request(event, "");
    }

    pub fn request(&mut self, action: Action, failure: &'static str) {
        self.steps.push(Step { request: Request::Kubernetes(action), failure });
    }

    pub fn order(&mut self, order: Order, failure: &'static str) {
        self.steps.push(Step { request: Request::Cloud(order), failure });
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match &step.request {
                Request::Kubernetes(action) => writeln!(f, "{action}")?,
                Request::Cloud(order) => writeln!(f, "{order}")?,
            }
        }
        self.requeue_after.map_or(Ok(()), |delay| writeln!(f, "look again after {delay:?}"))
    }
}

/// The first step that failed. Those before it are done, and those after it were not tried.
#[derive(Debug, thiserror::Error)]
#[error("{failure}: {}", cause_text(.cause))]
pub struct StepError {
    pub failure: &'static str,
    pub step: Box<Step>,
    pub cause: Cause,
}

#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error(transparent)]
    Kubernetes(Box<ApplyError>),
    #[error(transparent)]
    Cloud(Problem),
}

fn cause_text(cause: &Cause) -> String {
    match cause {
        Cause::Kubernetes(error) => error.cause.to_string(),
        Cause::Cloud(problem) => problem.to_string(),
    }
}

impl StepError {
    /// Returns true if the object to change no longer exists.
    pub fn is_gone(&self) -> bool {
        matches!(&self.cause, Cause::Kubernetes(error) if error.cause.is_not_found())
    }
}

/// Carries the steps out in order.
pub async fn carry_out(cloud: &CloudClient, actor: &Actor, steps: &Steps) -> Result<(), StepError> {
    for step in &steps.steps {
        let done = match &step.request {
            Request::Cloud(order) => {
                tracing::debug!(%order, "ordering");
                order.send(cloud).await.map_err(Cause::Cloud)
            }
            Request::Kubernetes(action) => {
                let one = Plan::of([action.clone()]);
                let applied = apply(&actor.client, &actor.recorder, &one).await;
                applied.map(drop).map_err(|error| Cause::Kubernetes(Box::new(error)))
            }
        };
        done.map_err(|cause| StepError { failure: step.failure, step: Box::new(step.clone()), cause })?;
    }
    Ok(())
}
