//! The ids of one request in logs: its audit id, and the trace that it belongs to.
//!
//! Corresponds to WithAuditInit of k8s.io/apiserver/pkg/endpoints/filters, and to W3C Trace Context.

use component_base::rng::Random;
use http::{HeaderMap, HeaderName, HeaderValue};

pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const TRACE_PARENT: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";
/// Longest audit id: a longer one from a client is cut.
const MAX_AUDIT_ID_BYTES: usize = 64;

/// The ids of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The client's audit id, or a generated one.
    pub audit: String,
    /// The 32 hexadecimal digits of the trace, if the client sent a valid one.
    pub trace: Option<String>,
}

impl Ids {
    pub fn of(headers: &HeaderMap, random: &Random) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let audit = match text(AUDIT_ID.as_str()) {
            "" => random.uid(),
            // Header values that are text are ASCII.
            given => given[..given.len().min(MAX_AUDIT_ID_BYTES)].to_owned(),
        };
        Self { audit, trace: trace_id(text(TRACE_PARENT)).map(str::to_owned) }
    }

    /// Returns the audit id as a header of the response.
    pub fn audit_header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.audit).ok()
    }
}

/// Returns the headers that pass the trace on to a node's agent.
pub fn trace_headers(headers: &HeaderMap) -> HeaderMap {
    let of_trace = headers.iter().filter(|(name, _)| [TRACE_PARENT, TRACE_STATE].contains(&name.as_str()));
    of_trace.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Reads `00-<trace, 32 digits>-<span, 16 digits>-<flags, 2 digits>`, all lower-case hexadecimal. An id of zeros is
/// none.
fn trace_id(header: &str) -> Option<&str> {
    let parts: Vec<&str> = header.split('-').collect();
    let [version, trace, span, flags, rest @ ..] = parts.as_slice() else { return None };
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let is_some = |part: &str| part.bytes().any(|b| b != b'0');
    // A later version may have more parts.
    let is_known = *version != "ff" && (rest.is_empty() || *version != "00");
    let is_well_formed = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    (is_known && is_well_formed && is_some(trace) && is_some(span)).then_some(*trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;

    #[test]
    fn a_trace_is_passed_on_and_nothing_else() {
        let given = [("authorization", "Bearer x"), (TRACE_PARENT, "00-1-2-01"), (TRACE_STATE, "a=b")];
        let given = given.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let passed = trace_headers(&given.into_iter().collect());
        assert_eq!(passed.len(), 2);
        let values = [TRACE_PARENT, TRACE_STATE].map(|name| passed[name].to_str().unwrap());
        assert_eq!(values, ["00-1-2-01", "a=b"]);
    }

    #[test]
    fn traces_are_those_of_the_standard() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for (header, expected) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), Some(trace)),
            (format!("01-{trace}-00f067aa0ba902b7-01-more"), Some(trace)),
            (format!("00-{trace}-00f067aa0ba902b7-01-more"), None),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), None),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), None),
            (format!("00-{trace}-0000000000000000-01"), None),
            (format!("00-{trace}-00f067aa0ba902b7"), None),
            (String::new(), None),
        ] {
            assert_eq!(trace_id(&header), expected, "{header}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_name_its_request() {
        let random = Env::simulated(1).random("ids");
        let given = |text: &str| HeaderMap::from_iter([(AUDIT_ID, HeaderValue::from_str(text).unwrap())]);
        assert_eq!(Ids::of(&given("mine"), &random).audit, "mine");
        assert_eq!(Ids::of(&given(&"x".repeat(70)), &random).audit, "x".repeat(64));
        assert_eq!(Ids::of(&HeaderMap::new(), &random).audit.len(), 36);
    }
}
