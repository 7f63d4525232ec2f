//! `Client`: a transport and an identity, from which every typed or dynamic API is made. It is cheap to clone.
//!
//! Corresponds to rest.Config and rest.Interface of k8s.io/client-go/rest.

use crate::error::Error;
use crate::link::Link;
use crate::request_metrics::RequestMetrics;
use crate::token::{FileToken, FixedToken, TokenSource};
use crate::token_bucket::SharedBucket;
use crate::transport::Transport;
use component_base::env::Env;
use component_base::http::{Body, HttpService};
use component_base::kubeconfig::{Connection, KubeconfigError};
use component_base::options::ClientOptions;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use std::sync::Arc;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// A client of one server under one identity.
#[derive(Clone)]
pub struct Client {
    env: Env,
    pub(crate) transport: Arc<Transport>,
    /// The same transport without a client certificate.
    pub(crate) anonymous: Arc<Transport>,
    /// Path of the server's URL; every request path begins with it.
    prefix: Arc<str>,
    user_agent: HeaderValue,
    tokens: Option<Arc<dyn TokenSource>>,
    impersonated: Option<Arc<Impersonated>>,
    limit: Option<SharedBucket>,
    link: Option<Link>,
    /// True if recorders forget their events.
    forgets_events: bool,
    metrics: Arc<RequestMetrics>,
}

struct Impersonated {
    user: HeaderValue,
    groups: Vec<HeaderValue>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("user_agent", &self.user_agent).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects over the network of `env`: by TLS, or to a service registered in process under the server's authority.
    pub fn connect(env: &Env, connection: &Connection, user_agent: &str) -> Result<Self, Error> {
        let (transport, prefix) = Transport::connect(env, connection)?;
        let mut client = Self::over(env, transport, &prefix, user_agent);
        if connection.client_cert_pem.is_some() {
            let connection = Connection { client_cert_pem: None, client_key_pem: None, ..connection.clone() };
            client.anonymous = Arc::new(Transport::connect(env, &connection)?.0);
        }
        client.tokens = match (&connection.token_file, &connection.token) {
            (Some(path), _) => Some(Arc::new(FileToken::new(env, path))),
            (None, Some(token)) => Some(Arc::new(FixedToken::new(token))),
            (None, None) => None,
        };
        if !connection.impersonate_user.is_empty() {
            let groups: Vec<&str> = connection.impersonate_groups.iter().map(String::as_str).collect();
            client = client.impersonating(&connection.impersonate_user, &groups);
        }
        Ok(client)
    }

    /// Connects with a component's flags: the kubeconfig and the rate limit.
    pub fn from_options(env: &Env, options: &ClientOptions, user_agent: &str) -> Result<Self, ConnectError> {
        let client = Self::connect(env, &options.connection()?, user_agent)?;
        Ok(match options.kube_api_qps {
            Some(qps) if qps > 0.0 => client.with_rate_limit(qps, options.burst()),
            _ => client,
        })
    }

    /// Returns a client that calls a service directly, for the server's own loopback and for tests.
    pub fn from_service(env: &Env, service: HttpService, user_agent: &str) -> Self {
        Self::over(env, Transport::service(service), "", user_agent)
    }

    fn over(env: &Env, transport: Transport, prefix: &str, user_agent: &str) -> Self {
        let host = transport.host();
        let transport = Arc::new(transport);
        Self {
            env: env.clone(),
            anonymous: transport.clone(),
            transport,
            prefix: prefix.into(),
            user_agent: header(user_agent),
            tokens: None,
            impersonated: None,
            limit: None,
            link: None,
            forgets_events: false,
            metrics: Arc::new(RequestMetrics::new(env.metrics(), host)),
        }
    }

    /// Returns a client of the same connection that impersonates a user.
    pub fn impersonating(&self, user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| header(group)).collect();
        Self { impersonated: Some(Arc::new(Impersonated { user: header(user), groups })), ..self.clone() }
    }

    /// Returns a client of the same connection with other bearer tokens.
    pub fn with_token_source(&self, tokens: Arc<dyn TokenSource>) -> Self {
        // Servers authenticate by certificate first, so ours would hide the token's user.
        Self { tokens: Some(tokens), transport: self.anonymous.clone(), ..self.clone() }
    }

    /// Returns a client with at most `qps` requests a second on average, and `burst` at once. Its clones share the limit.
    pub fn with_rate_limit(&self, qps: f64, burst: u32) -> Self {
        Self { limit: Some(SharedBucket::new(&self.env, qps, burst)), ..self.clone() }
    }

    /// Returns a client whose requests fail while the link is cut.
    pub fn over_link(&self, link: &Link) -> Self {
        Self { link: Some(link.clone()), ..self.clone() }
    }

    /// Returns a client whose recorders forget every event, for a cluster in which nobody reads them.
    pub fn without_events(&self) -> Self {
        Self { forgets_events: true, ..self.clone() }
    }

    pub fn with_user_agent(&self, user_agent: &str) -> Self {
        Self { user_agent: header(user_agent), ..self.clone() }
    }

    /// Returns a client of the same connection in another environment, whose shutdown ends the client's informers.
    pub fn in_env(&self, env: &Env) -> Self {
        Self { env: env.clone(), ..self.clone() }
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn forgets_events(&self) -> bool {
        self.forgets_events
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_cut)
    }

    /// Returns the name by which the client introduces itself.
    pub fn user_agent(&self) -> &str {
        self.user_agent.to_str().unwrap_or_default()
    }

    pub(crate) fn tokens(&self) -> Option<&Arc<dyn TokenSource>> {
        self.tokens.as_ref()
    }

    /// Sends one request with this client's identity. The URI is path and query. Returns answers of any code.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Error> {
        if let Some(limit) = &self.limit {
            limit.wait(&self.env).await;
        }
        if self.is_cut_off() {
            let (method, path) = (request.method(), request.uri());
            return Err(Error::Transport(format!("{method} {path}: connect: no route to host")));
        }
        if !self.prefix.is_empty() {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let whole = format!("{}{path}", self.prefix);
            *request.uri_mut() = whole.parse::<Uri>().map_err(|error| Error::Transport(format!("{whole}: {error}")))?;
        }
        let headers = request.headers_mut();
        if !headers.contains_key(USER_AGENT) {
            headers.insert(USER_AGENT, self.user_agent.clone());
        }
        if let Some(impersonated) = &self.impersonated {
            headers.insert(IMPERSONATE_USER, impersonated.user.clone());
            for group in &impersonated.groups {
                headers.append(IMPERSONATE_GROUP, group.clone());
            }
        }
        if let Some(tokens) = &self.tokens {
            let bearer = tokens.authorization().await?;
            request.headers_mut().insert(AUTHORIZATION, bearer);
        }
        let method = request.method().clone();
        let began = self.env.now();
        let answer = self.transport.send(request).await;
        let took = self.env.now().duration_since(began);
        self.metrics.observe(&method, answer.as_ref().ok().map(Response::status), took);
        answer
    }
}

/// The reason why there is no connection, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Client(#[from] Error),
}

/// Returns a name of a user or program as a header value. Bytes that HTTP forbids become question marks; names that the
/// API accepts have none.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| {
        let safe: String = text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
        HeaderValue::from_str(&safe).expect("graphic ASCII is a header value")
    })
}
