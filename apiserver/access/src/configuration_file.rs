//! Reads configuration files of the group apiserver.config.k8s.io strictly, and reloads them. Errors fit on one line.
//!
//! Corresponds to the strict codecs of k8s.io/apiserver/pkg/apis/apiserver.

use component_base::duration::parse_duration;
use component_base::env::Env;
use component_base::file_watch::FileWatch;
use proto::meta::status::FieldError;
use proto::wire::{Document, Format};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// The accepted versions. Their fields are the same.
const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

/// Decodes the text of a file. `apiVersion` and `kind` must be those of `kind`; unknown and duplicate fields are errors.
pub fn parse<T: DeserializeOwned>(text: &str, kind: &str) -> Result<T, String> {
    if text.trim().is_empty() {
        return Err("empty config data".to_owned());
    }
    let document = Document::parse(Format::Yaml, text.as_bytes()).map_err(|why| one_line(&why))?;
    if let Some(twice) = document.duplicates.first() {
        return Err(one_line(twice));
    }
    let Value::Object(mut fields) = document.value else { return Err("want a mapping".to_owned()) };
    let mut said = |name: &str| fields.remove(name).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    let (api_version, said_kind) = (said("apiVersion"), said("kind"));
    if said_kind != kind || !VERSIONS.contains(&api_version.as_str()) {
        return Err(format!(
            "no kind {said_kind:?} is registered for version {api_version:?}: want {} {kind}",
            VERSIONS[0]
        ));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| format!("strict decoding error: {error}"))
}

/// Joins validation errors into one line, worded as Kubernetes lists them.
pub fn refusal(errors: &[FieldError]) -> Result<(), String> {
    match errors {
        [] => Ok(()),
        [one] => Err(one_line(&one.to_string())),
        several => {
            let listed: Vec<String> = several.iter().map(|error| one_line(&error.to_string())).collect();
            Err(format!("[{}]", listed.join(", ")))
        }
    }
}

/// Keeps the first line of an error. A CEL error has more lines, which point at the place in the expression.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end().to_owned()
}

/// Decodes a duration such as `30s`; the empty text is zero.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map_err(D::Error::custom)
}

/// The names of the metrics that count and date the reloads of a file.
#[derive(Clone, Copy, Debug)]
pub struct ReloadMetrics {
    pub total: &'static str,
    pub last: &'static str,
}

/// Calls `apply` whenever the file has changed, until shutdown. An invalid file is logged once and leaves everything as
/// it was.
pub async fn follow(env: Env, path: PathBuf, reloads: ReloadMetrics, apply: impl Fn() -> Result<(), String>) {
    let total = env.metrics().counters(reloads.total, "Reloads of the configuration by status");
    let last = env.metrics().float_gauges(reloads.last, "Time of the last reload of the configuration by status");
    let mut watch = FileWatch::new([path.clone()]);
    let follow = async {
        loop {
            watch.changed(&env).await;
            let applied = apply();
            let labels = vec![("status", if applied.is_ok() { "success" } else { "failure" }.to_owned())];
            total.get_or_create(&labels).inc();
            last.get_or_create(&labels).set(env.wall().as_second() as f64);
            match applied {
                Ok(()) => tracing::info!(path = %path.display(), "read the configuration again"),
                Err(error) => tracing::error!(%error, "the configuration stays as it was"),
            }
        }
    };
    tokio::select! {
        biased;
        () = env.shutdown().cancelled() => {}
        () = follow => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Own {
        #[serde(deserialize_with = "duration")]
        wait: Duration,
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: Own\n";
        for (text, expected) in [
            (format!("{head}wait: 3s"), Ok(3)),
            (" ".to_owned(), Err("empty config data")),
            ("- a".to_owned(), Err("want a mapping")),
            ("kind: Other".to_owned(), Err("no kind \"Other\" is registered for version \"\": want ")),
            (format!("{head}wait: 3s\nweight: 1"), Err("strict decoding error: unknown field `weight`")),
            (format!("{head}wait: long"), Err("strict decoding error: invalid duration \"long\"")),
            (format!("{head}wait: 3s\nwait: 4s"), Err("")),
        ] {
            match (parse::<Own>(&text, "Own"), expected) {
                (Ok(own), Ok(seconds)) => assert_eq!(own.wait.as_secs(), seconds),
                (Err(why), Err(beginning)) => assert!(why.starts_with(beginning) && !why.contains('\n'), "{why}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }
}
