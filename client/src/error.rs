//! Errors of a request: refused by the server, not sent, not answered, or answered unreadably.
//!
//! Corresponds to k8s.io/apimachinery/pkg/api/errors on the client's side.

use proto::Status;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server's answer.
    #[error("{0}")]
    Status(#[from] Box<Status>),
    /// The server could not be reached; the request was not carried out.
    #[error("{0}")]
    Transport(String),
    /// The connection broke before the whole answer had come; the request may have been carried out.
    #[error("{0}")]
    Lost(String),
    /// The answer could not be decoded.
    #[error("{0}")]
    Decode(String),
}

impl Error {
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Status(status) => Some(status),
            Error::Transport(_) | Error::Lost(_) | Error::Decode(_) => None,
        }
    }

    /// Returns true unless the server has clearly refused the request. A connection that could not be made counts, too:
    /// a client does not always know when its connection broke.
    pub fn may_have_succeeded(&self) -> bool {
        self.status().is_none_or(|status| status.code >= 500)
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.status().is_some_and(|status| status.reason == reason)
    }

    /// Returns the HTTP code; 0 without an answer.
    pub fn code(&self) -> u16 {
        self.status().map_or(0, |status| status.code)
    }

    /// Returns why the server cannot be reached, worded as Go's clients word it.
    pub fn in_gos_words(&self, authority: &str) -> String {
        let text = self.to_string();
        let says = |what: &str| text.contains(what);
        if says("onnection refused") {
            format!("dial tcp {authority}: connect: connection refused")
        } else if says("dns error") || says("failed to lookup") {
            let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
            format!("dial tcp: lookup {host}: no such host")
        } else if says("UnknownIssuer") || says("BadSignature") {
            "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
        } else if let Some((_, why)) = text.split_once("invalid peer certificate: ") {
            format!("tls: failed to verify certificate: x509: {why}")
        } else {
            text
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.has_reason("NotFound")
    }

    pub fn is_conflict(&self) -> bool {
        self.has_reason("Conflict")
    }

    pub fn is_already_exists(&self) -> bool {
        self.has_reason("AlreadyExists")
    }

    /// Returns true if the requested revision was compacted, so that the client has to list again.
    pub fn is_gone(&self) -> bool {
        self.has_reason("Gone") || self.has_reason("Expired")
    }

    pub fn is_forbidden(&self) -> bool {
        self.has_reason("Forbidden")
    }

    pub fn is_unauthorized(&self) -> bool {
        self.has_reason("Unauthorized")
    }

    pub fn is_invalid(&self) -> bool {
        self.has_reason("Invalid")
    }

    pub fn is_too_many_requests(&self) -> bool {
        self.has_reason("TooManyRequests") || self.code() == 429
    }

    /// Returns true if the namespace is being deleted, so that a retry is useless.
    pub fn is_namespace_terminating(&self) -> bool {
        let causes = self.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
        self.is_forbidden() && causes.is_some_and(|causes| causes.iter().any(|c| c.reason == "NamespaceTerminating"))
    }

    /// Makes an error of an unsuccessful answer. A body that is no Status, such as a proxy's page, is quoted.
    pub(crate) fn from_answer(code: http::StatusCode, body: &[u8]) -> Self {
        let parsed = serde_json::from_slice::<Status>(body).ok().filter(|status| status.status == "Failure");
        let mut status = parsed.unwrap_or_else(|| {
            let quoted = String::from_utf8_lossy(&body[..body.len().min(2048)]).trim().to_owned();
            let shown = if quoted.is_empty() { code.to_string() } else { quoted };
            Status::failure(code.as_u16(), reason_of(code.as_u16()), shown)
        });
        if status.code == 0 {
            status.code = code.as_u16();
        }
        Error::Status(Box::new(status))
    }
}

/// Returns Kubernetes' reason for a code, for an answer without one.
fn reason_of(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[test]
    fn a_status_keeps_its_words_and_anything_else_is_quoted() {
        let gone = Status::expired("too old resource version").to_value().to_string();
        assert!(Error::from_answer(StatusCode::GONE, gone.as_bytes()).is_gone());
        let page = Error::from_answer(StatusCode::BAD_GATEWAY, b"no upstream\n");
        assert_eq!((page.code(), page.to_string().as_str()), (502, "no upstream"));
        let empty = Error::from_answer(StatusCode::NOT_FOUND, b"");
        assert!(empty.is_not_found());
        assert_eq!(empty.to_string(), "404 Not Found");
    }

    #[test]
    fn unreachable_servers_are_told_in_gos_words() {
        for (text, expected) in [
            (
                "GET /x: a:1: client error (Connect): tcp connect error: Connection refused (os error 111)",
                "dial tcp a:1: connect: connection refused",
            ),
            (
                "GET /x: a:1: client error (Connect): invalid peer certificate: UnknownIssuer",
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
            (
                "client error (Connect): invalid peer certificate: certificate not valid for name \"a\"",
                "tls: failed to verify certificate: x509: certificate not valid for name \"a\"",
            ),
            ("GET /x: a:1: connection closed", "GET /x: a:1: connection closed"),
        ] {
            let error = Error::Transport(text.to_owned());
            assert_eq!(error.in_gos_words("a:1"), expected);
        }
    }

    #[test]
    fn requests_without_a_clear_answer_may_have_succeeded() {
        let answered = |code: StatusCode| Error::from_answer(code, b"");
        for (error, expected) in [
            (answered(StatusCode::INTERNAL_SERVER_ERROR), true),
            (answered(StatusCode::GATEWAY_TIMEOUT), true),
            (answered(StatusCode::CONFLICT), false),
            (answered(StatusCode::TOO_MANY_REQUESTS), false),
            (Error::Lost("connection reset".to_owned()), true),
            (Error::Transport("connection refused".to_owned()), true),
        ] {
            assert_eq!(error.may_have_succeeded(), expected, "{error:?}");
        }
    }
}
