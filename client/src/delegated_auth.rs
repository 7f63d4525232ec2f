//! Who may see a component's own pages: the API server is asked, by TokenReview and SubjectAccessReview.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/options DelegatingAuthentication and DelegatingAuthorization.

use crate::client::Client;
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

/// How long an answer is remembered, as kube-scheduler remembers it.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Answers remembered at a time; beyond that all are forgotten.
const MAX_REMEMBERED: usize = 1_024;

/// What a caller has to be allowed, as the attributes of a SubjectAccessReview: any one of these.
pub type Questions = fn(&Parts) -> Vec<Value>;

/// Asks the API server about every caller.
pub struct DelegatedAuth {
    client: Client,
    questions: Questions,
    /// By caller and question: until when, and the answer.
    remembered: Mutex<BTreeMap<(String, String), (Instant, Result<(), Status>)>>,
}

/// The path itself.
fn path(parts: &Parts) -> Vec<Value> {
    let verb = parts.method.as_str().to_ascii_lowercase();
    vec![json!({"nonResourceAttributes": {"verb": verb, "path": parts.uri.path()}})]
}

impl DelegatedAuth {
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), questions: path, remembered: Mutex::default() }
    }

    /// Asks something else than who may see the path.
    pub fn asking(self, questions: Questions) -> Self {
        Self { questions, ..self }
    }

    async fn decide(&self, parts: &Parts) -> Result<(), Status> {
        let caller = caller(parts)?;
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
        if let Some((until, answer)) = self.remembered.lock().get(&key)
            && *until > now
        {
            return answer.clone();
        }
        let answer = self.ask(caller, question).await;
        if answer.as_ref().is_err_and(|status| status.code >= 500) {
            // Nobody could be asked: that is no answer to remember.
            return answer;
        }
        let mut remembered = self.remembered.lock();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(key, (now + REMEMBERED, answer.clone()));
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

/// In the words of the API server.
fn forbidden(user: &str, question: &Value) -> Status {
    let text = |kind: &str, key: &str| question[kind][key].as_str().unwrap_or_default().to_owned();
    let why = match question.get("resourceAttributes") {
        Some(_) => {
            let of = |key| text("resourceAttributes", key);
            let resource = format!("{}/{}", of("resource"), of("subresource"));
            format!("User {user:?} cannot {} resource {resource:?} {:?}", of("verb"), of("name"))
        }
        None => {
            let of = |key| text("nonResourceAttributes", key);
            format!("User {user:?} cannot {} path {:?}", of("verb"), of("path"))
        }
    };
    Status::forbidden("", "", "", why)
}

/// Nobody is let in while the API server cannot be asked.
fn unreachable(error: crate::Error) -> Status {
    Status::internal(format!("the API server could not be asked: {error}"))
}

enum Caller {
    /// By a verified client certificate, or nobody in particular.
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

/// What the request says of its caller. One that shows nothing may still see what everybody may.
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
        env.sleep(REMEMBERED * 2).await;
        server.fault(Fault { path_contains: "reviews", answer: Status::internal("down"), retry_after_s: None });
        assert!(admit(&auth, "/metrics", Some("token-of-ada")).await.unwrap_err().starts_with("500"));
        assert_eq!(admit(&auth, "/metrics", Some("token-of-ada")).await, Ok(()));
        assert_eq!(server.count("subjectaccessreviews"), 4);
    }
}
