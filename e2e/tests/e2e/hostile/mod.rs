//! Tests that no request makes the server panic or answer 500, and that a refused request changes nothing.
//!
//! The requests are random variations of valid ones, and the same in every run. A greater `PROPTEST_CASES` makes more
//! of them. A failing request is shrunk before it is shown.

mod definitions;
mod documents;
mod requests;

use client::Client;
use component_base::env::Env;
use documents::Document;
use e2e::minimal;
use e2e::raw_request::{Answer, RawRequest};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proto::Gvr;
use proto::resources::{Catalogue, Target, Verb};
use serde_json::{Value, json};
use simulator::Simulation;
use std::time::Duration;

/// Number of bodies, and of patches of each form, that are sent for each kind.
const CASES_PER_KIND: u32 = 6;
/// Virtual time in which every request is answered. A watch ends earlier by its own parameter.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "default";

/// Messages of requests that Kubernetes, too, answers with 500, although the request is invalid.
const KUBERNETES_500: &[&str] = &[
    "resourceVersion should not be set on objects to be created",
    "resourceVersion: Invalid value",
    "failed to create manager",
    "failed to create typed",
    "unable to find api field",
    // Messages about strategic merge patches.
    "unknown patch type",
    "does not contain declared merge key",
    "cannot yet be specified in the patch",
    "The order in patch list",
];

/// Returns the error of an answer that no request should get.
fn server_error(answer: &Answer) -> Option<String> {
    let text = &answer.text;
    match answer.code {
        500 if KUBERNETES_500.iter().any(|known| text.contains(known)) => None,
        // The store works and the server is not overloaded, so 502 and 503 are errors too.
        500 | 502 | 503 => Some(format!("{}: {text}", answer.code)),
        _ => None,
    }
}

/// Runs cases of a strategy. Returns the error of the smallest failing case.
async fn run_cases<S: Strategy>(
    cases: u32,
    strategy: &S,
    mut attempt: impl AsyncFnMut(S::Value) -> Result<(), String>,
) -> Result<(), String> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..cases {
        let mut tree = strategy.new_tree(&mut runner).map_err(|reason| reason.to_string())?;
        let Err(mut why) = attempt(tree.current()).await else { continue };
        let mut goes_on = tree.simplify();
        while goes_on {
            goes_on = match attempt(tree.current()).await {
                Err(smaller) => {
                    why = smaller;
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
        }
        return Err(why);
    }
    Ok(())
}

/// Returns the number of cases of one test.
fn cases() -> u32 {
    Config::default().cases
}

/// Sends a request and checks the answer.
async fn send(client: &Client, env: &Env, request: &RawRequest) -> Result<Answer, String> {
    let answer = match env.timeout(MAX_ANSWER_TIME, request.send(client)).await {
        Err(_elapsed) => return Err(format!("{request}: no answer in {MAX_ANSWER_TIME:?}")),
        Ok(Err(error)) => return Err(format!("{request}: {error}")),
        Ok(Ok(answer)) => answer,
    };
    server_error(&answer).map_or(Ok(answer), |why| Err(format!("{request}\n    {why}")))
}

/// Returns the objects of a collection as one text.
async fn content(client: &Client, path: &str) -> String {
    RawRequest::get(path).send(client).await.expect("the server is there").body["items"].to_string()
}

/// Sends a request that may change a collection. Checks that the collection is unchanged if the request is refused.
async fn write(client: &Client, env: &Env, collection: &str, request: &RawRequest) -> Result<(), String> {
    let before = content(client, collection).await;
    let answer = send(client, env, request).await?;
    if answer.code >= 400 && content(client, collection).await != before {
        return Err(format!("{request}\n    refused with {}, and something changed", answer.code));
    }
    Ok(())
}

/// Runs a scenario with a server that has the service account that pods need.
fn with_server<T>(scenario: impl AsyncFnOnce(&Client, &Env) -> T) -> T {
    Simulation::apiserver_alone(1, async |simulation| {
        let client = simulation.admin();
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        client.dynamic(&Gvr::new("", "v1", "serviceaccounts"), NAMESPACE).create(&account).await.unwrap();
        scenario(&client, simulation.env()).await
    })
}

/// Returns every version of every kind that can be created, with the path of its collection and a small valid object.
fn kinds() -> Vec<(Target, String, Value)> {
    let mut found = Vec::new();
    let catalogue = Catalogue::builtin();
    for row in catalogue.rows() {
        for version in 0..row.served.len() {
            let target = Target { row: row.clone(), served: version };
            let served = target.served();
            let is_served = catalogue.by_gvr(&served.gvr()).is_some();
            if !is_served || !served.has_verb(Verb::Create) || !served.has_verb(Verb::List) {
                continue;
            }
            let object = minimal::in_namespace(served, "hostile", NAMESPACE);
            let root = if served.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", served.group) };
            let place = if row.is_namespaced() { format!("namespaces/{NAMESPACE}/") } else { String::new() };
            let collection = format!("{root}/{}/{place}{}", served.version, served.resource);
            found.push((target, collection, object));
        }
    }
    found
}

/// Sends random variations of a valid object, as bodies of POST and then as bodies of PUT to an existing object.
#[test]
fn bodies_of_every_kind() {
    let failures = with_server(async |client, env| {
        let mut failures = Vec::new();
        for (target, collection, object) in kinds() {
            let bodies = documents::bodies(&object);
            let post = async |body: Document| {
                let request = RawRequest::post(&collection, body.text).content_type(body.media_type);
                write(client, env, &collection, &request).await
            };
            failures.extend(run_cases(CASES_PER_KIND, &bodies, post).await.err());
            let one = existing(client, &target, &collection, &object).await;
            let put = async |body: Document| {
                let request = RawRequest::put(&one, body.text).content_type(body.media_type);
                write(client, env, &collection, &request).await
            };
            failures.extend(run_cases(CASES_PER_KIND, &bodies, put).await.err());
        }
        failures
    });
    assert!(failures.is_empty(), "{} promises broken:\n{}", failures.len(), failures.join("\n"));
}

/// Sends random patches of an existing object in all four forms.
#[test]
fn patches_of_every_kind() {
    let failures = with_server(async |client, env| {
        let mut failures = Vec::new();
        for (target, collection, object) in kinds() {
            let one = existing(client, &target, &collection, &object).await;
            let patch = async |patch: Document| {
                let manager =
                    if patch.media_type == documents::APPLY { "?fieldManager=hostile&force=true" } else { "" };
                let request = RawRequest::patch(&format!("{one}{manager}"), patch.media_type, &patch.text);
                write(client, env, &collection, &request).await
            };
            failures.extend(run_cases(4 * CASES_PER_KIND, &documents::patches(&object), patch).await.err());
        }
        failures
    });
    assert!(failures.is_empty(), "{} promises broken:\n{}", failures.len(), failures.join("\n"));
}

/// Creates a valid object unless it exists. Returns its path.
async fn existing(client: &Client, target: &Target, collection: &str, object: &Value) -> String {
    let namespace = if target.row.is_namespaced() { NAMESPACE } else { "" };
    let created = client.dynamic(&target.gvr(), namespace).create(object).await;
    if let Err(error) = created {
        assert!(matches!(error.code(), 409 | 422), "{}: {error}", target.gvr()); // a random body has created it already
    }
    format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap())
}

