//! Named health checks and the answers of `/healthz`, `/livez` and `/readyz`.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/healthz.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use std::fmt::Write;
use std::sync::Arc;

type Run = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// One thing that can be well or not. Looking must not wait for anything.
#[derive(Clone)]
pub struct Check {
    pub name: &'static str,
    run: Run,
}

impl Check {
    pub fn new(name: &'static str, run: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, run: Arc::new(run) }
    }

    /// Well as long as the process can answer.
    pub fn ping() -> Self {
        Self::new("ping", || Ok(()))
    }
}

/// Answers `/<endpoint>` (where `single` is empty) or `/<endpoint>/<single>`. Why a check fails is logged and not
/// told: the paths are open to everybody.
pub fn answer(endpoint: &str, checks: &[Check], single: &str, query: &str) -> Response<Body> {
    let chosen: Vec<&Check> = checks.iter().filter(|check| single.is_empty() || check.name == single).collect();
    if chosen.is_empty() {
        return text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
    }
    let parameters: Vec<(&str, &str)> =
        query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    let mut excluded: Vec<&str> = parameters.iter().filter(|(name, _)| *name == "exclude").map(|(_, v)| *v).collect();
    let verbose = parameters.iter().any(|(name, _)| *name == "verbose");
    let mut report = String::new();
    let mut failed = Vec::new();
    for check in chosen {
        if let Some(at) = excluded.iter().position(|name| *name == check.name) {
            excluded.remove(at);
            line(&mut report, format_args!("[+]{} excluded: ok", check.name));
            continue;
        }
        match (check.run)() {
            Ok(()) => line(&mut report, format_args!("[+]{} ok", check.name)),
            Err(why) => {
                line(&mut report, format_args!("[-]{} failed: reason withheld", check.name));
                failed.push(format!("{}: {why}", check.name));
            }
        }
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        line(&mut report, format_args!("warn: some health checks cannot be excluded: no matches for {names}"));
    }
    if !failed.is_empty() {
        tracing::debug!(endpoint, failed = failed.join("; "), "health check failed");
        line(&mut report, format_args!("{endpoint} check failed"));
        return text(StatusCode::INTERNAL_SERVER_ERROR, report);
    }
    if !verbose {
        return text(StatusCode::OK, "ok".to_owned());
    }
    line(&mut report, format_args!("{endpoint} check passed"));
    text(StatusCode::OK, report)
}

fn line(report: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(report, "{text}").expect("writing to a String cannot fail");
}

fn text(code: StatusCode, body: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_are_worded_as_kubernetes_words_them() {
        let checks = [Check::ping(), Check::new("etcd", || Err("connection refused".into()))];
        let well = &checks[..1];
        let cases = [
            (well, "", "", 200, "ok"),
            (well, "", "verbose", 200, "[+]ping ok\nreadyz check passed\n"),
            (well, "ping", "", 200, "ok"),
            (well, "other", "", 404, "404 page not found\n"),
            (&checks[..], "", "", 500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"),
            (&checks[..], "", "exclude=etcd", 200, "ok"),
            (
                &checks[..],
                "",
                "verbose&exclude=etcd&exclude=x",
                200,
                "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n",
            ),
            (&checks[..], "etcd", "", 500, "[-]etcd failed: reason withheld\nreadyz check failed\n"),
        ];
        for (checks, single, query, code, expected) in cases {
            let answer = answer("readyz", checks, single, query);
            assert_eq!(answer.status().as_u16(), code, "{single} {query}");
            let body = axum::body::to_bytes(answer.into_body(), 4096).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&body), expected);
        }
    }
}
