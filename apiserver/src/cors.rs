//! CORS: decides which origins' web pages may read the responses of this server, and writes the headers for the browser.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/filters/cors.go.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use regex::Regex;

/// Methods, request headers and response headers that pages of an allowed origin may use.
const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE, PATCH");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("Date");

/// An invalid value of `--cors-allowed-origins`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    #[error("--cors-allowed-origins: {0:?} is no regular expression")]
    Expression(String),
    #[error("--cors-allowed-origins: {0:?} has to begin with '^' or hold '//', so that it matches whole hosts")]
    Beginning(String),
    #[error("--cors-allowed-origins: {0:?} has to end with '$' or ':', so that it matches whole hosts")]
    End(String),
}

/// The allowed origins; none by default.
#[derive(Debug, Default)]
pub struct Cors(Vec<Regex>);

impl Cors {
    /// Compiles regular expressions of origins, which match without regard to case.
    pub fn new(origins: &[String]) -> Result<Self, OriginError> {
        let expression = |text: &String| {
            if !text.starts_with('^') && !text.contains("//") {
                return Err(OriginError::Beginning(text.clone()));
            }
            let port = text.rfind(':').is_some_and(|at| !text[at..].starts_with("://"));
            if !text.ends_with('$') && !port {
                return Err(OriginError::End(text.clone()));
            }
            Regex::new(&format!("(?i){text}")).map_err(|_| OriginError::Expression(text.clone()))
        };
        Ok(Self(origins.iter().map(expression).collect::<Result<_, _>>()?))
    }

    /// Returns the CORS headers of the response. They are empty if the request names no origin or one that is not allowed.
    pub fn headers(&self, request: &HeaderMap) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let Some(origin) = request.get(header::ORIGIN) else { return headers };
        if self.0.iter().any(|allowed| origin.to_str().is_ok_and(|origin| allowed.is_match(origin))) {
            let mut add = |name: HeaderName, value: HeaderValue| headers.insert(name, value);
            add(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            add(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            add(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
            add(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
            add(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        headers
    }
}

/// Returns whether this is a preflight request: the browser asks for permission first, without credentials.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Builds the response to a preflight request of an allowed origin.
pub fn preflight<B: Default>() -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_whole_hosts() {
        let check = |text: &str| Cors::new(&[text.to_owned()]).map(drop).map_err(|error| error.to_string());
        for good in
            ["^https://example.com$", "//example\\.com:", "^https://.*\\.example\\.com(:|$)$", "//localhost:8080$"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [("example.com$", "begin"), ("^https://example.com", "end"), ("^https://($", "regular")] {
            assert!(check(bad).is_err_and(|error| error.contains(why)), "{bad}");
        }
    }

    #[test]
    fn an_allowed_origin_gets_the_headers() {
        let cors = Cors::new(&["^https://page\\.example$".to_owned()]).unwrap();
        let request = |origin: &'static str| HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))]);
        let headers = cors.headers(&request("https://PAGE.example"));
        assert_eq!(headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://PAGE.example");
        assert_eq!(headers[header::ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
        for stranger in ["https://page.example.org", "http://page.example"] {
            assert!(cors.headers(&request(stranger)).is_empty(), "{stranger}");
        }
        assert!(cors.headers(&HeaderMap::new()).is_empty());
    }
}
