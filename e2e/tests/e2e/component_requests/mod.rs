//! Replays requests of Kubernetes' own components, and checks the answers.
//!
//! The requests were written by hand from the source code of client-go and of the components; they were not recorded,
//! since the components do not run here. Paths, queries, headers and bodies are those of the components, in their
//! order. A row may refer to values that an earlier row has kept.

mod row;

mod discovery;
mod controller_manager;
mod controllers;
mod scheduler;
mod kubelet;
mod kubectl;

use crate::{etcd, program};
use client::Client;
use component_base::kubeconfig::Connection;
use e2e::apiserver::ApiServer;
use e2e::store::Store;
use row::{Kept, Row};

/// Returns all rows, in the order in which the components of a new cluster start.
fn rows() -> Vec<Row> {
    let parts = [
        discovery::rows(),
        controller_manager::rows(),
        controllers::rows(),
        kubelet::registers(),
        scheduler::rows(),
        kubelet::runs(),
        controllers::clean_up(),
        kubectl::rows(),
    ];
    parts.into_iter().flatten().collect()
}

async fn replay(store: Store<'_>) {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), store).await;
    let admin = server.client(&server.admin);
    // A server authenticates by the certificate first, so the client that sends tokens has none.
    let nobody = Connection { client_cert_pem: None, client_key_pem: None, ..server.admin.clone() };
    let nobody: Client = server.client(&nobody);
    let (mut kept, mut failures) = (Kept::default(), Vec::new());
    for row in rows() {
        if let Err(why) = row.replay(&admin, &nobody, &mut kept).await {
            failures.push(why);
        }
    }
    assert!(failures.is_empty(), "{:?}: {} failed:\n{}", store.kind(), failures.len(), failures.join("\n"));
}

#[tokio::test]
async fn modelled_components_are_answered_in_memory() {
    replay(Store::Memory).await;
}

#[tokio::test]
async fn modelled_components_are_answered_on_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    replay(Store::Etcd(&etcd)).await;
}