/// Sends reads with random paths, parameters, selectors, tokens and headers.
#[test]
fn reads_of_every_form() {
    let outcome = with_server(async |client, env| {
        let read = async |request: RawRequest| send(client, env, &request).await.map(drop);
        run_cases(4 * cases(), &requests::reads(), read).await
    });
    outcome.unwrap();
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Creates definitions with random schemas and CEL rules, and then objects that the rules validate.
#[test]
fn definitions_and_their_rules() {
    let outcome = with_server(async |client, env| {
        let mut count = 0;
        let case = async |case: definitions::Case| {
            count += 1;
            let plural = format!("k{count}");
            let definition = case.definition(&plural).to_string();
            write(client, env, DEFINITIONS, &RawRequest::post(DEFINITIONS, definition.clone())).await?;
            let one = format!("{DEFINITIONS}/{plural}.{}", definitions::GROUP);
            let stored = send(client, env, &RawRequest::get(&one)).await?;
            if stored.code != 200 {
                return Ok(());
            }
            let collection = format!("/apis/{}/v1/{plural}", definitions::GROUP);
            wait_until_served(client, env, &collection).await?;
            let version = format!("{}/v1", definitions::GROUP);
            let object = |content: &Value| {
                let metadata = json!({"name": "o"});
                json!({"apiVersion": version, "kind": plural, "metadata": metadata, "spec": content}).to_string()
            };
            for content in &case.contents {
                write(client, env, &collection, &RawRequest::post(&collection, object(content))).await?;
                let patch = json!({"spec": content}).to_string();
                let one = format!("{collection}/o");
                write(client, env, &collection, &RawRequest::patch(&one, documents::MERGE, &patch)).await?;
            }
            Ok(())
        };
        run_cases(cases() / 4, &definitions::cases(), case).await
    });
    outcome.unwrap();
}

/// Waits until the resource of a new definition is served.
async fn wait_until_served(client: &Client, env: &Env, collection: &str) -> Result<(), String> {
    const MAX_CHECKS: u32 = 100;
    for _ in 0..MAX_CHECKS {
        if send(client, env, &RawRequest::get(collection)).await?.code == 200 {
            return Ok(());
        }
        env.sleep(Duration::from_millis(100)).await;
    }
    Err(format!("{collection} is not served"))
}
