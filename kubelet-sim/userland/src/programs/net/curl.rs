//! `curl`: fetches pages.
//!
//! Corresponds to curl.

use super::curl_format::{Transfer, error};
use super::curl_options::CurlOptions;
use crate::network::fetch::{FetchError, FetchOptions, Fetched, fetch};
use crate::network::http::{Headers, Request};
use crate::network::resolver::Family;
use crate::network::url::Url;
use crate::process::network::ConnectError;
use crate::process::proc::{Outcome, Proc, Stop};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use std::time::Duration;

const VERSION: &str = "8.14.1";
const MAX_REDIRECTS: u32 = 50;
/// Statuses after which `--retry` tries again.
const TRANSIENT: [u16; 7] = [408, 429, 500, 502, 503, 504, 522];
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

pub async fn curl(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut options = match CurlOptions::parse(&argv[1..]) {
        Ok(options) => options,
        Err((message, code)) => {
            return proc.fail(&format!("curl: {message}\ncurl: try 'curl --help' for more information"), code).await;
        }
    };
    if options.shows_version {
        proc.print(&format!("curl {VERSION} (x86_64-pc-linux-gnu) libcurl/{VERSION}\nProtocols: http https\n")).await?;
        return Ok(0);
    }
    if options.urls.is_empty() {
        return proc.fail("curl: (2) no URL specified\ncurl: try 'curl --help' for more information", 2).await;
    }
    for path in std::mem::take(&mut options.data_files) {
        let content = match path.as_str() {
            "-" => proc.read_all(0).await.unwrap_or_default(),
            path => match proc.tree().read(&proc.actor(), path) {
                Ok(content) => content,
                Err(_) => {
                    return proc.fail("curl: option -d: error encountered when reading a file", 26).await;
                }
            },
        };
        options.data.extend(content);
    }
    let mut code = 0;
    for (number, text) in options.urls.iter().enumerate() {
        code = one(proc, &options, text, options.outputs.get(number).cloned()).await?;
    }
    Ok(code)
}

/// Fetches one address, again and again if the options say so.
async fn one(proc: &mut Proc, options: &CurlOptions, text: &str, output: Option<String>) -> Outcome {
    let Some(url) = Url::parse(text) else {
        return complain(proc, options, 3, "URL rejected: Malformed input to a URL function").await;
    };
    if !matches!(url.scheme.as_str(), "http" | "https") {
        return complain(proc, options, 1, &format!("Protocol {:?} not supported", url.scheme)).await;
    }
    let mut pause = Duration::from_secs(1);
    let mut tries_left = options.retries;
    let started_at = proc.now();
    loop {
        let until = proc.after(options.limit);
        let (mut url, mut redirects, tried_at) = (url.clone(), 0, proc.now());
        let mut method = options.request_method();
        let result = loop {
            let request = request(options, &url, &method);
            if options.is_verbose {
                let head = String::from_utf8_lossy(&request.bytes()[..request.bytes().len() - request.body.len()])
                    .into_owned();
                let lines: String = head.lines().map(|line| format!("> {line}\n")).collect();
                proc.error(&format!("* Host {}:{} was resolved.\n{lines}", url.host, url.port)).await?;
            }
            let result = fetch(proc, &url, &request, &fetch_options(options, &url, until)).await;
            if let (Ok(fetched), true) = (&result, options.is_verbose) {
                let lines: String = fetched.response.head().lines().map(|line| format!("< {line}\n")).collect();
                proc.error(&format!(
                    "* Connected to {} ({}) port {}\n{lines}",
                    url.host,
                    fetched.remote.ip(),
                    url.port
                ))
                .await?;
            }
            let next = match &result {
                Ok(Fetched { response, .. }) if options.follows && (300..400).contains(&response.status) => {
                    if options.includes_head {
                        proc.print(&response.head()).await?;
                    }
                    response.headers.get("location").and_then(|to| url.join(to)).map(|next| (next, response.status))
                }
                _ => None,
            };
            let Some((next, status)) = next else { break result };
            if redirects >= options.max_redirects.unwrap_or(MAX_REDIRECTS) {
                return complain(proc, options, 47, &format!("Maximum ({redirects}) redirects followed")).await;
            }
            redirects += 1;
            url = next;
            if matches!(status, 301..=303) && options.method.is_none() && method == "POST" {
                method = "GET".to_owned();
            }
        };
        if tries_left > 0 && is_worth_another(options, &result) {
            tries_left -= 1;
            let wait = options.retry_delay.filter(|delay| !delay.is_zero()).unwrap_or(pause);
            if !options.is_silent {
                let seconds = wait.as_secs();
                proc.error(&format!("Warning: Problem. Will retry in {seconds} seconds. {tries_left} retries left.\n"))
                    .await?;
            }
            proc.sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            continue;
        }
        let waited = since(proc, tried_at);
        let (code, message) = match &result {
            Ok(fetched) => {
                let status = fetched.response.status;
                match (options.fails || options.fails_with_body) && status >= 400 {
                    true => (22, format!("The requested URL returned error: {status}")),
                    false => (0, String::new()),
                }
            }
            Err(why) => error(&url, why, waited),
        };
        if let Ok(fetched) = &result {
            let hides_body = code != 0 && !options.fails_with_body;
            let stop = show(proc, options, &url, fetched, output.as_deref(), hides_body).await?;
            if stop != 0 {
                return Ok(stop);
            }
        }
        if code != 0 {
            complain(proc, options, code, &message).await?;
        }
        if let Some(format) = &options.write_out {
            let transfer = Transfer {
                url: &url,
                method: &method,
                fetched: result.as_ref().ok(),
                elapsed: since(proc, started_at),
                redirects,
                exit_code: code,
                error: &message,
            };
            let text = transfer.write_out(format);
            proc.print(&text).await?;
        }
        return Ok(code);
    }
}

