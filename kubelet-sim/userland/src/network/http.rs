//! Messages of HTTP/1.1, and their form as bytes.

use super::url::decoded;

/// Bytes of a message's head, and of its body.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_BODY_BYTES: usize = 16 << 20;

/// Header fields in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// Returns the first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Adds a field unless there is one with the name.
    pub fn set_default(&mut self, name: &str, value: impl Into<String>) {
        if self.get(name).is_none() {
            self.0.push((name.to_owned(), value.into()));
        }
    }

    fn text(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub version: String,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl Request {
    pub fn path(&self) -> String {
        decoded(&self.target.split('?').next().unwrap_or_default().replace('+', "%2B"))
    }

    pub fn query(&self) -> Vec<(String, String)> {
        pairs(self.target.split_once('?').map_or("", |(_, query)| query))
    }

    /// Returns the value of a parameter of the query, or of a form in the body.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let is_form = self.headers.get("content-type").is_some_and(|is| is.starts_with("application/x-www-form"));
        let form = if is_form { pairs(&String::from_utf8_lossy(&self.body)) } else { Vec::new() };
        form.into_iter().chain(self.query()).find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the head and the body as they are sent.
    pub fn bytes(&self) -> Vec<u8> {
        let head = format!("{} {} {}\r\n{}\r\n", self.method, self.target, self.version, self.headers.text());
        [head.as_bytes(), &self.body].concat()
    }

    pub fn keeps_connection(&self) -> bool {
        let asked = self.headers.get("connection").unwrap_or_default().to_ascii_lowercase();
        asked != "close" && (self.version == "HTTP/1.1" || asked == "keep-alive")
    }
}

fn pairs(query: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(name), decoded(value))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl Response {
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = Headers(vec![("Content-Type".to_owned(), content_type.to_owned())]);
        Self { status, headers, body: body.into() }
    }

    /// Returns an answer in plain text, as Go's library recognizes it.
    pub fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", body)
    }

    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.0.push((name.to_owned(), value.into()));
        self
    }

    pub fn status_line(&self) -> String {
        format!("HTTP/1.1 {} {}", self.status, reason(self.status))
    }

    /// Returns the status line and the header fields.
    pub fn head(&self) -> String {
        format!("{}\r\n{}\r\n", self.status_line(), self.headers.text())
    }

    /// Returns the bytes of the answer; the answer to `HEAD` has no body.
    pub fn bytes(&self, method: &str) -> Vec<u8> {
        let body: &[u8] = if method == "HEAD" { &[] } else { &self.body };
        [self.head().as_bytes(), body].concat()
    }
}

/// Returns the words that belong to a status.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        412 => "Precondition Failed",
        418 => "I'm a teapot",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Unknown",
    }
}

/// The reason why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// More must be read.
    Incomplete,
    Invalid,
}

struct Head<'a> {
    first: Vec<&'a str>,
    headers: Headers,
    length: usize,
}

fn head(bytes: &[u8]) -> Result<Head<'_>, Malformed> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        // A script may end its lines by line feeds alone.
        let Some(end) = bytes.windows(2).position(|window| window == b"\n\n") else {
            return Err(if bytes.len() > MAX_HEAD_BYTES { Malformed::Invalid } else { Malformed::Incomplete });
        };
        return parsed_head(bytes, end, end + 2);
    };
    parsed_head(bytes, end, end + 4)
}

fn parsed_head(bytes: &[u8], end: usize, length: usize) -> Result<Head<'_>, Malformed> {
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| Malformed::Invalid)?;
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().splitn(3, ' ').collect();
    let field = |line: &str| {
        let (name, value) = line.split_once(':').ok_or(Malformed::Invalid)?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    Ok(Head { first, headers: Headers(lines.map(field).collect::<Result<_, _>>()?), length })
}

/// Returns the body behind a head, and where it ends.
fn body(bytes: &[u8], head: &Head<'_>) -> Result<(Vec<u8>, usize), Malformed> {
    let Some(length) = head.headers.get("content-length") else { return Ok((Vec::new(), head.length)) };
    let length = length.parse::<usize>().ok().filter(|length| *length <= MAX_BODY_BYTES).ok_or(Malformed::Invalid)?;
    let end = head.length + length;
    let body = bytes.get(head.length..end).ok_or(Malformed::Incomplete)?;
    Ok((body.to_vec(), end))
}

/// Reads a request; returns it with the number of its bytes.
pub fn parse_request(bytes: &[u8]) -> Result<(Request, usize), Malformed> {
    let head = head(bytes)?;
    let [method, target, version] = head.first.as_slice() else { return Err(Malformed::Invalid) };
    if !version.starts_with("HTTP/1.") || !target.starts_with(['/', '*']) {
        return Err(Malformed::Invalid);
    }
    let (body, end) = body(bytes, &head)?;
    let request = Request {
        method: (*method).to_owned(),
        target: (*target).to_owned(),
        version: (*version).to_owned(),
        headers: head.headers,
        body,
    };
    Ok((request, end))
}

/// Reads an answer. One without a length goes to the end of the connection, `is_over`.
pub fn parse_response(bytes: &[u8], method: &str, is_over: bool) -> Result<Response, Malformed> {
    let head = head(bytes)?;
    let [version, status, ..] = head.first.as_slice() else { return Err(Malformed::Invalid) };
    let status = status.parse().ok().filter(|_| version.starts_with("HTTP/")).ok_or(Malformed::Invalid)?;
    let has_body = method != "HEAD" && !matches!(status, 204 | 304);
    let body = match has_body {
        false => Vec::new(),
        true if head.headers.get("content-length").is_none() => match is_over {
            true => bytes[head.length..].to_vec(),
            false => return Err(Malformed::Incomplete),
        },
        true => body(bytes, &head)?.0,
    };
    Ok(Response { status, headers: head.headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_complete_or_not() {
        let request = b"POST /a%20b?x=1&y HTTP/1.1\r\nHost: web\r\nContent-Length: 3\r\n\r\nabcGET";
        let (parsed, length) = parse_request(request).unwrap();
        assert_eq!((parsed.path().as_str(), parsed.parameter("x").as_deref()), ("/a b", Some("1")));
        assert_eq!((parsed.body.as_slice(), length), (&b"abc"[..], request.len() - 3));
        assert_eq!(parse_request(&request[..40]).unwrap_err(), Malformed::Incomplete);
        assert_eq!(parse_request(b"hello\n\n").unwrap_err(), Malformed::Invalid);
        assert!(parse_request(b"GET / HTTP/1.0\n\n").is_ok());
        let answer = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest";
        assert_eq!(parse_response(answer, "GET", false).unwrap_err(), Malformed::Incomplete);
        assert_eq!(parse_response(answer, "GET", true).unwrap().body, b"rest");
        assert_eq!(parse_response(answer, "HEAD", false).unwrap().body, b"");
    }
}
