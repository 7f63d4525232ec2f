//! The etcd engine where etcd misbehaves: over a modelled cluster in virtual time, and over a real one.

mod misbehaving;
pub mod model;
mod real;
mod servers;

use super::*;
use component_base::env::Env;
use model::{Model, ModelMember};

/// The defaults of the flags, without compaction.
pub fn options(servers: Vec<String>) -> EtcdOptions {
    let defaults = crate::config::Config::default().etcd;
    EtcdOptions { etcd_servers: servers, etcd_compaction_interval: Duration::ZERO, ..defaults }
}

/// The engine over modelled members.
pub async fn over(env: &Env, members: &[Arc<ModelMember>]) -> Result<Arc<Etcd>, OpenError> {
    over_with(env, members, &options(Vec::new())).await
}

async fn over_with(env: &Env, members: &[Arc<ModelMember>], options: &EtcdOptions) -> Result<Arc<Etcd>, OpenError> {
    let members = members.iter().map(|member| member.clone() as Arc<dyn Member>).collect();
    Etcd::over(env, members, options).await
}
