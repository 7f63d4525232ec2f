//! With any request, the server neither panics nor answers 500, and a refused request changes nothing.
//!
//! Requests are random variations of valid ones, the same in every run; `PROPTEST_CASES` makes more of them. A failing
//! request is shrunk and shown.

mod definitions;
mod documents;
mod requests;

use client::Client;
use component_base::env::Env;
use documents::Document;
use e2e::minimal;
use e2e::raw_request::{Answer, RawRequest};
use e2e::simulation::Simulation;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proto::Gvr;
use proto::resources::{Catalogue, Target, Verb};
use serde_json::{Value, json};
use std::time::Duration;

/// Of each kind, so many bodies and patches of each form are tried.
const CASES_PER_KIND: u32 = 6;
/// No request takes so long, in virtual time; what stays open is ended by its own parameter.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "default";

/// What Kubernetes itself answers with 500, though the request is to blame.
const BLAMED_AS_THERE: &[&str] = &[
    "resourceVersion should not be set on objects to be created",
    "resourceVersion: Invalid value",
    "failed to create manager",
    "failed to create typed",
    "unable to find api field",
    // Of strategic merge patches.
    "unknown patch type",
    "does not contain declared merge key",
    "cannot yet be specified in the patch",
    "The order in patch list",
];

/// Returns the reason why no client should ever see an answer.
fn fault(answer: &Answer) -> Option<String> {
    let text = &answer.text;
    match answer.code {
        500 if BLAMED_AS_THERE.iter().any(|known| text.contains(known)) => None,
        // Nothing hangs, and nothing is short of anything.
        500 | 502 | 503 => Some(format!("{}: {text}", answer.code)),
        _ => None,
    }
}

