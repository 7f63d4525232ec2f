//! Builds responses: an object, a Status, a line of text or an action's success, encoded in the negotiated form.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.

use crate::media::{Encoding, Form};
use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use proto::Status;
use proto::wire::yaml;
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::Value;
use std::io::Write;

/// Seconds after which a client may retry a request that was refused with 429.
const RETRY_AFTER_S: u32 = 1;
/// Size of the smallest response that is compressed.
const GZIP_THRESHOLD_BYTES: usize = 128 * 1024;

/// A Status that serializes its members in the order in which Kubernetes writes them.
struct Ordered<'a>(&'a Status);

impl Serialize for Ordered<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Status { status, message, reason, details, code, continue_token } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "Status")?;
        map.serialize_entry("apiVersion", "v1")?;
        let mut metadata = serde_json::Map::new();
        if !continue_token.is_empty() {
            metadata.insert("continue".into(), Value::from(continue_token.as_str()));
        }
        map.serialize_entry("metadata", &metadata)?;
        map.serialize_entry("status", status)?;
        if !message.is_empty() {
            map.serialize_entry("message", message)?;
        }
        if !reason.is_empty() {
            map.serialize_entry("reason", reason)?;
        }
        if let Some(details) = details {
            map.serialize_entry("details", details)?;
        }
        if *code != 0 {
            map.serialize_entry("code", code)?;
        }
        map.end()
    }
}

/// Encodes a value in the negotiated form. JSON keeps the order of its members.
pub fn encode<T: Serialize>(form: &Form, value: &T) -> Bytes {
    match form.encoding {
        Encoding::Json => json(value, form.pretty),
        Encoding::Yaml => {
            let tree = serde_json::to_value(value).expect("answers are plain data");
            yaml::to_yaml(&tree).into()
        }
    }
}

/// Writes JSON on one line that ends with a line break, or indented by two without a line break at the end.
fn json<T: Serialize>(value: &T, pretty: bool) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    let written = if pretty {
        serde_json::to_writer_pretty(&mut out, value)
    } else {
        serde_json::to_writer(&mut out, value).inspect(|()| out.push(b'\n'))
    };
    written.expect("answers are plain data");
    Bytes::from(out)
}

/// Encodes JSON that is already written as slices, without a line break at the end, in the negotiated form.
pub fn reencode(form: &Form, slices: &[Bytes]) -> Bytes {
    if form.encoding == Encoding::Json && !form.pretty {
        return concat(slices, b"\n");
    }
    let whole = concat(slices, b"");
    if form.encoding == Encoding::Json {
        return indented(&whole);
    }
    let tree: Value = serde_json::from_slice(&whole).expect("our own JSON");
    encode(form, &tree)
}

/// Indents JSON that has no white space by two. Its members keep their order.
fn indented(json: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut in_string = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        out.push(byte);
        match byte {
            b'\\' if in_string => out.extend(bytes.next()),
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => match bytes.next_if(|next| matches!(next, b'}' | b']')) {
                Some(end) => out.push(end),
                None => {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            },
            b',' => new_line(&mut out, depth),
            b':' => out.push(b' '),
            _ => {}
        }
        if !in_string && bytes.peek().is_some_and(|next| matches!(next, b'}' | b']')) {
            depth = depth.saturating_sub(1);
            new_line(&mut out, depth);
        }
    }
    Bytes::from(out)
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + depth * 2, b' ');
}

fn concat(slices: &[Bytes], end: &[u8]) -> Bytes {
    let mut whole = Vec::with_capacity(slices.iter().map(Bytes::len).sum::<usize>() + end.len());
    slices.iter().for_each(|slice| whole.extend_from_slice(slice));
    whole.extend_from_slice(end);
    Bytes::from(whole)
}

