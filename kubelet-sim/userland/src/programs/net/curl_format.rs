//! What `curl` prints about a transfer: errors, and the text of `--write-out`.

use crate::network::fetch::{FetchError, Fetched};
use crate::network::resolver::ResolveError;
use crate::network::url::Url;
use crate::process::network::ConnectError;
use std::time::Duration;

/// The end of a transfer.
pub struct Transfer<'a> {
    pub url: &'a Url,
    pub method: &'a str,
    pub fetched: Option<&'a Fetched>,
    pub elapsed: Duration,
    pub redirects: u32,
    pub exit_code: i32,
    pub error: &'a str,
}

impl Transfer<'_> {
    /// Replaces the variables of a format.
    pub fn write_out(&self, format: &str) -> String {
        let (mut text, mut rest) = (String::new(), format);
        while let Some(at) = rest.find(['%', '\\']) {
            text += &rest[..at];
            rest = &rest[at..];
            let escaped = [("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r"), ("%%", "%")];
            if let Some((mark, value)) = escaped.into_iter().find(|(mark, _)| rest.starts_with(mark)) {
                text += value;
                rest = &rest[mark.len()..];
            } else if let Some((name, behind)) = rest.strip_prefix("%{").and_then(|rest| rest.split_once('}')) {
                text += &self.variable(name);
                rest = behind;
            } else {
                text += &rest[..1];
                rest = &rest[1..];
            }
        }
        text + rest
    }

    fn variable(&self, name: &str) -> String {
        let response = self.fetched.map(|fetched| &fetched.response);
        let header = |name| response.and_then(|response| response.headers.get(name)).unwrap_or_default().to_owned();
        let time = || format!("{:.6}", self.elapsed.as_secs_f64());
        let remote = self.fetched.map(|fetched| fetched.remote);
        let local = self.fetched.map(|fetched| fetched.local);
        let port = |address: Option<std::net::SocketAddr>| address.map_or(0, |address| address.port()).to_string();
        let host =
            |address: Option<std::net::SocketAddr>| address.map(|address| address.ip().to_string()).unwrap_or_default();
        match name {
            "http_code" | "response_code" => format!("{:03}", response.map_or(0, |response| response.status)),
            "remote_ip" => host(remote),
            "remote_port" => port(remote),
            "local_ip" => host(local),
            "local_port" => port(local),
            "content_type" => header("content-type"),
            "redirect_url" => {
                let to = header("location");
                self.url.join(&to).filter(|_| !to.is_empty()).map(|url| url.to_string()).unwrap_or_default()
            }
            "num_redirects" => self.redirects.to_string(),
            "num_connects" => u32::from(self.fetched.is_some()).to_string(),
            "size_download" => match self.method {
                "HEAD" => "0".to_owned(),
                _ => response.map_or(0, |response| response.body.len()).to_string(),
            },
            "size_header" => response.map_or(0, |response| response.head().len()).to_string(),
            "url" | "url_effective" => self.url.to_string(),
            "scheme" => self.url.scheme.to_ascii_uppercase(),
            "method" => self.method.to_owned(),
            "http_version" => if response.is_some() { "1.1" } else { "0" }.to_owned(),
            "exitcode" => self.exit_code.to_string(),
            "errormsg" => self.error.to_owned(),
            name if name.starts_with("time_") => time(),
            _ => String::new(),
        }
    }
}

/// Returns the exit code and the message of an error.
pub fn error(url: &Url, error: &FetchError, waited: Duration) -> (i32, String) {
    let (host, port, ms) = (&url.host, url.port, waited.as_millis());
    match error {
        FetchError::Resolve(ResolveError::Unknown) => (6, format!("Could not resolve host: {host}")),
        FetchError::Resolve(ResolveError::TimedOut) => (28, format!("Resolving timed out after {ms} milliseconds")),
        FetchError::Connect(_, ConnectError::TimedOut) => {
            (28, format!("Failed to connect to {host} port {port} after {ms} ms: Timeout was reached"))
        }
        FetchError::Connect(_, ConnectError::Refused | ConnectError::Unreachable) => {
            (7, format!("Failed to connect to {host} port {port} after {ms} ms: Could not connect to server"))
        }
        FetchError::TimedOut => (28, format!("Operation timed out after {ms} milliseconds with 0 bytes received")),
        FetchError::Empty => (52, "Empty reply from server".to_owned()),
        FetchError::NotHttp => (1, "Received HTTP/0.9 when not allowed".to_owned()),
        FetchError::NotTls => (35, "TLS connect error: error:0A0000C6:SSL routines::packet length too long".to_owned()),
    }
}
