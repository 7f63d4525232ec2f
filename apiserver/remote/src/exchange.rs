//! Sends one body to another server as JSON, and reads its response.

use super::answers::{Answer, Answers};
use axum::body::Body;
use client::Client;
use http::{HeaderValue, Method, Request, StatusCode, header};
use patch::json_patch::go_json_kind;
use proto::wire::json;
use proto::wire::json_syntax::syntax_error;
use serde_json::Value;

/// The reasons for which there is no valid response.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Unreachable(client::Error),
    /// The response has an error code; the text is the server's own message if it has one.
    #[error("{text}")]
    Refused { code: u16, text: String },
    #[error("{0}")]
    InvalidAnswer(String),
}

impl Failure {
    /// Returns whether another attempt may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(error) => matches!(error, client::Error::Lost(_)),
            Self::Refused { code, .. } => matches!(code, 429 | 500 | 503 | 504),
            Self::InvalidAnswer(_) => false,
        }
    }
}

/// Sends `body` to `path`, which may contain a query.
pub async fn post(client: &Client, path: &str, body: &Value, answers: &Answers) -> Result<Answer<Value>, Failure> {
    let mut request = Request::new(Body::from(json::to_canonical(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse().map_err(|_| Failure::InvalidAnswer("invalid path".to_owned()))?;
    let json_type = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json_type.clone());
    request.headers_mut().insert(header::ACCEPT, json_type);
    let answer = client.send(request).await.map_err(Failure::Unreachable)?;
    let code = answer.status();
    let bytes = answers.read(answer.into_body()).await.map_err(Failure::InvalidAnswer)?;
    if !code.is_success() {
        return Err(Failure::Refused { code: code.as_u16(), text: error_text(code, &bytes) });
    }
    bytes.map(|bytes| decoded(&bytes)).map_err(Failure::InvalidAnswer)
}

/// Decodes a response, which has to be a single object.
fn decoded(bytes: &[u8]) -> Result<Value, String> {
    let wrong = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    match serde_json::from_slice(bytes) {
        Ok(answer @ Value::Object(_)) => Ok(answer),
        Ok(other) => {
            let kind = go_json_kind(&other);
            Err(wrong(format!("json: cannot unmarshal {kind} into Go value of type struct")))
        }
        Err(error) => Err(wrong(syntax_error(bytes).unwrap_or_else(|| error.to_string()))),
    }
}

/// Returns the text of an error response: the server's own message if it has one, worded as in client-go.
fn error_text(code: StatusCode, body: &[u8]) -> String {
    if let Ok(status) = serde_json::from_slice::<Value>(body)
        && let Some(message) = status["message"].as_str().filter(|_| status["kind"] == "Status")
    {
        return message.to_owned();
    }
    match code.as_u16() {
        404 => "the server could not find the requested resource".to_owned(),
        500 => {
            let text = String::from_utf8_lossy(body);
            let text = text.trim();
            format!("an error on the server ({text:?}) has prevented the request from succeeding")
        }
        503 => "the server is currently unable to handle the request".to_owned(),
        _ => format!("the server responded with the status code {} but did not return more information", code.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn garbage_is_told_in_gos_words() {
        for (bytes, why) in [
            (&b"gone fishing"[..], "invalid character 'g' looking for beginning of value"),
            (b"", "unexpected end of JSON input"),
            (b"[]", "json: cannot unmarshal array into Go value of type struct"),
        ] {
            let expected = format!("couldn't get version/kind; json parse error: {why}");
            assert_eq!(decoded(bytes), Err(expected));
        }
        assert_eq!(decoded(b"{}"), Ok(json!({})));
    }

    #[test]
    fn a_refusal_has_the_words_of_who_refuses() {
        let status = json!({"kind": "Status", "message": "no"}).to_string();
        assert_eq!(error_text(StatusCode::BAD_REQUEST, status.as_bytes()), "no");
        let text = error_text(StatusCode::INTERNAL_SERVER_ERROR, b"boom\n");
        assert_eq!(text, "an error on the server (\"boom\") has prevented the request from succeeding");
    }
}
