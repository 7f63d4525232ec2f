//! `Api`: a whole server in this process, on the memory store and in virtual time, for tests of what clients see.

use crate::config::{Config, StoreKind};
use crate::start::{ApiServer, service_on};
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use component_base::env::Env;
use component_base_testing::fixtures;
use http::{HeaderMap, Method, Request, header};
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use storage::memory::Memory;
use tower::ServiceExt;

const TOKENS: &str = "admin-token,admin,admin,\"system:masters\"\nann-token,ann,u-ann,devs\n";
/// More than any answer of a test.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Between two looks whether the server is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Looks at what does not come before a test gives up.
const LOOKS: usize = 2000;

pub struct Api {
    pub server: ApiServer,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
    pub text: String,
    /// Null where it is no JSON.
    pub body: Value,
}

impl Answer {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub fn warnings(&self) -> Vec<&str> {
        self.headers.get_all(header::WARNING).iter().filter_map(|v| v.to_str().ok()).collect()
    }
}

impl Api {
    /// A server that is ready, with what every cluster has.
    pub async fn start() -> Self {
        Self::with(Config::default()).await
    }

    /// Told more than that it keeps its objects in memory.
    pub async fn with(config: Config) -> Self {
        let env = Env::simulated(1);
        Self::on(&env, Memory::new(&env), Config { store: Some(StoreKind::Memory), ..config }).await
    }

    /// The same on a store that others may use too.
    pub async fn on(env: &Env, storage: Arc<dyn Storage>, config: Config) -> Self {
        let api = Self::starting(env, storage, config);
        while !api.server.server.is_ready() {
            env.sleep(LOOK_AGAIN).await;
        }
        api
    }

    /// A server that may never be ready.
    pub fn starting(env: &Env, storage: Arc<dyn Storage>, config: Config) -> Self {
        let mut tokens = tempfile::NamedTempFile::new().expect("a temporary file");
        tokens.write_all(TOKENS.as_bytes()).expect("a small file");
        let path = Some(tokens.path().to_owned());
        let key = Some(fixtures::SERVICE_ACCOUNT_KEY_FILE.into());
        let service_account_signing_key_file = config.service_account_signing_key_file.clone().or(key);
        let config = Config { token_auth_file: path, service_account_signing_key_file, ..config };
        Self { server: service_on(config, env.clone(), storage).expect("the flags are right") }
    }

    /// Asks until the answer is the wanted one, in virtual time.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        for _ in 0..LOOKS {
            let answer = self.get(path).await;
            if wanted(&answer) {
                return answer;
            }
            self.server.server.env.sleep(LOOK_AGAIN).await;
        }
        panic!("{path} never is as wanted: {}", self.get(path).await.text);
    }

    /// As the administrator; a body is JSON unless a header says otherwise.
    pub async fn ask(&self, method: Method, path: &str, body: impl ToString, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        let says = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        for (name, value) in [("authorization", "Bearer admin-token"), ("content-type", "application/json")] {
            if !says(name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_string())).expect("tests write well-formed requests");
        let Ok(response) = self.server.service.clone().oneshot(request).await;
        let (head, body) = response.into_parts();
        let bytes = to_bytes(body, MAX_ANSWER_BYTES).await.expect("an answer arrives whole");
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            bytes,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, "", &[]).await
    }

    /// In another form: a table, metadata.
    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.ask(Method::GET, path, "", &[("accept", accept)]).await
    }

    pub async fn post(&self, path: &str, body: impl ToString) -> Answer {
        self.ask(Method::POST, path, body, &[]).await
    }

    /// A creation that has to succeed.
    pub async fn create(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, body).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        answer.body
    }
}
