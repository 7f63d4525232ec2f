//! `RawRequest`: an HTTP request that a test writes out in full, well-formed or not, and its answer.

use client::Client;
use component_base::http::{Body, read_all};
use http::{HeaderMap, Method, Request};
use serde_json::Value;
use std::fmt;

/// Largest size of an answer's body. No test gets more.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// An HTTP request with any method, path, headers and body.
#[derive(Clone, Debug)]
pub struct RawRequest {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// Number of the body's bytes that an error message shows.
const SHOWN_BYTES: usize = 200;

impl fmt::Display for RawRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (name, value) in &self.headers {
            write!(f, " {name}: {value}")?;
        }
        let shown = &self.body[..self.body.len().min(SHOWN_BYTES)];
        write!(f, " {}", String::from_utf8_lossy(shown))
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    /// The body as text.
    pub text: String,
    /// The body as JSON; null if it is none.
    pub body: Value,
}

impl RawRequest {
    fn new(method: Method, path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { method, path: path.to_owned(), headers: Vec::new(), body: body.into() }
    }

    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path, "")
    }

    /// Makes a POST with a JSON body, unless `content_type` sets another type.
    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(Method::POST, path, body).content_type("application/json")
    }

    pub fn put(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(Method::PUT, path, body).content_type("application/json")
    }

    pub fn patch(path: &str, content_type: &str, body: &str) -> Self {
        Self::new(Method::PATCH, path, body).content_type(content_type)
    }

    pub fn delete(path: &str, body: &str) -> Self {
        Self::new(Method::DELETE, path, body).content_type("application/json")
    }

    pub fn content_type(self, content_type: &str) -> Self {
        self.header("content-type", content_type)
    }

    /// Sets a header, and replaces an earlier value.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Adds a header beside others of its name.
    pub fn and_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Sends the request, and reads the whole answer.
    pub async fn send(&self, client: &Client) -> Result<Answer, client::Error> {
        let mut request = Request::builder().method(self.method.clone()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(*name, value.as_bytes());
        }
        let request = request.body(Body::from(self.body.clone())).expect("tests write well-formed paths and headers");
        let (head, body) = client.send(request).await?.into_parts();
        let body = read_all(body, MAX_ANSWER_BYTES).await;
        let body = body.map_err(|error| client::Error::Lost(error.to_string()))?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, text, body })
    }
}
