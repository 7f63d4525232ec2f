//! Tests with a stock `kubectl` of small controllers: what they write about nodes and into Secrets.

use crate::cluster;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;
use serde_json::{Value, json};

#[test]
fn nodes_are_annotated_and_tokens_name_their_key() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    nodes_say_how_long_to_cache(&kubectl);
    a_token_in_a_secret_names_its_key(&kubectl);
    cluster.stop();
}

fn nodes_say_how_long_to_cache(kubectl: &Kubectl) {
    let ttl = "get nodes --output=jsonpath={.items[*].metadata.annotations.node\\.alpha\\.kubernetes\\.io/ttl}";
    wait::until("each node has a value", || kubectl.ok(ttl) == "0 0 0");
    kubectl.ok("annotate node node-0 --overwrite node.alpha.kubernetes.io/ttl=300");
    wait::until("the value is as before", || kubectl.ok(ttl) == "0 0 0");
}

fn a_token_in_a_secret_names_its_key(kubectl: &Kubectl) {
    kubectl.ok("create serviceaccount robot");
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "robot", "annotations": annotations}
    });
    kubectl.with_input("create -f -", &secret.to_string()).succeeded();
    let token = || kubectl.ok("get secret robot --output=jsonpath={.data.token}");
    wait::until("the secret has a token", || !token().is_empty());
    let token = String::from_utf8(STANDARD.decode(token()).unwrap()).unwrap();
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    let keys: Value = serde_json::from_str(&kubectl.ok("get --raw /openid/v1/jwks")).unwrap();
    assert!(header["kid"].is_string());
    assert_eq!(header["kid"], keys["keys"][0]["kid"]);
}