/// Builds a response with a body of known length.
pub fn response(code: u16, content_type: &str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(content_type).expect("a media type"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Builds a response that carries a value in the negotiated form.
pub fn value<T: Serialize>(form: &Form, code: u16, value: &T) -> Response<Body> {
    response(code, form.encoding.media_type(), encode(form, value))
}

/// Builds the response of a Status, with a Retry-After header if its details give one.
pub fn status(form: &Form, status: &Status) -> Response<Body> {
    let code = if status.is_success() { 200 } else { status.code };
    let mut response = value(form, code, &Ordered(status));
    let retry_after_s = status.details.as_ref().and_then(|d| d.retry_after_seconds);
    if let Some(seconds) = retry_after_s.filter(|s| *s > 0) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Builds the 201 of an action that creates no object of its own, such as a binding.
pub fn created(form: &Form) -> Response<Body> {
    value(form, 201, &Ordered(&Status { status: "Success".into(), code: 201, ..Status::default() }))
}

/// Writes a Status as JSON without a line break: the object of an ERROR event.
pub fn status_line(status: &Status) -> Bytes {
    let mut line = serde_json::to_vec(&Ordered(status)).expect("a Status is plain data");
    line.shrink_to_fit();
    Bytes::from(line)
}

/// Builds an error as Go's http.Error writes it: one line of text.
pub fn plain_error(code: u16, line: &str) -> Response<Body> {
    let mut response = text(code, format!("{line}\n"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Builds the 429 of flow control.
pub fn too_many_requests() -> Response<Body> {
    let mut response = plain_error(429, "Too many requests, please try again later.");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    response
}

pub fn text(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    response(code, "text/plain; charset=utf-8", body.into())
}

/// Longest text of all warnings of a response together.
const MAX_WARNINGS_CHARS: usize = 4096;
/// Longest text of one warning when all of them together are longer than [`MAX_WARNINGS_CHARS`].
const MAX_LONG_WARNING_CHARS: usize = 256;

/// Adds one `Warning: 299 - "…"` header for each warning, in order and without duplicates.
pub fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let mut distinct: Vec<&String> = Vec::new();
    for warning in warnings {
        if !distinct.contains(&warning) {
            distinct.push(warning);
        }
    }
    let total: usize = distinct.iter().map(|warning| warning.chars().count()).sum();
    let longest = if total > MAX_WARNINGS_CHARS { MAX_LONG_WARNING_CHARS } else { usize::MAX };
    let mut room = MAX_WARNINGS_CHARS;
    for warning in distinct {
        let length = warning.chars().count().min(longest);
        if length > room {
            break;
        }
        room -= length;
        let clean: String = warning.chars().take(length).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let quoted = clean.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

/// Returns whether the client accepts gzip.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let value = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(',').any(|encoding| encoding.split(';').next().is_some_and(|name| name.trim() == "gzip"))
}

/// Builds a response, and compresses its body if that is large and the client accepts gzip.
pub fn compressed(code: u16, content_type: &str, body: Bytes, gzip: bool) -> Response<Body> {
    if !gzip || body.len() < GZIP_THRESHOLD_BYTES {
        return response(code, content_type, body);
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(&body).expect("writing to memory cannot fail");
    let body = encoder.finish().expect("writing to memory cannot fail");
    let mut response = response(code, content_type, Bytes::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_in_kubernetes_order() {
        let missing = Status::not_found("", "configmaps", "none");
        let body = encode(&Form::default(), &Ordered(&missing));
        assert_eq!(
            body,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"configmaps \\\"none\\\" not found\",\"reason\":\"NotFound\",\"details\":{\"name\":\"none\",\"kind\":\"configmaps\"},\"code\":404}\n"
        );
        let pretty = encode(&Form { pretty: true, ..Form::default() }, &Ordered(&missing));
        assert!(pretty.starts_with(b"{\n  \"kind\": \"Status\",\n") && pretty.ends_with(b"}"));
    }

    #[test]
    fn pretty_json_keeps_the_order_of_its_members() {
        let pretty = Form { pretty: true, ..Form::default() };
        let plain = r#"{"kind":"T","b":{},"a":[1,{"x":"},[\"\\","y":[]},[]],"empty":""}"#;
        let tree: Value = serde_json::from_str(plain).unwrap();
        let sorted = reencode(&pretty, &[Bytes::from(tree.to_string())]);
        assert_eq!(sorted, serde_json::to_vec_pretty(&tree).unwrap());
        let shown = reencode(&pretty, &[Bytes::from_static(plain.as_bytes())]);
        assert!(shown.starts_with(b"{\n  \"kind\": \"T\",\n  \"b\": {},\n  \"a\": [\n    1,\n    {\n"));
        assert_eq!(serde_json::from_slice::<Value>(&shown).unwrap(), tree);
    }

    #[test]
    fn warnings_are_quoted_and_said_once() {
        let mut headers = HeaderMap::new();
        add_warnings(&mut headers, &["a \"b\"".into(), "a \"b\"".into(), "c".into()]);
        let shown: Vec<&str> = headers.get_all("warning").iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(shown, ["299 - \"a \\\"b\\\"\"", "299 - \"c\""]);
    }
}