fn since(proc: &Proc, at: Timestamp) -> Duration {
    Duration::try_from(proc.now().duration_since(at)).unwrap_or_default()
}

async fn complain(proc: &mut Proc, options: &CurlOptions, code: i32, message: &str) -> Outcome {
    if !options.is_silent || options.shows_error {
        proc.error(&format!("curl: ({code}) {message}\n")).await?;
    }
    Ok(code)
}

fn is_worth_another(options: &CurlOptions, result: &Result<Fetched, FetchError>) -> bool {
    match result {
        Ok(fetched) => {
            TRANSIENT.contains(&fetched.response.status)
                || options.retries_all && options.fails && fetched.response.status >= 400
        }
        Err(FetchError::TimedOut | FetchError::Connect(_, ConnectError::TimedOut) | FetchError::Resolve(_)) => true,
        Err(FetchError::Connect(_, ConnectError::Refused)) => options.retries_refused || options.retries_all,
        Err(_) => options.retries_all,
    }
}

fn fetch_options(options: &CurlOptions, url: &Url, until: Option<Timestamp>) -> FetchOptions {
    let given = options.resolve.iter().find(|(host, port, _)| *port == url.port && (*host == url.host || host == "*"));
    FetchOptions {
        family: match (options.only_v4, options.only_v6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        addresses: given.map(|(_, _, addresses)| addresses.clone()).unwrap_or_default(),
        connect_limit: options.connect_limit,
        until,
    }
}

fn request(options: &CurlOptions, url: &Url, method: &str) -> Request {
    let mut target = url.target.clone();
    let sends_body =
        options.has_data && !options.sends_query && method != "GET" || options.method.is_some() && options.has_data;
    if options.sends_query && options.has_data {
        let mark = if target.contains('?') { '&' } else { '?' };
        target = format!("{target}{mark}{}", String::from_utf8_lossy(&options.data));
    }
    let mut headers = Headers(vec![("Host".to_owned(), url.authority())]);
    if let Some(user) = options.user.as_ref().or(url.user.as_ref()) {
        headers.0.push(("Authorization".to_owned(), format!("Basic {}", BASE64.encode(user))));
    }
    if let Some(token) = &options.bearer {
        headers.0.push(("Authorization".to_owned(), format!("Bearer {token}")));
    }
    let agent = options.agent.clone().unwrap_or_else(|| format!("curl/{VERSION}"));
    headers.0.push(("User-Agent".to_owned(), agent));
    headers.0.push(("Accept".to_owned(), if options.is_json { "application/json" } else { "*/*" }.to_owned()));
    for given in &options.headers {
        // `Name:` removes a field, and `Name;` sends it without a value.
        let (name, value) = match (given.split_once(':'), given.strip_suffix(';')) {
            (Some((name, value)), _) => (name.trim(), Some(value.trim()).filter(|value| !value.is_empty())),
            (None, Some(name)) => (name.trim(), Some("")),
            (None, None) => continue,
        };
        headers.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        headers.0.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }
    let body = if sends_body { options.data.clone() } else { Vec::new() };
    if sends_body {
        headers.set_default("Content-Length", body.len().to_string());
        let kind = if options.is_json { "application/json" } else { "application/x-www-form-urlencoded" };
        headers.set_default("Content-Type", kind);
    }
    Request { method: method.to_owned(), target, version: "HTTP/1.1".to_owned(), headers, body }
}

/// Writes head and body to where the options say; returns an exit code when that fails.
async fn show(
    proc: &mut Proc,
    options: &CurlOptions,
    url: &Url,
    fetched: &Fetched,
    output: Option<&str>,
    hides_body: bool,
) -> Result<i32, Stop> {
    let response = &fetched.response;
    let mut bytes = Vec::new();
    if options.includes_head || options.only_head {
        bytes.extend(response.head().bytes());
    }
    if !hides_body && !options.only_head {
        bytes.extend(&response.body);
    }
    let own = url.target.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned();
    let output = output.or(options.uses_remote_name.then_some(own.as_str())).filter(|path| *path != "-");
    match output {
        Some("/dev/null") => {}
        Some(path) => {
            if let Err(why) = proc.tree().write(&proc.actor(), path, &bytes) {
                proc.error(&format!("curl: (23) client returned ERROR on write, {path}: {why}\n")).await?;
                return Ok(23);
            }
        }
        None => proc.write(1, &bytes).await?,
    }
    Ok(0)
}
