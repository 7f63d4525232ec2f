//! `wget`: fetches a page into a file.
//!
//! Corresponds to busybox's wget.

use crate::network::fetch::{FetchError, FetchOptions, fetch};
use crate::network::http::{Headers, Request};
use crate::network::url::Url;
use crate::options;
use crate::process::network::ConnectError;
use crate::process::proc::{Outcome, Proc};
use crate::programs::running::duration;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::time::Duration;

const MAX_REDIRECTS: u32 = 5;
/// The time for which an answer is waited for.
const DEFAULT_LIMIT: Duration = Duration::from_secs(900);

pub async fn wget(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "qO:T:SU:P:Y:ct:k1:2:3:4:5",
        "spider" => 'k', "header" => '1', "post-data" => '2', "user-agent" => 'U', "quiet" => 'q',
        "timeout" => 'T', "tries" => 't', "output-document" => 'O', "server-response" => 'S',
        "no-check-certificate" => '5', "post-file" => '3', "continue" => 'c', "directory-prefix" => 'P',
        "proxy" => 'Y', "ca-certificate" => '4');
    let Some(text) = options.operands.first() else { return proc.fail("wget: missing URL", 1).await };
    let Some(mut url) = Url::parse(text).filter(|url| matches!(url.scheme.as_str(), "http" | "https")) else {
        return proc.fail(&format!("wget: not an http or ftp url: {text}"), 1).await;
    };
    let is_quiet = options.has('q');
    let mut posted = options.value('2').map(|text| text.as_bytes().to_vec());
    if let Some(path) = options.value('3') {
        match proc.tree().read(&proc.actor(), path) {
            Ok(content) => posted = Some(content),
            Err(error) => return proc.fail(&format!("wget: can't open '{path}': {error}"), 1).await,
        }
    }
    let limit = options.value('T').and_then(duration).filter(|limit| !limit.is_zero()).unwrap_or(DEFAULT_LIMIT);
    for _ in 0..=MAX_REDIRECTS {
        let mut headers = Headers(vec![("Host".to_owned(), url.authority())]);
        headers.0.push(("User-Agent".to_owned(), options.value('U').unwrap_or("Wget").to_owned()));
        headers.0.push(("Connection".to_owned(), "close".to_owned()));
        for given in options.values('1') {
            if let Some((name, value)) = given.split_once(':') {
                headers.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name.trim()));
                headers.0.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        if let Some(user) = &url.user {
            headers.set_default("Authorization", format!("Basic {}", BASE64.encode(user)));
        }
        if let Some(posted) = &posted {
            headers.set_default("Content-Type", "application/x-www-form-urlencoded");
            headers.set_default("Content-Length", posted.len().to_string());
        }
        let request = Request {
            method: if posted.is_some() { "POST" } else { "GET" }.to_owned(),
            target: url.target.clone(),
            version: "HTTP/1.1".to_owned(),
            headers,
            body: posted.clone().unwrap_or_default(),
        };
        let fetch_options =
            FetchOptions { connect_limit: Some(limit), until: proc.after(Some(limit)), ..FetchOptions::default() };
        let fetched = match fetch(proc, &url, &request, &fetch_options).await {
            Ok(fetched) => fetched,
            Err(error) => {
                if let (FetchError::Connect(to, _), false) = (error, is_quiet) {
                    proc.error(&format!("Connecting to {} ({to})\n", url.authority())).await?;
                }
                let why = reason(&url, &error);
                return proc.fail(&format!("wget: {why}"), 1).await;
            }
        };
        if !is_quiet {
            proc.error(&format!("Connecting to {} ({})\n", url.authority(), fetched.remote)).await?;
        }
        let response = fetched.response;
        if options.has('S') {
            let head: String =
                response.head().lines().filter(|line| !line.is_empty()).map(|line| format!("  {line}\n")).collect();
            proc.error(&head).await?;
        }
        match (response.status, response.headers.get("location")) {
            (301..=308, Some(to)) => {
                let Some(next) = url.join(to) else {
                    return proc.fail(&format!("wget: bad redirection: {to}"), 1).await;
                };
                url = next;
                continue;
            }
            (200..=299, _) => {}
            _ => return proc.fail(&format!("wget: server returned error: {}", response.status_line()), 1).await,
        }
        if options.has('k') {
            if !is_quiet {
                proc.error("remote file exists\n").await?;
            }
            return Ok(0);
        }
        return save(proc, &url, &response.body, options.value('O'), options.value('P'), is_quiet).await;
    }
    proc.fail("wget: too many redirections", 1).await
}

/// Writes a page to standard output or into a file.
async fn save(
    proc: &mut Proc,
    url: &Url,
    body: &[u8],
    given: Option<&str>,
    folder: Option<&str>,
    is_quiet: bool,
) -> Outcome {
    let name = url.target.split('?').next().and_then(|path| path.rsplit('/').next()).filter(|name| !name.is_empty());
    let own = name.unwrap_or("index.html");
    let path = match (given, folder) {
        (Some("-"), _) => {
            if !is_quiet {
                proc.error("writing to stdout\n").await?;
            }
            proc.write(1, body).await?;
            if !is_quiet {
                proc.error(&format!("{}written to stdout\n", bar("-", body.len()))).await?;
            }
            return Ok(0);
        }
        (Some(given), _) => given.to_owned(),
        (None, Some(folder)) => format!("{}/{own}", folder.trim_end_matches('/')),
        (None, None) => own.to_owned(),
    };
    if given.is_none() && proc.tree().metadata(&proc.actor(), &path, true).is_ok() {
        return proc.fail(&format!("wget: can't open '{path}': File exists"), 1).await;
    }
    if !is_quiet {
        proc.error(&format!("saving to '{path}'\n")).await?;
    }
    if let Err(error) = proc.tree().write(&proc.actor(), &path, body) {
        return proc.fail(&format!("wget: can't open '{path}': {error}"), 1).await;
    }
    if !is_quiet {
        let shown = path.rsplit('/').next().unwrap_or_default();
        proc.error(&format!("{}'{path}' saved\n", bar(shown, body.len()))).await?;
    }
    Ok(0)
}

/// Returns the last state of the bar that shows the progress.
fn bar(name: &str, length: usize) -> String {
    format!("{name:<20} 100% |{}| {length:>5}  0:00:00 ETA\n", "*".repeat(32))
}

fn reason(url: &Url, error: &FetchError) -> String {
    match error {
        FetchError::Resolve(_) => format!("bad address '{}'", url.authority()),
        FetchError::Connect(to, ConnectError::Refused) => {
            format!("can't connect to remote host ({}): Connection refused", to.ip())
        }
        FetchError::Connect(to, ConnectError::Unreachable) => {
            format!("can't connect to remote host ({}): No route to host", to.ip())
        }
        FetchError::Connect(_, ConnectError::TimedOut) | FetchError::TimedOut => "download timed out".to_owned(),
        FetchError::Empty => "error getting response".to_owned(),
        FetchError::NotHttp => "server returned error: bad response".to_owned(),
        FetchError::NotTls => "TLS error from peer (alert code 80): 80".to_owned(),
    }
}
