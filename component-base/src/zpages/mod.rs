//! `/statusz` and `/flagz`: which version of a component runs since when, and with which flags it was started.
//!
//! Both are text for people, and objects of `config.k8s.io` for programs that ask for them by the Accept header. Corresponds to
//! k8s.io/apiserver/pkg/server/statusz and flagz.
//!
//! Deviation: the version of Go is empty, and objects are written as JSON and YAML alone, not as CBOR.

mod form;

use crate::env::Env;
use crate::options::feature_gates;
use crate::options::{Original, OriginalFlags};
use crate::version;
use axum::body::Body;
use form::Form;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use proto::Status;
use proto::serializer::yaml;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

const STATUSZ: &str = "/statusz";
const FLAGZ: &str = "/flagz";
const GROUP: &str = "config.k8s.io";
/// What stands between a name and its value in texts. One is drawn, so that no program reads the text.
const SEPARATORS: [&str; 4] = [":", ": ", "=", " "];

/// The pages of one component. Without gates it has none.
pub struct ZPages {
    component: &'static str,
    has_statusz: bool,
    /// The value of each flag by its name; `None` without the gate.
    flags: Option<BTreeMap<&'static str, String>>,
    version: String,
    started: Timestamp,
    separator: &'static str,
}

impl ZPages {
    /// Returns the pages of a component that begins now with these flags.
    pub fn of<O: Original>(env: &Env, original: &OriginalFlags<O>) -> Self {
        let is_on = |gate: &str| feature_gates::is_on(O::NAME, original.gate_values(), gate);
        let random = env.random(&format!("component-base/zpages/{}", O::NAME));
        Self {
            component: O::NAME,
            has_statusz: is_on("ComponentStatusz"),
            flags: is_on("ComponentFlagz").then(|| original.shown()),
            version: original.version().trim_start_matches('v').to_owned(),
            started: env.wall(),
            separator: SEPARATORS[random.below(SEPARATORS.len())],
        }
    }

    /// Returns the paths of the pages.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        let statusz = self.has_statusz.then_some(STATUSZ);
        let flagz = self.flags.is_some().then_some(FLAGZ);
        flagz.into_iter().chain(statusz)
    }

    /// Returns the page at a path; `None` for any other path. `others` are the paths of the component's other pages.
    pub fn answer(&self, path: &str, headers: &HeaderMap, now: Timestamp, others: &[&str]) -> Option<Response<Body>> {
        let (kind, text, object) = match (path, &self.flags) {
            (STATUSZ, _) if self.has_statusz => {
                let paths = self.listed(others);
                ("Statusz", self.statusz_text(now, &paths), self.statusz(now, &paths))
            }
            (FLAGZ, Some(flags)) => ("Flagz", self.flagz_text(flags), json!({"flags": flags})),
            _ => return None,
        };
        Some(match form::negotiate(headers, kind) {
            Ok(Form::Text) => answer(StatusCode::OK, "text/plain; charset=utf-8", text),
            Ok(Form::Json(version)) => {
                let object = self.versioned(kind, version, object).to_string() + "\n";
                answer(StatusCode::OK, "application/json", object)
            }
            Ok(Form::Yaml(version)) => {
                answer(StatusCode::OK, "application/yaml", yaml::to_yaml(&self.versioned(kind, version, object)))
            }
            Err(status) => refusal(&status),
        })
    }

    /// Returns the paths that `/statusz` lists: without its own, in their order.
    fn listed<'a>(&self, others: &[&'a str]) -> Vec<&'a str> {
        let mut paths: Vec<&str> = others.to_vec();
        paths.extend(self.flags.is_some().then_some(FLAGZ));
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    fn header(&self, page: &str) -> String {
        let warning = "This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is \
                       for debugging purposes only.";
        format!("\n{} {page}\nWarning: {warning}\n", self.component)
    }

    fn statusz_text(&self, now: Timestamp, paths: &[&str]) -> String {
        let up_s = self.up_s(now);
        let up = format!("{} hr {:02} min {:02} sec", up_s / 3600, up_s / 60 % 60, up_s % 60);
        let mut text = self.header("statusz") + "\n";
        let paths = paths.join(" ");
        for (name, value) in [
            ("Started", self.started.strftime("%a %b %e %H:%M:%S UTC %Y").to_string()),
            ("Up", up),
            ("Go version", String::new()),
            ("Binary version", self.version.clone()),
            ("Emulation version", self.emulated().to_owned()),
            ("Paths", paths),
        ] {
            let _ = writeln!(text, "{name}{} {value}", self.separator);
        }
        text
    }

    fn flagz_text(&self, flags: &BTreeMap<&'static str, String>) -> String {
        let mut text = self.header("flagz");
        for (name, value) in flags {
            let _ = writeln!(text, "{name}{}{value}", self.separator);
        }
        text
    }

    fn statusz(&self, now: Timestamp, paths: &[&str]) -> Value {
        json!({
            "startTime": self.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "uptimeSeconds": self.up_s(now),
            "goVersion": "",
            "binaryVersion": self.version,
            "emulationVersion": self.emulated(),
            "paths": paths,
        })
    }

    fn versioned(&self, kind: &str, version: &str, fields: Value) -> Value {
        let mut object = json!({
            "kind": kind, "apiVersion": format!("{GROUP}/{version}"), "metadata": {"name": self.component},
        });
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
            object.extend(fields);
        }
        object
    }

    fn up_s(&self, now: Timestamp) -> i64 {
        now.duration_since(self.started).as_secs().max(0)
    }

    /// Returns the minor version that the component behaves as.
    fn emulated(&self) -> &str {
        let number = version::GIT_VERSION.trim_start_matches('v');
        number.rsplit_once('.').map_or(number, |(minor, _)| minor)
    }
}

fn answer(code: StatusCode, media_type: &'static str, body: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

fn refusal(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::NOT_ACCEPTABLE);
    answer(code, "application/json", status.to_value().to_string() + "\n")
}

#[cfg(test)]
mod tests;
