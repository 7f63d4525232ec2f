//! The wire of a trial: requests of components take time, their watch events come late, and their Events are forgotten.

use crate::part::Part;
use axum::body::Body;
use component_base::env::Env;
use component_base::http::read_all;
use component_base::network::HttpService;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode, header};
use request::info::RequestInfo;
use std::time::Duration;
use tokio::sync::mpsc;
use tower::ServiceExt;

/// Frames of one watch that may be on their way.
const FRAMES: usize = 10_000;
const MAX_EVENT_BYTES: usize = 3 << 20;

/// What the wire does.
#[derive(Clone, Copy, Debug)]
pub struct Transit {
    /// Time of a request.
    pub request: Duration,
    /// Time by which each event of a watch arrives late.
    pub watch: Duration,
    pub keeps_events: bool,
}

/// Wraps the server's service.
pub fn delayed(service: HttpService, env: &Env, transit: Transit) -> HttpService {
    let Transit { request: request_time, watch, keeps_events } = transit;
    let env = env.clone();
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let (env, service) = (env.clone(), service.clone());
        async move {
            let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
            if agent.and_then(Part::of_user_agent).is_none() {
                return service.oneshot(request).await;
            }
            env.sleep(request_time).await;
            let uri = request.uri();
            let info = RequestInfo::of(request.method(), uri.path(), uri.query().unwrap_or_default());
            if !keeps_events && writes_event(&info) {
                return Ok(forget(request).await);
            }
            let answer = service.oneshot(request).await?;
            Ok(if info.verb == "watch" && !watch.is_zero() { late(answer, &env, watch) } else { answer })
        }
    }))
}

fn writes_event(info: &RequestInfo) -> bool {
    info.resource == "events" && matches!(info.verb.as_str(), "create" | "patch")
}

/// Answers a write of an Event as if it was done. Nobody reads the Events of a trial, and they would be half of its requests.
async fn forget(request: Request<Body>) -> Response<Body> {
    let body = read_all(request.into_body(), MAX_EVENT_BYTES).await.unwrap_or_default();
    let answer = Response::builder().status(StatusCode::CREATED).header(header::CONTENT_TYPE, "application/json");
    answer.body(Body::from(body)).expect("the answer is well-formed")
}

/// Passes each frame of a body on when its time has come. Frames that follow each other closely stay as close.
fn late(answer: Response<Body>, env: &Env, by: Duration) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let (sender, frames) = mpsc::channel(FRAMES);
    let sending = env.clone();
    env.spawn(async move {
        let mut body = body.into_data_stream();
        loop {
            let frame = tokio::select! {
                biased;
                () = sender.closed() => return,
                frame = body.next() => frame,
            };
            let Some(frame) = frame else { return };
            if sender.send((sending.now() + by, frame)).await.is_err() {
                return;
            }
        }
    });
    let body = stream::unfold((frames, env.clone()), |(mut frames, env)| async move {
        let (at, frame) = frames.recv().await?;
        env.sleep_until(at).await;
        Some((frame, (frames, env)))
    });
    Response::from_parts(parts, Body::from_stream(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_virtual_time;
    use bytes::Bytes;
    use http::Method;
    use std::convert::Infallible;

    #[test]
    fn frames_are_late_by_the_same_time_each() {
        let at_ms = in_virtual_time(async {
            let env = Env::simulated(1);
            let (began, clock) = (env.now(), env.clone());
            let sent = stream::iter([0, 100, 50]).then(move |after_ms| {
                let clock = clock.clone();
                async move {
                    clock.sleep(Duration::from_millis(after_ms)).await;
                    Ok::<_, Infallible>(Bytes::from_static(b"frame"))
                }
            });
            let answer = late(Response::new(Body::from_stream(sent)), &env, Duration::from_secs(1));
            let received = answer.into_body().into_data_stream().map(|_| env.now().duration_since(began).as_millis());
            received.collect::<Vec<_>>().await
        });
        assert_eq!(at_ms, [1000, 1100, 1150]);
    }

    #[test]
    fn events_are_told_from_other_writes() {
        for (method, path, expected) in [
            (Method::POST, "/api/v1/namespaces/a/events", true),
            (Method::PATCH, "/apis/events.k8s.io/v1/namespaces/a/events/e", true),
            (Method::GET, "/api/v1/namespaces/a/events", false),
            (Method::POST, "/api/v1/namespaces/a/pods", false),
            (Method::POST, "/api/v1/namespaces/events/pods", false),
            (Method::PATCH, "/apis/events.k8s.io/v1/namespaces/a/others/e", false),
        ] {
            assert_eq!(writes_event(&RequestInfo::of(&method, path, "")), expected, "{method} {path}");
        }
    }
}
