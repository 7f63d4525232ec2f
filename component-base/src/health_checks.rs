//! Named health checks, and the answers of `/healthz`, `/livez` and `/readyz`.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/healthz.

use crate::health_metrics::HealthMetrics;
use axum::body::Body;
use axum::extract::Query;
use http::{HeaderValue, Response, StatusCode, Uri, header};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

type Run = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// One health check. It must not block.
#[derive(Clone)]
pub struct Check {
    pub name: &'static str,
    run: Run,
}

impl Check {
    pub fn new(name: &'static str, run: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, run: Arc::new(run) }
    }

    /// Returns the check `ping`, which always succeeds.
    pub fn ping() -> Self {
        Self::new("ping", || Ok(()))
    }
}

/// Answers `/<endpoint>` (if `single` is empty) or `/<endpoint>/<single>`. The former is open to everybody, so it logs the
/// reasons of failures and does not show them; a single check shows its reason, and is not counted.
pub fn answer(endpoint: &str, checks: &[Check], single: &str, query: &str, metrics: &HealthMetrics) -> Response<Body> {
    if single.is_empty() { all(endpoint, checks, query, metrics) } else { one(checks, single) }
}

fn one(checks: &[Check], name: &str) -> Response<Body> {
    match checks.iter().find(|check| check.name == name).map(|check| (check.run)()) {
        None => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        Some(Ok(())) => text(StatusCode::OK, "ok".to_owned()),
        Some(Err(why)) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
    }
}

fn all(endpoint: &str, checks: &[Check], query: &str, metrics: &HealthMetrics) -> Response<Body> {
    let parameters = parameters(query);
    let of_name = |wanted: &'static str| parameters.iter().filter(move |(name, _)| name == wanted);
    let mut excluded: BTreeSet<&str> = of_name("exclude").map(|(_, value)| value.as_str()).collect();
    let is_verbose = of_name("verbose").next().is_some();
    let mut report = String::new();
    let mut failed = Vec::new();
    for check in checks {
        if excluded.remove(check.name) {
            line(&mut report, format_args!("[+]{} excluded: ok", check.name));
            continue;
        }
        let result = (check.run)();
        metrics.observe(check.name, endpoint, result.is_ok());
        match result {
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
    if !is_verbose {
        return text(StatusCode::OK, "ok".to_owned());
    }
    line(&mut report, format_args!("{endpoint} check passed"));
    text(StatusCode::OK, report)
}

/// Returns the names and values of a query, unescaped; none if it is malformed.
fn parameters(query: &str) -> Vec<(String, String)> {
    let uri = Uri::try_from(format!("/?{query}")).ok();
    let parsed = uri.and_then(|uri| Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
    parsed.map(|Query(parameters)| parameters).unwrap_or_default()
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
            // Twice the same, escaped, and names that are none, which are told in order.
            (
                &checks[..],
                "",
                "verbose=1&exclude=etcd&exclude=y&exclude=e%74cd&exclude=x%2Fz",
                200,
                "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"x/z\",\"y\"\nreadyz check passed\n",
            ),
            // A single one takes no parameters, and says why.
            (&checks[..], "etcd", "", 500, "internal server error: connection refused\n"),
            (&checks[..], "ping", "verbose&exclude=ping", 200, "ok"),
        ];
        for (checks, single, query, code, expected) in cases {
            let answer = answer("readyz", checks, single, query, &HealthMetrics::default());
            assert_eq!(answer.status().as_u16(), code, "{single} {query}");
            let body = axum::body::to_bytes(answer.into_body(), 4096).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&body), expected);
        }
    }
}
