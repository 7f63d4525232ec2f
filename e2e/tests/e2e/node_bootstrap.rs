//! Tests that a node that joins with a bootstrap token gets a certificate, and renews it before it expires. The cluster
//! runs in one process and in virtual time.

use apiserver::config::Config;
use client::{Client, ListOptions};
use controller_base::signers::names::SignerName;
use e2e::bootstrap_token;
use e2e::in_process::{InProcess, SERVER, signers};
use kubelet_sim::certificate::Bootstrap;
use proto::Gvr;
use serde_json::Value;
use simulator::part::Part;
use std::time::Duration;

/// Validity of a certificate in this test.
const VALIDITY: Duration = Duration::from_secs(20 * 60);

async fn requests(admin: &Client) -> Vec<Value> {
    let requests = admin.dynamic(&Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests"), "");
    let mut all = requests.list(&ListOptions::default()).await.unwrap().items;
    all.sort_by_key(|request| request["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
    all
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_bootstrap_token_gets_a_certificate_and_renews_it() {
    let mut config = Config::default();
    config.tokens.enable_bootstrap_token_auth = true;
    let cluster = InProcess::start(1, config).await;
    let admin = cluster.admin();
    for object in bootstrap_token::objects() {
        cluster.create(&object).await;
    }

    let manager = cluster.process("controller-manager/1");
    let mut settings = controller_manager::Settings {
        signers: signers([SignerName::ApiServerClientKubelet]),
        ..controller_manager::Settings::default()
    };
    settings.signing.cluster_signing_duration = VALIDITY;
    settings.leader_election.leader_elect = false; // there is only one
    let running = |client| controller_manager::run_with(client, settings, manager.clone());
    cluster.run(Part::ControllerManager, &manager, running);

    let nodes = cluster.process("nodes/1");
    let folder = tempfile::tempdir().unwrap();
    let bootstrap = Bootstrap {
        connection: bootstrap_token::connection(SERVER),
        rotates: true,
        cert_dir: Some(folder.path().to_owned()),
    };
    let settings = kubelet_sim::Settings { nodes: 1, bootstrap: Some(bootstrap), ..kubelet_sim::Settings::default() };
    cluster.run(Part::Nodes, &nodes, |client| kubelet_sim::run_with(client, settings, nodes.clone()));

    let node = admin.dynamic(&Gvr::new("", "v1", "nodes"), "");
    let mut checks = 0;
    while node.get("node-0").await.is_err() {
        checks += 1;
        assert!(checks < 600, "the node never comes: {:?}", requests(&admin).await);
        cluster.env.sleep(Duration::from_secs(1)).await;
    }
    let requested = requests(&admin).await;
    assert_eq!(requested.len(), 1);
    assert_eq!(requested[0]["spec"]["username"], "system:bootstrap:abcdef");
    let certificate = || std::fs::read_to_string(folder.path().join("node-0-client-current.pem")).unwrap();
    let first = certificate();

    // Once the token is deleted, the node still authenticates with its certificate.
    let secrets = admin.dynamic(&Gvr::new("", "v1", "secrets"), "kube-system");
    secrets.delete(bootstrap_token::SECRET, &Default::default()).await.unwrap();
    cluster.env.sleep(VALIDITY * 95 / 100).await;
    let requested = requests(&admin).await;
    let of_node = |request: &&Value| request["spec"]["username"] == "system:node:node-0";
    assert_eq!(requested.iter().filter(of_node).count(), 1, "{requested:?}");
    assert_ne!(certificate(), first);
    // After the first certificate has expired, the node still renews its lease.
    cluster.env.sleep(VALIDITY / 2).await;
    let leases = admin.dynamic(&Gvr::new("coordination.k8s.io", "v1", "leases"), "kube-node-lease");
    let renewed = leases.get("node-0").await.unwrap()["spec"]["renewTime"].as_str().unwrap().to_owned();
    let age = cluster.env.wall().duration_since(renewed.parse().unwrap());
    assert!(age.as_secs() < 40, "{age}");
    cluster.stop(&[nodes, manager]).await;
}