/// Runs cases of a strategy; reports the smallest failing one.
async fn tries<S: Strategy>(
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

/// How many cases a whole property gets.
fn cases() -> u32 {
    Config::default().cases
}

/// Asks, and judges the answer.
async fn judged(client: &Client, env: &Env, request: &RawRequest) -> Result<Answer, String> {
    let answer = match env.timeout(PATIENCE, request.send(client)).await {
        Err(_elapsed) => return Err(format!("{request}: no answer in {PATIENCE:?}")),
        Ok(Err(error)) => return Err(format!("{request}: {error}")),
        Ok(Ok(answer)) => answer,
    };
    fault(&answer).map_or(Ok(answer), |why| Err(format!("{request}\n    {why}")))
}

/// Everything that a collection holds, as one text.
async fn held(client: &Client, path: &str) -> String {
    RawRequest::get(path).send(client).await.expect("the server is there").body["items"].to_string()
}

/// Asks what may change a collection; a refusal must not.
async fn leaves_no_trace(client: &Client, env: &Env, collection: &str, request: &RawRequest) -> Result<(), String> {
    let before = held(client, collection).await;
    let answer = judged(client, env, request).await?;
    if answer.code >= 400 && held(client, collection).await != before {
        return Err(format!("{request}\n    refused with {}, and something changed", answer.code));
    }
    Ok(())
}

/// A server with an account that pods can run under.
fn served<T>(scenario: impl AsyncFnOnce(&Client, &Env) -> T) -> T {
    Simulation::apiserver_alone(1, async |simulation| {
        let client = simulation.admin();
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        client.dynamic(&Gvr::new("", "v1", "serviceaccounts"), NAMESPACE).create(&account).await.unwrap();
        scenario(&client, simulation.env()).await
    })
}

/// Every version of every kind that can be created, with a small valid object.
fn kinds() -> Vec<(Target, String, Value)> {
    let mut found = Vec::new();
    for row in Catalogue::builtin().rows() {
        for version in 0..row.served.len() {
            let target = Target { row: row.clone(), served: version };
            let served = target.served();
            if !served.has_verb(Verb::Create) || !served.has_verb(Verb::List) {
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

/// What chance makes of a valid object, as a body of POST, and then of PUT where the object is there.
#[test]
fn bodies_of_every_kind() {
    let failures = served(async |client, env| {
        let mut failures = Vec::new();
        for (target, collection, object) in kinds() {
            let bodies = documents::bodies(&object);
            let post = async |body: Document| {
                let request = RawRequest::post(&collection, body.text).content_type(body.media_type);
                leaves_no_trace(client, env, &collection, &request).await
            };
            failures.extend(tries(CASES_PER_KIND, &bodies, post).await.err());
            let one = one_of(client, &target, &collection, &object).await;
            let put = async |body: Document| {
                let request = RawRequest::put(&one, body.text).content_type(body.media_type);
                leaves_no_trace(client, env, &collection, &request).await
            };
            failures.extend(tries(CASES_PER_KIND, &bodies, put).await.err());
        }
        failures
    });
    assert!(failures.is_empty(), "{} promises broken:\n{}", failures.len(), failures.join("\n"));
}

/// The same with patches in all four forms.
#[test]
fn patches_of_every_kind() {
    let failures = served(async |client, env| {
        let mut failures = Vec::new();
        for (target, collection, object) in kinds() {
            let one = one_of(client, &target, &collection, &object).await;
            let patch = async |patch: Document| {
                let manager =
                    if patch.media_type == documents::APPLY { "?fieldManager=hostile&force=true" } else { "" };
                let request = RawRequest::patch(&format!("{one}{manager}"), patch.media_type, &patch.text);
                leaves_no_trace(client, env, &collection, &request).await
            };
            failures.extend(tries(4 * CASES_PER_KIND, &documents::patches(&object), patch).await.err());
        }
        failures
    });
    assert!(failures.is_empty(), "{} promises broken:\n{}", failures.len(), failures.join("\n"));
}

/// The path of a valid object, made if it is not there.
async fn one_of(client: &Client, target: &Target, collection: &str, object: &Value) -> String {
    let namespace = if target.row.is_namespaced() { NAMESPACE } else { "" };
    let created = client.dynamic(&target.gvr(), namespace).create(object).await;
    if let Err(error) = created {
        assert!(matches!(error.code(), 409 | 422), "{}: {error}", target.gvr()); // by chance it is there already
    }
    format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap())
}

/// Paths, parameters, selectors, tokens and headers of requests that only read.
#[test]
fn questions() {
    let outcome = served(async |client, env| {
        let question = async |request: RawRequest| judged(client, env, &request).await.map(drop);
        tries(4 * cases(), &requests::questions(), question).await
    });
    outcome.unwrap();
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Definitions with schemas and rules in CEL that chance makes, and objects that their rules judge.
#[test]
fn definitions_and_their_rules() {
    let outcome = served(async |client, env| {
        let mut count = 0;
        let case = async |case: definitions::Case| {
            count += 1;
            let plural = format!("k{count}");
            let definition = case.definition(&plural).to_string();
            leaves_no_trace(client, env, DEFINITIONS, &RawRequest::post(DEFINITIONS, definition.clone())).await?;
            let one = format!("{DEFINITIONS}/{plural}.{}", definitions::GROUP);
            let stored = judged(client, env, &RawRequest::get(&one)).await?;
            if stored.code != 200 {
                return Ok(());
            }
            let collection = format!("/apis/{}/v1/{plural}", definitions::GROUP);
            is_served(client, env, &collection).await?;
            let version = format!("{}/v1", definitions::GROUP);
            let object = |content: &Value| {
                let metadata = json!({"name": "o"});
                json!({"apiVersion": version, "kind": plural, "metadata": metadata, "spec": content}).to_string()
            };
            for content in &case.contents {
                leaves_no_trace(client, env, &collection, &RawRequest::post(&collection, object(content))).await?;
                let patch = json!({"spec": content}).to_string();
                let one = format!("{collection}/o");
                leaves_no_trace(client, env, &collection, &RawRequest::patch(&one, documents::MERGE, &patch)).await?;
            }
            Ok(())
        };
        tries(cases() / 4, &definitions::cases(), case).await
    });
    outcome.unwrap();
}

/// A definition is served soon after it was made.
async fn is_served(client: &Client, env: &Env, collection: &str) -> Result<(), String> {
    const ROUNDS: u32 = 100;
    for _ in 0..ROUNDS {
        if judged(client, env, &RawRequest::get(collection)).await?.code == 200 {
            return Ok(());
        }
        env.sleep(Duration::from_millis(100)).await;
    }
    Err(format!("{collection} is not served"))
}
