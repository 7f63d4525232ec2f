//! The etcd engine over a modelled etcd, for tests of the engine and of what lies above it.

pub mod model;

use super::*;
use component_base::env::Env;
use model::ModelMember;

/// Returns the defaults of the flags, without compaction.
pub fn options(servers: Vec<String>) -> EtcdOptions {
    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        etcd: EtcdOptions,
    }
    let defaults = <Flags as clap::Parser>::parse_from(["apiserver"]).etcd;
    EtcdOptions { etcd_servers: servers, etcd_compaction_interval: Duration::ZERO, ..defaults }
}

/// Opens the engine over modelled members.
pub async fn over(env: &Env, members: &[Arc<ModelMember>]) -> Result<Arc<Etcd>, OpenError> {
    over_with(env, members, &options(Vec::new())).await
}

pub async fn over_with(env: &Env, members: &[Arc<ModelMember>], options: &EtcdOptions) -> Result<Arc<Etcd>, OpenError> {
    let members = members.iter().map(|member| member.clone() as Arc<dyn Member>).collect();
    Etcd::over(env, members, options).await
}
