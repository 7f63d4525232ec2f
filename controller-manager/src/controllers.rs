//! The table of controllers: the name, ServiceAccount, work queues, informers and `start` function of each.
//!
//! Corresponds to NewControllerDescriptors in cmd/kube-controller-manager/app/controllermanager.go.

use crate::bootstrap::{signer, token_cleaner};
use crate::certificates::{approving, cleaner, pod_request_cleaner, signing, trust_bundle_publisher};
use crate::node_lifecycle::controller::LEASE_NAMESPACE;
use crate::{
    clusterrole_aggregation, endpoints, endpointslice, endpointslicemirroring, garbage_collector, legacy_token_cleaner,
    namespace, node_ipam, node_lifecycle, pod_gc, resource_quota, root_ca_publisher, service_cidr, serviceaccount,
    serviceaccount_token, storage_version_gc, storage_version_migrator, taint_eviction, ttl,
    validatingadmissionpolicy_status,
};
use controller_base::descriptor::{ControllerDescriptor, discovers, reads, triggers};
use devices::{device_taint_eviction, resource_claim};
use proto::kinds::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use proto::kinds::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use proto::kinds::api::autoscaling::v2::HorizontalPodAutoscaler;
use proto::kinds::api::batch::v1::{CronJob, Job};
use proto::kinds::api::certificates::v1::CertificateSigningRequest;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
    ResourceQuota, Secret, Service, ServiceAccount,
};
use proto::kinds::api::discovery::v1::EndpointSlice;
use proto::kinds::api::networking::v1::{IPAddress, ServiceCIDR};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use proto::kinds::api::rbac::v1::ClusterRole;
use proto::kinds::api::resource::v1::{ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use proto::kinds::api::storage::v1::{
    CSIDriver, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
use volumes::volume::{binder, ephemeral, expand, protection, simulated};
use volumes::{attach_detach, csi_attacher};
use workloads::{
    cronjob, daemonset, deployment, disruption, horizontal_pod_autoscaler, job, replicaset, statefulset,
    ttl_after_finished,
};

/// The controllers, in the order in which they start.
pub const CONTROLLERS: &[ControllerDescriptor] = &[
    ControllerDescriptor {
        name: "serviceaccount-token-controller",
        aliases: &["serviceaccount-token"],
        service_account: None,
        component: "serviceaccount-token",
        queues: &["serviceaccount_tokens_secret"],
        informers: &[triggers::<Secret>(), triggers::<ServiceAccount>()],
        on_by_default: true,
        start: serviceaccount_token::start,
    },
    ControllerDescriptor {
        name: "serviceaccount-controller",
        aliases: &["serviceaccount"],
        service_account: Some("service-account-controller"),
        component: "service-account-controller",
        queues: &["serviceaccount"],
        informers: &[triggers::<Namespace>(), triggers::<ServiceAccount>()],
        on_by_default: true,
        start: serviceaccount::start,
    },
    ControllerDescriptor {
        name: "root-ca-certificate-publisher-controller",
        aliases: &["root-ca-cert-publisher"],
        service_account: Some("root-ca-cert-publisher"),
        component: "root-ca-cert-publisher",
        queues: &["root_ca_cert_publisher"],
        informers: &[triggers::<Namespace>(), triggers::<ConfigMap>()],
        on_by_default: true,
        start: root_ca_publisher::start,
    },
    ControllerDescriptor {
        name: "namespace-controller",
        aliases: &["namespace"],
        service_account: Some("namespace-controller"),
        component: "namespace-controller",
        queues: &["namespace"],
        informers: &[triggers::<Namespace>()],
        on_by_default: true,
        start: namespace::controller::start,
    },
    ControllerDescriptor {
        name: "garbage-collector-controller",
        aliases: &["garbagecollector"],
        service_account: Some("generic-garbage-collector"),
        component: "garbage-collector-controller",
        queues: &["garbage_collector_attempt_to_delete", "garbage_collector_attempt_to_orphan"],
        informers: &[discovers()],
        on_by_default: true,
        start: garbage_collector::controller::start,
    },
    ControllerDescriptor {
        name: "resourcequota-controller",
        aliases: &["resourcequota"],
        service_account: Some("resourcequota-controller"),
        component: "resourcequota-controller",
        queues: &["resourcequota_primary"],
        informers: &[triggers::<ResourceQuota>(), discovers()],
        on_by_default: true,
        start: resource_quota::controller::start,
    },
    ControllerDescriptor {
        name: "endpoints-controller",
        aliases: &["endpoint"],
        service_account: Some("endpoint-controller"),
        component: "endpoint-controller",
        queues: &["endpoint"],
        informers: &[triggers::<Service>(), triggers::<Endpoints>(), triggers::<Pod>()],
        on_by_default: true,
        start: endpoints::controller::start,
    },
    ControllerDescriptor {
        name: "endpointslice-controller",
        aliases: &["endpointslice"],
        service_account: Some("endpointslice-controller"),
        component: "endpoint-slice-controller",
        queues: &["endpoint_slice"],
        informers: &[triggers::<EndpointSlice>(), triggers::<Service>(), triggers::<Pod>(), triggers::<Node>()],
        on_by_default: true,
        start: endpointslice::controller::start,
    },
    ControllerDescriptor {
        name: "endpointslice-mirroring-controller",
        aliases: &["endpointslicemirroring"],
        service_account: Some("endpointslicemirroring-controller"),
        component: "endpoint-slice-mirroring-controller",
        queues: &["endpoint_slice_mirroring"],
        informers: &[triggers::<Service>(), triggers::<Endpoints>(), triggers::<EndpointSlice>()],
        on_by_default: true,
        start: endpointslicemirroring::controller::start,
    },
    ControllerDescriptor {
        name: "daemonset-controller",
        aliases: &["daemonset"],
        service_account: Some("daemon-set-controller"),
        component: "daemonset-controller",
        queues: &["daemonset"],
        informers: &[triggers::<DaemonSet>(), triggers::<ControllerRevision>(), triggers::<Pod>(), triggers::<Node>()],
        on_by_default: true,
        start: daemonset::controller::start,
    },
    ControllerDescriptor {
        name: "deployment-controller",
        aliases: &["deployment"],
        service_account: Some("deployment-controller"),
        component: "deployment-controller",
        queues: &["deployment"],
        informers: &[triggers::<Deployment>(), triggers::<ReplicaSet>(), triggers::<Pod>()],
        on_by_default: true,
        start: deployment::controller::start,
    },
    ControllerDescriptor {
        name: "replicaset-controller",
        aliases: &["replicaset"],
        service_account: Some("replicaset-controller"),
        component: "replicaset-controller",
        queues: &["replicaset"],
        informers: &[triggers::<ReplicaSet>(), triggers::<Pod>()],
        on_by_default: true,
        start: replicaset::controller::start_replica_sets,
    },
    ControllerDescriptor {
        name: "replicationcontroller-controller",
        aliases: &["replicationcontroller"],
        service_account: Some("replication-controller"),
        component: "replication-controller",
        queues: &["replicationmanager"],
        informers: &[triggers::<ReplicationController>(), triggers::<Pod>()],
        on_by_default: true,
        start: replicaset::controller::start_replication_controllers,
    },
    ControllerDescriptor {
        name: "statefulset-controller",
        aliases: &["statefulset"],
        service_account: Some("statefulset-controller"),
        component: "statefulset-controller",
        queues: &["statefulset"],
        informers: &[
            triggers::<StatefulSet>(),
            triggers::<Pod>(),
            triggers::<ControllerRevision>(),
            triggers::<PersistentVolumeClaim>(),
        ],
        on_by_default: true,
        start: statefulset::controller::start,
    },
    ControllerDescriptor {
        name: "node-ipam-controller",
        aliases: &["nodeipam"],
        service_account: Some("node-controller"),
        component: "cidrAllocator",
        queues: &["node_ipam"],
        informers: &[triggers::<Node>()],
        on_by_default: true,
        start: node_ipam::controller::start,
    },
    ControllerDescriptor {
        name: "node-lifecycle-controller",
        aliases: &["nodelifecycle"],
        service_account: Some("node-controller"),
        component: "node-controller",
        queues: &["node_lifecycle_controller"],
        informers: &[triggers::<Node>(), reads::<Lease>().in_namespace(LEASE_NAMESPACE), reads::<Pod>()],
        on_by_default: true,
        start: node_lifecycle::controller::start,
    },
    ControllerDescriptor {
        name: "taint-eviction-controller",
        aliases: &[],
        service_account: Some("node-controller"),
        component: "taint-eviction-controller",
        queues: &["noexec_taint"],
        informers: &[triggers::<Node>(), triggers::<Pod>()],
        on_by_default: true,
        start: taint_eviction::controller::start,
    },
    ControllerDescriptor {
        name: "pod-garbage-collector-controller",
        aliases: &["podgc"],
        service_account: Some("pod-garbage-collector"),
        component: "pod-garbage-collector",
        queues: &[],
        informers: &[reads::<Pod>(), reads::<Node>()],
        on_by_default: true,
        start: pod_gc::controller::start,
    },
    ControllerDescriptor {
        name: "persistentvolume-attach-detach-controller",
        aliases: &["attachdetach"],
        service_account: Some("attachdetach-controller"),
        component: "attachdetach-controller",
        queues: &["attach_detach_volumes", "attach_detach_nodes"],
        informers: &[
            triggers::<Pod>(),
            triggers::<Node>(),
            triggers::<PersistentVolumeClaim>(),
            triggers::<PersistentVolume>(),
            triggers::<VolumeAttachment>(),
            triggers::<CSIDriver>(),
        ],
        on_by_default: true,
        start: attach_detach::controller::start,
    },
    ControllerDescriptor {
        name: "simulated-csi-attacher-controller",
        aliases: &[],
        service_account: Some("simulated-csi-attacher"),
        component: "simulated-csi-attacher",
        queues: &["csi_attacher_va", "csi_attacher_pv"],
        informers: &[triggers::<VolumeAttachment>(), triggers::<PersistentVolume>(), triggers::<CSIDriver>()],
        on_by_default: true,
        start: csi_attacher::controller::start,
    },
    ControllerDescriptor {
        name: "disruption-controller",
        aliases: &["disruption"],
        service_account: Some("disruption-controller"),
        component: "controllermanager",
        queues: &["disruption", "stale_pod_disruption"],
        informers: &[
            triggers::<PodDisruptionBudget>(),
            triggers::<Pod>(),
            triggers::<ReplicationController>(),
            triggers::<ReplicaSet>(),
            triggers::<Deployment>(),
            triggers::<StatefulSet>(),
        ],
        on_by_default: true,
        start: disruption::controller::start,
    },
    ControllerDescriptor {
        name: "horizontal-pod-autoscaler-controller",
        aliases: &["horizontalpodautoscaling"],
        service_account: Some("horizontal-pod-autoscaler"),
        component: "horizontal-pod-autoscaler",
        queues: &["horizontalpodautoscaler"],
        informers: &[triggers::<HorizontalPodAutoscaler>(), reads::<Pod>()],
        on_by_default: true,
        start: horizontal_pod_autoscaler::controller::start,
    },
    ControllerDescriptor {
        name: "persistentvolume-binder-controller",
        aliases: &["persistentvolume-binder"],
        service_account: Some("persistent-volume-binder"),
        component: "persistentvolume-controller",
        queues: &["claims", "volumes"],
        informers: &[
            triggers::<PersistentVolumeClaim>(),
            triggers::<PersistentVolume>(),
            triggers::<StorageClass>(),
            reads::<Pod>(),
        ],
        on_by_default: true,
        start: binder::controller::start,
    },
    ControllerDescriptor {
        name: "persistentvolume-expander-controller",
        aliases: &["persistentvolume-expander"],
        service_account: Some("expand-controller"),
        component: "volume_expand",
        queues: &["volume_expand"],
        informers: &[triggers::<PersistentVolumeClaim>(), reads::<PersistentVolume>()],
        on_by_default: true,
        start: expand::start,
    },
    ControllerDescriptor {
        name: "clusterrole-aggregation-controller",
        aliases: &["clusterrole-aggregation"],
        service_account: Some("clusterrole-aggregation-controller"),
        component: "clusterrole-aggregation-controller",
        queues: &["ClusterRoleAggregator"],
        informers: &[triggers::<ClusterRole>()],
        on_by_default: true,
        start: clusterrole_aggregation::start,
    },
    ControllerDescriptor {
        name: "validatingadmissionpolicy-status-controller",
        aliases: &[],
        service_account: Some("validatingadmissionpolicy-status-controller"),
        component: "validatingadmissionpolicy-status-controller",
        queues: &["validatingadmissionpolicy-status"],
        informers: &[triggers::<ValidatingAdmissionPolicy>()],
        on_by_default: true,
        start: validatingadmissionpolicy_status::controller::start,
    },
    ControllerDescriptor {
        name: "job-controller",
        aliases: &["job"],
        service_account: Some("job-controller"),
        component: "job-controller",
        queues: &["job", "job_orphan_pod"],
        informers: &[triggers::<Job>(), triggers::<Pod>()],
        on_by_default: true,
        start: job::controller::start,
    },
    ControllerDescriptor {
        name: "cronjob-controller",
        aliases: &["cronjob"],
        service_account: Some("cronjob-controller"),
        component: "cronjob-controller",
        queues: &["cronjob"],
        informers: &[triggers::<CronJob>(), triggers::<Job>()],
        on_by_default: true,
        start: cronjob::controller::start,
    },
    ControllerDescriptor {
        name: "persistentvolumeclaim-protection-controller",
        aliases: &["pvc-protection"],
        service_account: Some("pvc-protection-controller"),
        component: "pvc-protection-controller",
        queues: &["pvcprotection"],
        informers: &[triggers::<PersistentVolumeClaim>(), triggers::<Pod>()],
        on_by_default: true,
        start: protection::claim::start,
    },
    ControllerDescriptor {
        name: "persistentvolume-protection-controller",
        aliases: &["pv-protection"],
        service_account: Some("pv-protection-controller"),
        component: "pv-protection-controller",
        queues: &["pvprotection"],
        informers: &[triggers::<PersistentVolume>()],
        on_by_default: true,
        start: protection::volume::start,
    },
    ControllerDescriptor {
        name: "volumeattributesclass-protection-controller",
        aliases: &[],
        service_account: Some("volumeattributesclass-protection-controller"),
        component: "volumeattributesclass-protection-controller",
        queues: &["vacprotection"],
        informers: &[
            triggers::<VolumeAttributesClass>(),
            triggers::<PersistentVolumeClaim>(),
            triggers::<PersistentVolume>(),
        ],
        on_by_default: true,
        start: protection::attributes_class::start,
    },
    ControllerDescriptor {
        name: "ttl-controller",
        aliases: &["ttl"],
        service_account: Some("ttl-controller"),
        component: "ttl-controller",
        queues: &["ttlcontroller"],
        informers: &[triggers::<Node>()],
        on_by_default: true,
        start: ttl::start,
    },
    ControllerDescriptor {
        name: "legacy-serviceaccount-token-cleaner-controller",
        aliases: &["legacy-service-account-token-cleaner"],
        service_account: Some("legacy-service-account-token-cleaner"),
        component: "legacy-service-account-token-cleaner",
        queues: &[],
        informers: &[reads::<ServiceAccount>(), reads::<Secret>(), reads::<Pod>()],
        on_by_default: true,
        start: legacy_token_cleaner::start,
    },
    ControllerDescriptor {
        name: "ttl-after-finished-controller",
        aliases: &["ttl-after-finished"],
        service_account: Some("ttl-after-finished-controller"),
        component: "ttl-after-finished-controller",
        queues: &["ttl_jobs_to_delete"],
        informers: &[triggers::<Job>()],
        on_by_default: true,
        start: ttl_after_finished::start,
    },
    ControllerDescriptor {
        name: "certificatesigningrequest-signing-controller",
        aliases: &["csrsigning"],
        service_account: Some("certificate-controller"),
        component: "certificate-controller",
        queues: &["certificate_signing"],
        informers: &[triggers::<CertificateSigningRequest>()],
        on_by_default: true,
        start: signing::start,
    },
    ControllerDescriptor {
        name: "certificatesigningrequest-approving-controller",
        aliases: &["csrapproving"],
        service_account: Some("certificate-controller"),
        component: "certificate-controller",
        queues: &["certificate"],
        informers: &[triggers::<CertificateSigningRequest>()],
        on_by_default: true,
        start: approving::start,
    },
    ControllerDescriptor {
        name: "certificatesigningrequest-cleaner-controller",
        aliases: &["csrcleaner"],
        service_account: Some("certificate-controller"),
        component: "certificate-controller",
        queues: &[],
        informers: &[reads::<CertificateSigningRequest>()],
        on_by_default: true,
        start: cleaner::start,
    },
    ControllerDescriptor {
        name: "podcertificaterequest-cleaner-controller",
        aliases: &[],
        service_account: Some("podcertificaterequestcleaner"),
        component: "podcertificaterequestcleaner",
        queues: &[],
        informers: &[],
        on_by_default: true,
        start: pod_request_cleaner::start,
    },
    ControllerDescriptor {
        name: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        aliases: &[],
        service_account: Some("kube-apiserver-serving-clustertrustbundle-publisher"),
        component: "kube-apiserver-serving-clustertrustbundle-publisher",
        queues: &[],
        informers: &[],
        on_by_default: true,
        start: trust_bundle_publisher::start,
    },
    ControllerDescriptor {
        name: "storageversion-garbage-collector-controller",
        aliases: &["storage-version-gc"],
        service_account: Some("storage-version-garbage-collector"),
        component: "storage-version-garbage-collector",
        queues: &[],
        informers: &[],
        on_by_default: true,
        start: storage_version_gc::start,
    },
    ControllerDescriptor {
        name: "storage-version-migrator-controller",
        aliases: &[],
        service_account: Some("storage-version-migrator-controller"),
        component: "storage-version-migrator-controller",
        queues: &[],
        informers: &[],
        on_by_default: true,
        start: storage_version_migrator::start,
    },
    ControllerDescriptor {
        name: "ephemeral-volume-controller",
        aliases: &["ephemeral-volume"],
        service_account: Some("ephemeral-volume-controller"),
        component: "ephemeral_volume",
        queues: &["ephemeral_volume"],
        informers: &[triggers::<Pod>(), triggers::<PersistentVolumeClaim>()],
        on_by_default: true,
        start: ephemeral::start,
    },
    ControllerDescriptor {
        name: "resourceclaim-controller",
        aliases: &["resource-claim-controller"],
        service_account: Some("resource-claim-controller"),
        component: "resource_claim",
        queues: &["resource_claim"],
        informers: &[triggers::<Pod>(), triggers::<ResourceClaim>(), triggers::<ResourceClaimTemplate>()],
        on_by_default: true,
        start: resource_claim::controller::start,
    },
    ControllerDescriptor {
        name: "device-taint-eviction-controller",
        aliases: &[],
        service_account: Some("device-taint-eviction-controller"),
        component: "device-taint-eviction-controller",
        queues: &["device-taint-eviction-controller"],
        informers: &[triggers::<Pod>(), triggers::<ResourceClaim>(), triggers::<ResourceSlice>()],
        on_by_default: true,
        start: device_taint_eviction::controller::start,
    },
    ControllerDescriptor {
        name: "simulated-volume-provisioner-controller",
        aliases: &[],
        service_account: Some("simulated-volume-provisioner"),
        component: simulated::PROVISIONER,
        queues: &[
            "simulated_volume_claims",
            "simulated_volumes",
            "simulated_volume_resizes",
            "simulated_volume_modifications",
            "simulated_volume_capacities",
        ],
        informers: &[
            triggers::<PersistentVolumeClaim>(),
            triggers::<PersistentVolume>(),
            triggers::<VolumeAttributesClass>(),
            triggers::<StorageClass>(),
            triggers::<CSIStorageCapacity>().in_namespace(simulated::capacity::NAMESPACE),
            reads::<Node>(),
        ],
        on_by_default: true,
        start: simulated::controller::start,
    },
    ControllerDescriptor {
        name: "service-cidr-controller",
        aliases: &[],
        service_account: Some("service-cidrs-controller"),
        component: "service-cidr-controller",
        queues: &["ipaddresses"],
        informers: &[triggers::<ServiceCIDR>(), triggers::<IPAddress>()],
        on_by_default: true,
        start: service_cidr::start,
    },
    ControllerDescriptor {
        name: "bootstrap-signer-controller",
        aliases: &["bootstrapsigner"],
        service_account: Some("bootstrap-signer"),
        component: "bootstrap-signer",
        queues: &["bootstrap_signer_queue"],
        informers: &[triggers::<Secret>(), triggers::<ConfigMap>()],
        on_by_default: false,
        start: signer::start,
    },
    ControllerDescriptor {
        name: "token-cleaner-controller",
        aliases: &["tokencleaner"],
        service_account: Some("token-cleaner"),
        component: "token-cleaner",
        queues: &["token_cleaner"],
        informers: &[triggers::<Secret>()],
        on_by_default: false,
        start: token_cleaner::start,
    },
];

/// `--controllers` names a controller that does not exist.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("--controllers: {0:?} is not in the list of known controllers")]
pub struct UnknownController(pub String);

/// Returns the controllers of a table that `--controllers` selects. A listed name starts its controller, and a name
/// with a dash does not. `*` starts the controllers that are on by default and not listed.
pub fn selected(
    table: &'static [ControllerDescriptor],
    names: &[String],
) -> Result<Vec<&'static ControllerDescriptor>, UnknownController> {
    for name in names.iter().filter(|name| *name != "*") {
        let bare = name.strip_prefix('-').unwrap_or(name);
        if !table.iter().any(|controller| controller.is_named(bare)) {
            return Err(UnknownController(bare.to_owned()));
        }
    }
    let has_star = names.iter().any(|name| name == "*");
    let is_selected = |controller: &&ControllerDescriptor| {
        let decides = |name: &&String| controller.is_named(name.strip_prefix('-').unwrap_or(name));
        match names.iter().find(decides) {
            Some(name) => !name.starts_with('-'),
            None => has_star && controller.on_by_default,
        }
    };
    Ok(table.iter().filter(is_selected).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Client;
    use client_testing::FakeServer;
    use component_base::certificate_request::Signer;
    use component_base::env::Env;
    use component_base::json_web_token::SigningKey;
    use component_base::options;
    use component_base_testing::fixtures;
    use controller_base::cloud_options::CloudAccess;
    use controller_base::context::Context;
    use controller_base::options::Settings;
    use controller_base::signers::names::SignerName;
    use controller_base::signers::options::Signers;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    fn names(names: &str) -> Result<Vec<&'static str>, UnknownController> {
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        Ok(selected(CONTROLLERS, &names)?.iter().map(|controller| controller.name).collect())
    }

    #[test]
    fn the_flag_adds_and_takes_away() {
        let all = names("*").unwrap();
        assert!(all.contains(&"deployment-controller"));
        assert_eq!(
            names("replicaset-controller,deployment").unwrap(),
            ["deployment-controller", "replicaset-controller"]
        );
        let without = names("*,-deployment-controller").unwrap();
        assert_eq!(without.len(), all.len() - 1);
        assert!(!without.contains(&"deployment-controller"));
        assert_eq!(names("-deployment").unwrap(), [] as [&str; 0]);
        assert_eq!(names("*,-nothing"), Err(UnknownController("nothing".to_owned())));
    }

    /// Gates that are off by default, and without which a controller does not start.
    const GATES: &[&str] =
        &["ClusterTrustBundle", "PodCertificateRequest", "StorageVersionAPI", "StorageVersionMigrator"];

    /// `ControllerDescriptor::start` and `Setup` compare what a controller asks for with its row.
    #[tokio::test(start_paused = true)]
    async fn every_row_names_what_its_controller_uses() {
        let env = Env::simulated(1);
        let client = Client::from_service(&env, FakeServer::new(&env).service(), "test");
        let authority = fixtures::authority_pair();
        let signer = Signer::from_pem(&authority.cert_pem, &authority.key_pem).unwrap();
        let settings = Settings {
            root_ca_pem: Some("PEM".to_owned()),
            feature_gates: GATES.iter().map(|gate| ((*gate).to_owned(), true)).collect(),
            service_account_key: Some(SigningKey::from_pem(fixtures::EC_KEYS[0]).unwrap()),
            cloud: Some(CloudAccess { client: client.clone(), options: options::defaults() }),
            signers: Signers(BTreeMap::from([(SignerName::KubeletServing, Arc::new(signer))])),
            ..Settings::default()
        };
        let context = Context::new(&client, settings);
        for row in CONTROLLERS.iter().chain(crate::cloud::CONTROLLERS) {
            drop(row.start(&context));
        }
        env.drain().await;
    }

    /// Each controller has a row in docs/controllers.md, with the resources that it watches.
    #[test]
    fn the_page_about_controllers_is_true() {
        let page = include_str!("../../docs/controllers.md");
        let rows = CONTROLLERS.iter().chain(crate::cloud::CONTROLLERS);
        let lines = rows.map(|row| format!("| `{}` | {} | ", row.name, row.watched()));
        let missing: Vec<String> =
            lines.filter(|line| !page.lines().any(|written| written.starts_with(line))).collect();
        assert_eq!(missing, [""; 0], "rows that docs/controllers.md lacks");
    }

    #[test]
    fn names_are_unique() {
        let names: Vec<&str> = CONTROLLERS
            .iter()
            .flat_map(|controller| controller.aliases.iter().copied().chain([controller.name]))
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
