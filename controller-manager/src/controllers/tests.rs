//! Tests of the table of controllers: its names, what `--controllers` selects, and that rows and documents are true.

use super::*;
use crate::selection::{UnknownController, selected};
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
    assert_eq!(names("replicaset-controller,deployment").unwrap(), ["deployment-controller", "replicaset-controller"]);
    let without = names("*,-deployment-controller").unwrap();
    assert_eq!(without.len(), all.len() - 1);
    assert!(!without.contains(&"deployment-controller"));
    assert_eq!(names("-deployment").unwrap(), [] as [&str; 0]);
    assert_eq!(names("*,-nothing"), Err(UnknownController("nothing".to_owned())));
}

/// Gates that are off by default, and without which a controller does not start.
const GATES: &[&str] = &[
    "ClusterTrustBundle",
    "DRADeviceTaintRules",
    "GenericWorkload",
    "PodCertificateRequest",
    "StorageVersionAPI",
    "StorageVersionMigrator",
];

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
    let mut context = Context::new(&client, settings);
    context.served = CONTROLLERS.iter().flat_map(ControllerDescriptor::gated).collect();
    for row in CONTROLLERS.iter().chain(crate::cloud::CONTROLLERS) {
        drop(row.start(&context));
    }
    env.drain().await;
}

/// Each controller has a row in docs/controllers.md, with the resources that it watches.
#[test]
fn the_page_about_controllers_is_true() {
    let page = include_str!("../../../docs/controllers.md");
    let rows = CONTROLLERS.iter().chain(crate::cloud::CONTROLLERS);
    let lines = rows.map(|row| format!("| `{}` | {} | ", row.name, row.watched()));
    let missing: Vec<String> = lines.filter(|line| !page.lines().any(|written| written.starts_with(line))).collect();
    assert_eq!(missing, [""; 0], "rows that docs/controllers.md lacks");
}

#[test]
fn names_are_unique() {
    let names: Vec<&str> =
        CONTROLLERS.iter().flat_map(|controller| controller.aliases.iter().copied().chain([controller.name])).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}
