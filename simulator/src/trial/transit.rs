//! The wire of a trial: requests of components take time, and their watch events come late. It counts what the server
//! answers.

use crate::part::Part;
use axum::body::Body;
use component_base::env::Env;
use component_base::network::HttpService;
use futures::{StreamExt, stream};
use http::{Request, Response, header};
use modelled_api::answered::{Answered, name_of};
use request::info::RequestInfo;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tower::ServiceExt;

/// Frames of one watch that may be on their way.
const FRAMES: usize = 10_000;

/// Whose requests a wire delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Travellers {
    /// Those of the simulated components.
    Components,
    All,
}

/// What the wire does.
#[derive(Clone, Copy, Debug)]
pub struct Transit {
    /// Time of a request.
    pub request: Duration,
    /// Time by which each event of a watch arrives late.
    pub watch: Duration,
    pub of: Travellers,
}

/// Wraps the server's service.
pub fn delayed(service: HttpService, env: &Env, transit: Transit, answered: Arc<Answered>) -> HttpService {
    let Transit { request: request_time, watch, of } = transit;
    let env = env.clone();
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let (env, service, answered) = (env.clone(), service.clone(), answered.clone());
        async move {
            let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
            let is_delayed = of == Travellers::All || agent.and_then(Part::of_user_agent).is_some();
            if is_delayed && !request_time.is_zero() {
                env.sleep(request_time).await;
            }
            let is_late = is_delayed && !watch.is_zero() && is_watch(&request);
            let name = name_of(request.method(), request.uri());
            let answer = service.oneshot(request).await?;
            answered.count(name);
            Ok(if is_late { late(answer, &env, watch) } else { answer })
        }
    }))
}

fn is_watch(request: &Request<Body>) -> bool {
    let uri = request.uri();
    RequestInfo::of(request.method(), uri.path(), uri.query().unwrap_or_default()).verb == "watch"
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
}
