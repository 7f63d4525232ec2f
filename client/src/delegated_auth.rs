//! `DelegatedAuth`: asks the API server who may see a component's pages, by TokenReview and SubjectAccessReview.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/options DelegatingAuthentication and DelegatingAuthorization.

use crate::client::Client;
use crate::front_proxy::FrontProxy;
use component_base::health_server::AccessCheck;
use component_base::network::ConnectionInfo;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::request::Parts;
use parking_lot::Mutex;
use proto::{Gvr, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time for which an answer is cached, as in kube-scheduler.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// Most cached answers; beyond that all are dropped.
const CACHE_ENTRIES: usize = 1_024;

/// Returns the permissions of which a caller needs one, as attributes of SubjectAccessReviews.
pub type Questions = fn(&Parts) -> Vec<Value>;

/// Asks the API server about every caller.
pub struct DelegatedAuth {
    client: Client,
    questions: Questions,
    front_proxy: Option<FrontProxy>,
    /// Answers with their expiry, by caller and question.
    cache: Mutex<BTreeMap<(String, String), (Instant, Result<(), Status>)>>,
}

/// Returns the permission for the path itself.
pub fn path_question(parts: &Parts) -> Vec<Value> {
    let verb = parts.method.as_str().to_ascii_lowercase();
    vec![json!({"nonResourceAttributes": {"verb": verb, "path": parts.uri.path()}})]
}

impl DelegatedAuth {
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), questions: path_question, front_proxy: None, cache: Mutex::default() }
    }

    /// Replaces the permission for the path by others.
    pub fn asking(self, questions: Questions) -> Self {
        Self { questions, ..self }
    }

    /// Believes proxies with certificates of the request-header authority about their users.
    pub fn trusting(self, front_proxy: FrontProxy) -> Self {
        Self { front_proxy: Some(front_proxy), ..self }
    }

    fn caller_of(&self, parts: &Parts) -> Result<Caller, Status> {
        let connection = parts.extensions.get::<ConnectionInfo>();
        let by_proxy =
            self.front_proxy.as_ref().zip(connection).and_then(|(proxy, c)| proxy.user_of(c, &parts.headers));
        by_proxy.map_or_else(|| caller(parts), |user| Ok(Caller::Known { user }))
    }

    async fn decide(&self, parts: &Parts) -> Result<(), Status> {
        let caller = self.caller_of(parts)?;
        let mut answer = Err(Status::forbidden("", "", "", "nothing was asked"));
        for question in (self.questions)(parts) {
            answer = self.decide_one(&caller, &question).await;
            if answer.is_ok() {
                break;
            }
        }
        answer
    }

    async fn decide_one(&self, caller: &Caller, question: &Value) -> Result<(), Status> {
        let key = (caller.key(), question.to_string());
        let now = self.client.env().now();
        if let Some((until, answer)) = self.cache.lock().get(&key)
            && *until > now
        {
            return answer.clone();
        }
        let answer = self.ask(caller, question).await;
        if answer.as_ref().is_err_and(|status| status.code >= 500) {
            // The API server was not reached, so there is no answer to cache.
            return answer;
        }
        let mut cache = self.cache.lock();
        if cache.len() >= CACHE_ENTRIES {
            cache.clear();
        }
        cache.insert(key, (now + CACHE_TTL, answer.clone()));
        answer
    }

    async fn ask(&self, caller: &Caller, question: &Value) -> Result<(), Status> {
        let user = match caller {
            Caller::Known { user } => user.clone(),
            Caller::Token(token) => self.review_token(token).await?,
        };
        let mut review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {
                "user": user["username"], "groups": user["groups"], "uid": user["uid"], "extra": user["extra"],
            },
        });
        for (kind, attributes) in question.as_object().into_iter().flatten() {
            review["spec"][kind] = attributes.clone();
        }
        let gvr = Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews");
        let answer = self.client.dynamic(&gvr, "").create(&review).await.map_err(unreachable)?;
        if answer["status"]["allowed"] == true {
            return Ok(());
        }
        let name = user["username"].as_str().unwrap_or_default();
        Err(forbidden(name, question))
    }

    async fn review_token(&self, token: &str) -> Result<Value, Status> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": {"token": token},
        });
        let gvr = Gvr::new("authentication.k8s.io", "v1", "tokenreviews");
        let answer = self.client.dynamic(&gvr, "").create(&review).await.map_err(unreachable)?;
        let status = &answer["status"];
        if status["authenticated"] == true { Ok(status["user"].clone()) } else { Err(Status::unauthorized()) }
    }
}

