//! The service controller: each Service of type LoadBalancer has a load balancer, and no load balancer outlives its Service.
//!
//! `wanted`, `backends` and `plan` are pure. Corresponds to k8s.io/cloud-provider/controllers/service.

pub mod backends;
pub mod wanted;
pub mod plan;
pub mod controller;

#[cfg(test)]
mod model_tests;
