//! Tests of lists in pages and at given versions, of compression, and of documents that a client has already.

use super::{CONFIG_MAPS, METADATA_LIST};
use crate::config::Config;
use crate::testing::{Answer, Api};
use component_base::env::Env;
use flate2::read::GzDecoder;
use http::Method;
use serde_json::{Value, json};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use storage::memory::Memory;

const OF_TEST: &str = "labelSelector=of=test";

async fn put(api: &Api, name: &str) -> Value {
    api.create(CONFIG_MAPS, json!({"metadata": {"name": name, "labels": {"of": "test"}}})).await
}

fn names(answer: &Answer) -> Vec<&str> {
    assert_eq!(answer.code, 200, "{}", answer.text);
    answer.body["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn meta<'a>(answer: &'a Answer, field: &str) -> &'a Value {
    &answer.body["metadata"][field]
}

fn token(answer: &Answer) -> &str {
    meta(answer, "continue").as_str().unwrap()
}

/// Servers that share one store. A test starts them one by one.
struct Cluster {
    env: Env,
    storage: Arc<dyn Storage>,
}

impl Cluster {
    fn new() -> Self {
        let env = Env::simulated(1);
        let storage: Arc<dyn Storage> = Memory::new(&env);
        Self { env, storage }
    }

    async fn server(&self) -> Api {
        Api::on(&self.env, self.storage.clone(), Config::default()).await
    }
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_revision_whichever_server_is_asked() {
    let cluster = Cluster::new();
    let (one, other) = (cluster.server().await, cluster.server().await);
    for name in ["a", "b", "c", "d", "e"] {
        put(&one, name).await;
    }
    let first = one.get(&format!("{CONFIG_MAPS}?limit=2&{OF_TEST}")).await;
    assert_eq!(
        (names(&first), meta(&first, "remainingItemCount")),
        (vec!["a", "b"], &Value::Null),
        "selectors leave out some"
    );
    one.ask(Method::DELETE, &format!("{CONFIG_MAPS}/c"), "", &[]).await;
    put(&one, "d0").await;
    let late = cluster.server().await;
    for server in [&one, &other, &late] {
        let next = server.get(&format!("{CONFIG_MAPS}?limit=2&{OF_TEST}&continue={}", token(&first))).await;
        assert_eq!(names(&next), ["c", "d"], "as it was");
        assert_eq!(meta(&next, "resourceVersion"), meta(&first, "resourceVersion"));
        let last = server.get(&format!("{CONFIG_MAPS}?limit=2&{OF_TEST}&continue={}", token(&next))).await;
        assert_eq!((names(&last), last.body["metadata"].get("continue")), (vec!["e"], None));
    }
    let all = one.get(CONFIG_MAPS).await;
    let page = one.get_as(&format!("{CONFIG_MAPS}?limit=2"), METADATA_LIST).await;
    assert_eq!(meta(&page, "remainingItemCount"), names(&all).len() - 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_comes_with_one_that_continues_at_the_current_revision() {
    let cluster = Cluster::new();
    let api = cluster.server().await;
    for name in ["a", "b", "c"] {
        put(&api, name).await;
    }
    let first = api.get(&format!("{CONFIG_MAPS}?limit=1&{OF_TEST}")).await;
    let newest = put(&api, "b0").await["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    cluster.storage.compact(newest).await.unwrap();
    // The cache of a server that starts now holds no older revisions.
    let late = cluster.server().await;
    let expired = late.get(&format!("{CONFIG_MAPS}?limit=1&{OF_TEST}&continue={}", token(&first))).await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")), "{}", expired.text);
    let rest = late.get(&format!("{CONFIG_MAPS}?{OF_TEST}&continue={}", token(&expired))).await;
    assert_eq!(names(&rest), ["b", "b0", "c"]);
    let exact = meta(&first, "resourceVersion").as_str().unwrap();
    let old = late.get(&format!("{CONFIG_MAPS}?resourceVersion={exact}&resourceVersionMatch=Exact")).await;
    assert_eq!((old.code, old.message()), (410, "The resourceVersion for the provided list is too old."));
}

/// The store is compacted every five minutes, up to the revision of five minutes before.
#[tokio::test(start_paused = true)]
async fn a_token_lives_for_five_minutes_and_not_for_ten() {
    let cluster = Cluster::new();
    let api = cluster.server().await;
    for name in ["a", "b", "c"] {
        put(&api, name).await;
    }
    let first = api.get(&format!("{CONFIG_MAPS}?limit=1&{OF_TEST}")).await;
    put(&api, "b0").await;
    let next = format!("{CONFIG_MAPS}?limit=1&{OF_TEST}&continue={}", token(&first));
    cluster.env.sleep(Duration::from_secs(299)).await;
    assert_eq!(names(&api.get(&next).await), ["b"], "as it was");
    cluster.env.sleep(Duration::from_secs(301)).await;
    let expired = api.get(&next).await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")), "{}", expired.text);
    assert!(expired.message().starts_with("The provided continue parameter is too old "), "{}", expired.text);
    let rest = api.get(&format!("{CONFIG_MAPS}?{OF_TEST}&continue={}", token(&expired))).await;
    assert_eq!(names(&rest), ["b", "b0", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_is_exact_or_a_lower_bound() {
    let api = Api::start().await;
    let first = put(&api, "a").await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    put(&api, "b").await;
    for (matching, expected) in [("Exact", vec!["a"]), ("NotOlderThan", vec!["a", "b"])] {
        let path = format!("{CONFIG_MAPS}?{OF_TEST}&resourceVersion={first}&resourceVersionMatch={matching}");
        assert_eq!(names(&api.get(&path).await), expected, "{matching}");
    }
    assert_eq!(names(&api.get(&format!("{CONFIG_MAPS}?{OF_TEST}&resourceVersion=0")).await), ["a", "b"]);
    let future = format!("{CONFIG_MAPS}?resourceVersion=999999999&resourceVersionMatch=Exact");
    assert_eq!(api.get(&future).await.code, 504);
}

#[tokio::test(start_paused = true)]
async fn large_answers_are_compressed_for_clients_that_accept_gzip() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        let data = json!({"x": "y".repeat(100 * 1024)});
        api.create(CONFIG_MAPS, json!({"metadata": {"name": name, "labels": {"of": "test"}}, "data": data})).await;
    }
    for path in [format!("{CONFIG_MAPS}?{OF_TEST}"), format!("{CONFIG_MAPS}?{OF_TEST}&pretty=true")] {
        let plain = api.get(&path).await;
        assert_eq!(plain.headers.get("content-encoding"), None);
        let packed = api.ask(Method::GET, &path, "", &[("accept-encoding", "gzip")]).await;
        assert_eq!(packed.headers["content-encoding"], "gzip");
        let mut text = String::new();
        GzDecoder::new(&packed.bytes[..]).read_to_string(&mut text).unwrap();
        assert!(text == plain.text && packed.bytes.len() < plain.bytes.len() / 10);
    }
    let small = api
        .ask(
            Method::GET,
            &format!("{CONFIG_MAPS}?limit=1&fieldSelector=metadata.name=none"),
            "",
            &[("accept-encoding", "gzip")],
        )
        .await;
    assert_eq!(small.headers.get("content-encoding"), None, "not worth it");
}

#[tokio::test(start_paused = true)]
async fn a_document_that_the_client_has_is_not_sent_again() {
    let api = Api::start().await;
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, accept) in [
        ("/apis", aggregated),
        ("/api", aggregated),
        ("/openapi/v2", "application/json"),
        ("/openapi/v3", "application/json"),
        ("/openapi/v3/apis/apps/v1", "application/json"),
    ] {
        let whole = api.get_as(path, accept).await;
        let tag = whole.headers["etag"].to_str().unwrap();
        assert!(whole.code == 200 && tag.starts_with('"'), "{path}: {tag}");
        let again = api.ask(Method::GET, path, "", &[("accept", accept), ("if-none-match", tag)]).await;
        assert_eq!((again.code, again.bytes.len(), &again.headers["etag"]), (304, 0, &whole.headers["etag"]), "{path}");
        let changed = api.ask(Method::GET, path, "", &[("accept", accept), ("if-none-match", "\"old\"")]).await;
        assert_eq!((changed.code, changed.bytes), (200, whole.bytes), "{path}");
    }
}