impl AccessCheck for DelegatedAuth {
    fn admit<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.decide(request))
    }
}

/// Returns the refusal, worded as by the API server.
fn forbidden(user: &str, question: &Value) -> Status {
    let text = |kind: &str, key: &str| question[kind][key].as_str().unwrap_or_default().to_owned();
    let why = match question.get("resourceAttributes") {
        Some(_) => {
            let of = |key| text("resourceAttributes", key);
            let resource = match of("subresource") {
                none if none.is_empty() => of("resource"),
                subresource => format!("{}/{subresource}", of("resource")),
            };
            format!("User {user:?} cannot {} resource {resource:?} {:?}", of("verb"), of("name"))
        }
        None => {
            let of = |key| text("nonResourceAttributes", key);
            format!("User {user:?} cannot {} path {:?}", of("verb"), of("path"))
        }
    };
    Status::forbidden("", "", "", why)
}

/// Returns the refusal while the API server cannot be reached.
fn unreachable(error: crate::Error) -> Status {
    Status::internal(format!("the API server could not be asked: {error}"))
}

enum Caller {
    /// A user with a verified client certificate, or the anonymous user.
    Known {
        user: Value,
    },
    Token(String),
}

impl Caller {
    fn key(&self) -> String {
        match self {
            Self::Known { user } => user.to_string(),
            Self::Token(token) => token.clone(),
        }
    }
}

/// Returns the caller of a request. A caller without credentials is anonymous.
fn caller(parts: &Parts) -> Result<Caller, Status> {
    let connection = parts.extensions.get::<ConnectionInfo>();
    if let Some(leaf) = connection.and_then(|connection| connection.peer_certificates.first()) {
        let (user, mut groups) = component_base::pki::subject(leaf).ok_or_else(Status::unauthorized)?;
        groups.push("system:authenticated".to_owned());
        return Ok(Caller::Known { user: json!({"username": user, "groups": groups}) });
    }
    if let Some(header) = parts.headers.get(AUTHORIZATION) {
        let token = header.to_str().ok().and_then(|header| header.strip_prefix("Bearer "));
        return token.map(|token| Caller::Token(token.trim().to_owned())).ok_or_else(Status::unauthorized);
    }
    if connection.is_some_and(|connection| connection.rejected_certificate) {
        return Err(Status::unauthorized());
    }
    Ok(Caller::Known { user: json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]}) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use client_testing::{FakeServer, Fault};
    use component_base::env::Env;
    use component_base::http::Body;
    use http::Request;

    async fn admit(auth: &DelegatedAuth, path: &str, token: Option<&str>) -> Result<(), String> {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
        auth.admit(&parts).await.map_err(|status| format!("{} {}", status.code, status.message))
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_decides_and_is_asked_once_in_a_while() {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let auth = DelegatedAuth::new(&Client::from_service(&env, server.service(), "test"));
        assert_eq!(admit(&auth, "/metrics", Some("token-of-ada")).await, Ok(()));
        assert_eq!(admit(&auth, "/metrics", Some("token-of-ada")).await, Ok(()));
        assert_eq!((server.count("tokenreviews"), server.count("subjectaccessreviews")), (1, 1));
        let denied = r#"403 forbidden: User "bob" cannot get path "/metrics""#;
        assert_eq!(admit(&auth, "/metrics", Some("token-of-bob")).await, Err(denied.into()));
        assert_eq!(admit(&auth, "/metrics", Some("nonsense")).await, Err("401 Unauthorized".into()));
        let denied = r#"403 forbidden: User "system:anonymous" cannot get path "/metrics""#;
        assert_eq!(admit(&auth, "/metrics", None).await, Err(denied.into()));
        env.sleep(CACHE_TTL * 2).await;
        server.fault(Fault { path_contains: "reviews", answer: Status::internal("down"), retry_after_s: None });
        assert!(admit(&auth, "/metrics", Some("token-of-ada")).await.unwrap_err().starts_with("500"));
        assert_eq!(admit(&auth, "/metrics", Some("token-of-ada")).await, Ok(()));
        assert_eq!(server.count("subjectaccessreviews"), 4);
    }
}
