//! Creates the objects that every cluster has, and repairs them: namespaces, roles, priority classes, the `kubernetes`
//! Service.
//!
//! The writes are made as the user `system:apiserver` and pass admission, as every write does. They change only what is
//! missing or wrong. Corresponds to the post-start hooks of kube-apiserver.

pub mod cluster_authentication;
pub mod flow_control_objects;
pub mod kubernetes_service;
pub mod master_leases;
pub mod objects;
pub mod plugin_registry;
pub mod role_repair;
pub mod roles;
pub mod shared_flags;
pub mod storage_versions;

use access::authn::cluster_authentication_info::ClusterAuthenticationInfo;
use access::authn::legacy_token::day_of;
use flow_control_objects::FlowControlObjects;
use futures::future::join_all;
use kubernetes_service::KubernetesService;
use registry::own_write::ensure;
use registry::post_start::{Hook, Milestone};
use registry::upkeep::Upkeep;
use std::time::Duration;
use storage_versions::StorageVersions;
use tokio_util::sync::CancellationToken;

/// Pause after a failed round.
const RETRY: Duration = Duration::from_secs(1);
/// Limit for giving up this server's lease. Without that, the other servers see the lease expire.
pub const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// Pause after a successful round.
const REPAIR_PERIOD: Duration = Duration::from_secs(10);

/// Creates and repairs the objects that every cluster has.
pub struct Bootstrap {
    pub upkeep: Upkeep,
    pub cluster_authentication_info: ClusterAuthenticationInfo,
    pub flow_control_objects: FlowControlObjects,
    pub kubernetes_service: KubernetesService,
    pub storage_versions: StorageVersions,
    /// Cancelled when [`Bootstrap::run`] returns.
    pub ended: CancellationToken,
}

impl Bootstrap {
    /// Reconciles the objects until the server begins to terminate; then gives up the server's lease.
    pub async fn run(self) {
        let mut all_ready = false;
        self.upkeep.until_end(async { all_ready = self.caches_ready().await }).await;
        if all_ready {
            self.upkeep.hooks.finished(Hook::StorageReadiness);
            self.reconcile_until_end().await;
            let leave = self.kubernetes_service.leave(&self.upkeep.registry);
            if let Ok(Err(status)) = self.upkeep.env.timeout(LEAVE_LIMIT, leave).await {
                tracing::warn!(error = %status, "the other servers are not told that this one ends");
            }
        }
        self.ended.cancel();
    }

    /// Waits until the cache of every resource has read the store. Returns false if a cache ends before.
    async fn caches_ready(&self) -> bool {
        let rows = self.upkeep.registry.rows();
        join_all(rows.iter().map(|row| row.cacher.ready())).await.into_iter().all(|ready| ready)
    }

    /// Reconciles every `REPAIR_PERIOD`, and sooner after a failure. Lets a round that has begun finish.
    async fn reconcile_until_end(&self) {
        let Upkeep { env, hooks, ending, .. } = &self.upkeep;
        loop {
            let pause = match self.reconcile().await {
                Ok(()) => {
                    hooks.reach(Milestone::Bootstrapped);
                    REPAIR_PERIOD
                }
                Err(status) => {
                    tracing::warn!(error = %status, "writing the objects that every cluster has");
                    RETRY
                }
            };
            self.upkeep.until_end(env.sleep(pause)).await;
            if ending.is_cancelled() || env.shutdown().is_cancelled() {
                return;
            }
        }
    }

    async fn reconcile(&self) -> registry::Result<()> {
        let Upkeep { env, registry, hooks, .. } = &self.upkeep;
        for namespace in objects::NAMESPACES {
            ensure(registry, "", "namespaces", objects::namespace(namespace)).await?;
        }
        hooks.finished(Hook::SystemNamespaces);
        let is_first = !hooks.has_reached(Milestone::Bootstrapped);
        if is_first {
            for class in objects::priority_classes() {
                ensure(registry, "scheduling.k8s.io", "priorityclasses", class).await?;
            }
            hooks.finished(Hook::SystemPriorityClasses);
            for object in roles::objects(&registry.gates) {
                role_repair::reconcile(registry, object).await?;
            }
            hooks.finished(Hook::BootstrapRoles);
        }
        self.flow_control_objects.reconcile(registry).await?;
        hooks.finished(Hook::FairnessConfigProducer);
        ensure(registry, "", "configmaps", objects::token_tracking(&day_of(env.wall()))).await?;
        hooks.finished(Hook::LegacyTokenTracking);
        cluster_authentication::reconcile(registry, &self.cluster_authentication_info).await?;
        hooks.finished(Hook::ClusterAuthenticationInfo);
        self.kubernetes_service.reconcile(registry, hooks).await?;
        hooks.finished(Hook::BootstrapController);
        self.storage_versions.reconcile(registry, env.wall()).await
    }
}
