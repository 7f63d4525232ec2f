//! `Call`: one request and its answer, with the retries that the server asks for.
//!
//! Corresponds to k8s.io/client-go/rest/request.go and with_retry.go.

use crate::client::Client;
use crate::error::Error;
use bytes::Bytes;
use component_base::http::{Body, read_all};
use http::header::{ACCEPT, CONTENT_TYPE, IF_NONE_MATCH, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use std::time::Duration;

pub const JSON: &str = "application/json";

/// Most retries after answers with Retry-After, as in client-go.
const MAX_RETRIES: u32 = 10;
/// Pause before a read whose connection was lost is sent again, as in client-go.
const LOST_PAUSE: Duration = Duration::from_secs(1);
/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 30;
/// Most bytes of an error; the rest is dropped.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// A request that can be repeated.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    /// Path and query, encoded.
    pub target: String,
    pub accept: &'static str,
    pub content_type: &'static str,
    pub body: Bytes,
    /// ETag of what the caller has already. An answer of code 304 says that it is still the same, and has no body.
    pub known: Option<HeaderValue>,
}

impl Call {
    pub fn new(method: Method, target: impl Into<String>) -> Self {
        Self { method, target: target.into(), accept: JSON, content_type: JSON, body: Bytes::new(), known: None }
    }

    pub fn body(self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { content_type, body: body.into(), ..self }
    }

    pub fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    /// Asks only for what is not the same as before.
    pub fn unless(self, known: Option<HeaderValue>) -> Self {
        Self { known, ..self }
    }

    fn request(&self) -> Result<Request<Body>, Error> {
        let constant = HeaderValue::from_static;
        let body = if self.body.is_empty() { Body::empty() } else { Body::from(self.body.clone()) };
        let mut request = Request::new(body);
        let unusable = |error| Error::Transport(format!("{} {}: {error}", self.method, self.target));
        *request.uri_mut() = self.target.parse::<Uri>().map_err(unusable)?;
        *request.method_mut() = self.method.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, constant(self.accept));
        if let Some(known) = &self.known {
            headers.insert(IF_NONE_MATCH, known.clone());
        }
        if !self.body.is_empty() {
            headers.insert(CONTENT_TYPE, constant(self.content_type));
        }
        Ok(request)
    }
}

impl Client {
    /// Sends a request, and returns the body of a successful answer.
    pub async fn call(&self, call: &Call) -> Result<Bytes, Error> {
        let answer = self.call_streaming(call).await?;
        read_all(answer.into_body(), MAX_ANSWER_BYTES)
            .await
            .map_err(|error| Error::Lost(format!("{} {}: {error}", call.method, call.target)))
    }

    /// Sends a request, and returns a successful answer whose body is still to be read.
    pub async fn call_streaming(&self, call: &Call) -> Result<Response<Body>, Error> {
        let mut retries = 0;
        let mut renewed_token = false;
        loop {
            let answer = match self.send(call.request()?).await {
                // A read can be repeated safely.
                Err(error @ Error::Lost(_)) if call.method == Method::GET && retries < MAX_RETRIES => {
                    retries += 1;
                    tracing::debug!(target = call.target, %error, "the connection was lost; asking again");
                    self.env().sleep(LOST_PAUSE).await;
                    continue;
                }
                other => other?,
            };
            let is_unchanged = answer.status() == StatusCode::NOT_MODIFIED && call.known.is_some();
            if answer.status().is_success() || is_unchanged {
                return Ok(answer);
            }
            // The token may have been revoked, so a new one is tried once.
            if answer.status() == StatusCode::UNAUTHORIZED && !std::mem::replace(&mut renewed_token, true) {
                let renewed = self.tokens().is_some_and(|tokens| tokens.invalidate());
                if renewed {
                    continue;
                }
            }
            let wait = retry_after(&answer);
            let code = answer.status();
            let body = read_all(answer.into_body(), MAX_ERROR_BYTES).await.unwrap_or_default();
            match wait {
                Some(wait) if retries < MAX_RETRIES => {
                    retries += 1;
                    tracing::debug!(target = call.target, %code, ?wait, "the server asks to come back later");
                    self.env().sleep(wait).await;
                }
                _ => return Err(Error::from_answer(code, &body)),
            }
        }
    }
}

/// Returns the wait that the answer asks for; only such answers are retried.
fn retry_after(answer: &Response<Body>) -> Option<Duration> {
    let code = answer.status();
    if code != StatusCode::TOO_MANY_REQUESTS && !code.is_server_error() {
        return None;
    }
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Builds a path and query with percent-encoding.
#[derive(Clone, Debug)]
pub struct Target {
    text: String,
    has_query: bool,
}

impl Target {
    /// Starts with an encoded path.
    pub fn new(path: String) -> Self {
        Self { text: path, has_query: false }
    }

    pub fn segment(mut self, segment: &str) -> Self {
        self.text.push('/');
        percent_encode(&mut self.text, segment, b"-._~:@!$&'()*+,;=");
        self
    }

    /// Adds a query parameter, unless the value is empty.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        if value.is_empty() {
            return self;
        }
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(name);
        self.text.push('=');
        percent_encode(&mut self.text, value, b"-._~,/:");
        self
    }

    pub fn flag(self, name: &str, set: bool) -> Self {
        if set { self.query(name, "true") } else { self }
    }

    pub fn into_string(self) -> String {
        self.text
    }
}

fn percent_encode(out: &mut String, text: &str, kept: &[u8]) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_encoded() {
        let target = Target::new("/api/v1/pods".into())
            .segment("a b/c")
            .query("labelSelector", "app in (web,db),tier!=x")
            .query("continue", "")
            .flag("watch", true);
        assert_eq!(
            target.into_string(),
            "/api/v1/pods/a%20b%2Fc?labelSelector=app%20in%20%28web,db%29,tier%21%3Dx&watch=true"
        );
    }
}
