//! The scheduler's own pages, beside `/metrics` and `/configz`. Callers have passed the access check.
//!
//! ```text
//! /explain                      the attempts that are kept; ?pod=NAMESPACE/NAME
//! /explain/ID                   one of them; ?what-if=CHANGES&verify=true
//! /explain-held                 the pods that PreEnqueue holds, for which there is no attempt; ?pod=NAMESPACE/NAME
//! /explain-rows?format=csv      every plugin's word on every node, also jsonl and parquet; ?pod=, ?id=
//! /debug/cache, /debug/queue, /debug/comparison
//! /metrics/resources
//! ```

use super::{Inspection, resource_metrics};
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Path, Query, State};
use axum::response::IntoResponse;
use axum::routing::get;
use component_base::env::Env;
use component_base::metrics::TEXT_FORMAT;
use http::{Response, StatusCode, header};
use scheduler_explanation::attempt::Attempt;
use scheduler_explanation::document::{AttemptList, Explanation};
use scheduler_explanation::export::{self, Format, MAX_ROWS};
use scheduler_explanation::{Recorder, explain, rows, verify, what_if};
use scheduler_reference::Cluster;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The parameters of all pages about attempts.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct Parameters {
    pod: String,
    id: Option<u64>,
    what_if: String,
    verify: bool,
    format: String,
}

/// Returns the pages. What takes long is computed on a thread of its own, beside the one that schedules.
pub fn router(inspection: Arc<Inspection>, env: Env) -> Router {
    Router::new()
        .route("/explain", get(list))
        .route("/explain/{id}", get(one))
        .route("/explain-held", get(held))
        .route("/explain-rows", get(export))
        .route("/debug/cache", get(cache))
        .route("/debug/queue", get(queue))
        .route("/debug/comparison", get(comparison))
        .route("/metrics/resources", get(resources))
        .with_state(Pages { inspection, env })
}

#[derive(Clone)]
struct Pages {
    inspection: Arc<Inspection>,
    env: Env,
}

impl FromRef<Pages> for Arc<Inspection> {
    fn from_ref(pages: &Pages) -> Self {
        pages.inspection.clone()
    }
}

impl FromRef<Pages> for Env {
    fn from_ref(pages: &Pages) -> Self {
        pages.env.clone()
    }
}

type Shared = State<Arc<Inspection>>;

#[derive(Serialize)]
struct Nodes<T> {
    nodes: Vec<T>,
}

fn answer(status: StatusCode, media_type: &str, body: impl Into<Body>) -> Response<Body> {
    let built = Response::builder().status(status).header(header::CONTENT_TYPE, media_type).body(body.into());
    built.expect("a status and a constant header make an answer")
}

/// The reason why a page is not shown.
struct Refusal {
    status: StatusCode,
    why: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        answer(self.status, "text/plain; charset=utf-8", self.why + "\n")
    }
}

fn refuse(status: StatusCode, why: impl ToString) -> Refusal {
    Refusal { status, why: why.to_string() }
}

fn json(value: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_vec(value).expect("a document is plain data");
    answer(StatusCode::OK, "application/json", text)
}

/// Shows what only the leader has.
fn shown(value: Option<impl Serialize>) -> Response<Body> {
    match value {
        Some(value) => json(&value),
        None => {
            let why = "this instance does not schedule; another one leads";
            refuse(StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}

async fn cache(State(seen): Shared) -> Response<Body> {
    shown(seen.nodes().map(|nodes| Nodes { nodes }))
}

async fn queue(State(seen): Shared) -> Response<Body> {
    shown(seen.queue())
}

async fn held(State(seen): Shared, Query(asked): Query<Parameters>) -> Response<Body> {
    shown(seen.held(&asked.pod))
}

async fn comparison(State(seen): Shared) -> Response<Body> {
    shown(seen.compare())
}

async fn resources(State(seen): Shared) -> Response<Body> {
    answer(StatusCode::OK, TEXT_FORMAT, resource_metrics::page(&seen.pods().unwrap_or_default()))
}

fn recorder(seen: &Inspection) -> Result<Arc<Recorder>, Refusal> {
    let off = || refuse(StatusCode::NOT_FOUND, "no attempts are kept; the scheduler runs without --explain-attempts");
    seen.recorder.clone().ok_or_else(off)
}

async fn list(State(seen): Shared, Query(asked): Query<Parameters>) -> Result<Response<Body>, Refusal> {
    let attempts = recorder(&seen)?.list();
    let of_pod = attempts.iter().filter(|attempt| asked.pod.is_empty() || attempt.pod.key == asked.pod);
    Ok(json(&AttemptList { items: of_pod.map(|attempt| attempt.summary()).collect() }))
}

async fn one(
    State(seen): Shared,
    State(env): State<Env>,
    Path(id): Path<u64>,
    Query(asked): Query<Parameters>,
) -> Result<Response<Body>, Refusal> {
    let recorder = recorder(&seen)?;
    let surroundings = if asked.verify { seen.surroundings() } else { None };
    Ok(json(&env.blocking(move || explanation(&recorder, id, &asked, surroundings.as_ref())).await?))
}

fn explanation(
    recorder: &Recorder,
    id: u64,
    asked: &Parameters,
    surroundings: Option<&Cluster>,
) -> Result<Explanation, Refusal> {
    let missing = || refuse(StatusCode::NOT_FOUND, format!("attempt {id} is not kept"));
    let (attempt, snapshot) = recorder.get(id).ok_or_else(missing)?;
    let bad = |error: what_if::WhatIfError| refuse(StatusCode::BAD_REQUEST, error);
    let changes = what_if::parse(&asked.what_if).map_err(bad)?;
    let verified = |attempt: &Attempt, explanation: Explanation| match asked.verify {
        true => {
            let verification = Some(verify::verify(attempt, &snapshot, &explanation, surroundings));
            Explanation { verification, ..explanation }
        }
        false => explanation,
    };
    if changes.is_empty() {
        return Ok(verified(&attempt, explain::explain(&attempt, &snapshot)));
    }
    let (changed, explanation) = what_if::what_if(&attempt, &snapshot, &changes).map_err(bad)?;
    Ok(verified(&changed, explanation))
}

async fn export(
    State(seen): Shared,
    State(env): State<Env>,
    Query(asked): Query<Parameters>,
) -> Result<Response<Body>, Refusal> {
    let recorder = recorder(&seen)?;
    let format: Format = asked.format.parse().map_err(|why: String| refuse(StatusCode::BAD_REQUEST, why))?;
    let mut all = Vec::new();
    for attempt in recorder.list() {
        let wanted = asked.pod.is_empty() || attempt.pod.key == asked.pod;
        if !wanted || asked.id.is_some_and(|id| id != attempt.id) {
            continue;
        }
        let (recorder, id) = (recorder.clone(), attempt.id);
        // An attempt may be dropped meanwhile.
        let explained = env.blocking(move || {
            recorder.get(id).map(|(attempt, snapshot)| rows::rows(&explain::explain(&attempt, &snapshot)))
        });
        all.append(&mut explained.await.unwrap_or_default());
        if all.len() > MAX_ROWS {
            let why = format!("more than {MAX_ROWS} rows: ask for one pod with pod=, or for one attempt with id=");
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
    }
    let bytes = export::write(&all, format).map_err(|why| refuse(StatusCode::INTERNAL_SERVER_ERROR, why))?;
    Ok(answer(StatusCode::OK, format.media_type(), bytes))
}
