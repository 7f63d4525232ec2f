//! Extenders inside the test's process, with canned answers.

use component_base::env::Env;
use component_base::http::{Body, HttpService, read_all};
use component_base::network::Network;
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// The questions of all extenders: the URL and the body.
pub type Asked = Arc<Mutex<Vec<(String, Value)>>>;

#[derive(Clone, Debug)]
pub enum Answer {
    Json(Value),
    Text(u16, &'static str),
    /// The server is silent.
    Never,
}

/// Registers servers for URLs such as `http://a/filter`. Others refuse connections.
pub fn serve(env: &Env, answers: &[(&str, Answer)]) -> Asked {
    let asked = Asked::default();
    let Network::InProcess(registry) = env.network() else { panic!("the environment is simulated") };
    let answers: BTreeMap<String, Answer> = answers.iter().map(|(url, a)| ((*url).to_owned(), a.clone())).collect();
    for url in answers.keys() {
        let authority = url.split('/').nth(2).unwrap().to_owned();
        let (env, answers, asked, host) = (env.clone(), answers.clone(), asked.clone(), authority.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (env, answers, asked) = (env.clone(), answers.clone(), asked.clone());
            let url = format!("http://{host}{}", request.uri().path());
            async move {
                let body = read_all(request.into_body(), 1 << 20).await.unwrap();
                asked.lock().push((url.clone(), serde_json::from_slice(&body).unwrap()));
                let (code, body) = match answers.get(&url).cloned().unwrap_or(Answer::Text(404, "")) {
                    Answer::Json(value) => (200, value.to_string()),
                    Answer::Text(code, text) => (code, text.to_owned()),
                    Answer::Never => {
                        env.sleep(Duration::from_secs(3600)).await;
                        (200, String::new())
                    }
                };
                Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body)).unwrap())
            }
        });
        registry.register(&authority, HttpService::new(service));
    }
    asked
}
