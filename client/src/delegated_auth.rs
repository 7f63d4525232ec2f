//! Who may see a component's own pages: the API server is asked, by TokenReview and SubjectAccessReview.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/options DelegatingAuthentication and DelegatingAuthorization.

use crate::client::Client;
use component_base::health_server::Gate;
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

/// Asks the API server about every caller.
pub struct DelegatedAuth {
    client: Client,
    /// By caller, verb and path: until when, and the answer.
    remembered: Mutex<BTreeMap<(String, String, String), (Instant, Result<(), Status>)>>,
}

impl DelegatedAuth {
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), remembered: Mutex::default() }
    }

    async fn decide(&self, parts: &Parts) -> Result<(), Status> {
        let verb = parts.method.as_str().to_ascii_lowercase();
        let path = parts.uri.path().to_owned();
        let caller = caller(parts)?;
        let key = (caller.key(), verb, path);
        let now = self.client.env().now();
        if let Some((until, answer)) = self.remembered.lock().get(&key)
            && *until > now
        {
            return answer.clone();
        }
        let answer = self.ask(caller, &key.1, &key.2).await;
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

    async fn ask(&self, caller: Caller, verb: &str, path: &str) -> Result<(), Status> {
        let user = match caller {
            Caller::Known { user } => user,
            Caller::Token(token) => self.review_token(&token).await?,
        };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {
                "user": user["username"], "groups": user["groups"], "uid": user["uid"], "extra": user["extra"],
                "nonResourceAttributes": {"verb": verb, "path": path},
            },
        });
        let gvr = Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews");
        let answer = self.client.dynamic(&gvr, "").create(&review).await.map_err(unreachable)?;
        if answer["status"]["allowed"] == true {
            return Ok(());
        }
        let name = user["username"].as_str().unwrap_or_default();
        Err(Status::forbidden("", "", "", format!("User {name:?} cannot {verb} path {path:?}")))
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

impl Gate for DelegatedAuth {
    fn admit<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.decide(request))
    }
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
    use crate::fake_server::{FakeServer, Fault};
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
