//! `Api`: a complete server in this process, on the memory store and in virtual time, for tests from a client's view.

use crate::config::{Config, StoreKind};
use crate::start::{ApiServer, service_on};
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use clap::Parser;
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
/// Limit for the body of an answer. No test reaches it.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Virtual time between two checks of a condition.
const POLL_PERIOD: Duration = Duration::from_millis(10);
/// Checks of a condition before a test fails.
const MAX_POLLS: usize = 2000;

/// A command line with the flags of a server.
#[derive(clap::Parser)]
pub struct Command {
    #[command(flatten)]
    pub config: Config,
}

pub struct Api {
    pub server: ApiServer,
}

/// The server's answer to one request.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
    pub text: String,
    /// The body, or null if it is not JSON.
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
    /// Starts a server with default settings, and waits until it is ready.
    pub async fn start() -> Self {
        Self::with(Config::default()).await
    }

    /// Starts a server with these flags, and waits until it is ready.
    pub async fn with_flags(flags: &[&str]) -> Self {
        Self::with(Command::parse_from([&["apiserver"], flags].concat()).config).await
    }

    /// Starts a server with other settings, on a memory store of its own, and waits until it is ready.
    pub async fn with(config: Config) -> Self {
        let env = Env::simulated(1);
        Self::on(&env, Memory::new(&env), Config { store: Some(StoreKind::Memory), ..config }).await
    }

    /// Starts a server on a store that other servers may use too, and waits until it is ready.
    pub async fn on(env: &Env, storage: Arc<dyn Storage>, config: Config) -> Self {
        let api = Self::starting(env, storage, config);
        while !api.server.server.is_ready() {
            env.sleep(POLL_PERIOD).await;
        }
        api
    }

    /// Starts a server without waiting until it is ready.
    pub fn starting(env: &Env, storage: Arc<dyn Storage>, config: Config) -> Self {
        let mut tokens = tempfile::NamedTempFile::new().expect("a temporary file");
        tokens.write_all(TOKENS.as_bytes()).expect("a small file");
        let path = Some(tokens.path().to_owned());
        let key = Some(fixtures::SERVICE_ACCOUNT_KEY_FILE.into());
        let service_account_signing_key_file = config.service_account_signing_key_file.clone().or(key);
        let config = Config { token_auth_file: path, service_account_signing_key_file, ..config };
        Self { server: service_on(config, env.clone(), storage).expect("the flags are right") }
    }

    /// Repeats a GET until its answer is the wanted one, in virtual time.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        for _ in 0..MAX_POLLS {
            let answer = self.get(path).await;
            if wanted(&answer) {
                return answer;
            }
            self.server.server.env.sleep(POLL_PERIOD).await;
        }
        panic!("{path} never is as wanted: {}", self.get(path).await.text);
    }

    /// Sends a request as the administrator. The headers may name another user, or another media type than JSON.
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

    /// Gets an object in another form, such as a Table.
    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.ask(Method::GET, path, "", &[("accept", accept)]).await
    }

    pub async fn post(&self, path: &str, body: impl ToString) -> Answer {
        self.ask(Method::POST, path, body, &[]).await
    }

    /// Creates an object, which must succeed, and returns it.
    pub async fn create(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, body).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        answer.body
    }
}
