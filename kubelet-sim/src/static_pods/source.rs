//! Where the static pods of a node come from: files of a folder, and a URL.
//!
//! Corresponds to pkg/kubelet/config/{file,http}.go.
//!
//! Deviation: a kubelet is told of a changed file by the operating system; here the folder is read again every second, or
//! sooner if `--file-check-frequency` says so. With several nodes in one process, the manifests of a node lie in a folder of
//! its name below that path; those in the folder itself are the first node's.

use crate::config::Settings;
use crate::static_pods::manifest::{self, Origin};
use client::Client;
use component_base::env::Env;
use component_base::http::Body;
use component_base::kubeconfig::Connection;
use http::{HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Limited};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest time between two looks at the files.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The largest manifest.
const MAX_BYTES: usize = 10 << 20;

/// The places of one node's manifests.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// A folder or a file.
    path: Option<PathBuf>,
    url: Option<String>,
    headers: Vec<(String, String)>,
    file_period: Duration,
    url_period: Duration,
}

impl Source {
    /// Returns the places of a node; `is_first` says that it is the first one of the process.
    pub fn of(settings: &Settings, node: &str, is_first: bool) -> Self {
        let below = settings.pod_manifest_path.as_ref().map(|path| path.join(node)).filter(|path| path.is_dir());
        let whole = settings.pod_manifest_path.clone().filter(|_| is_first);
        Self {
            path: if settings.nodes == 1 { settings.pod_manifest_path.clone() } else { below.or(whole) },
            url: Some(settings.manifest_url.clone()).filter(|url| !url.is_empty() && is_first),
            headers: settings.manifest_url_header.clone(),
            file_period: settings.file_check_frequency.min(LONGEST_PAUSE),
            url_period: settings.http_check_frequency,
        }
    }

    /// True when the node has no static pods.
    pub fn is_empty(&self) -> bool {
        self.path.is_none() && self.url.is_none()
    }

    /// Returns how long to wait until the next look.
    pub fn period(&self) -> Duration {
        if self.path.is_some() { self.file_period } else { self.url_period }
    }

    /// Reads all pods, by namespace and name, and why manifests could not be read. Of a URL that does not answer the
    /// pods stay as they were: then `None` stands for them.
    pub async fn read(&self, node: &str, env: &Env) -> Found {
        let seen = env.wall().to_string();
        let mut found = Found::default();
        if let Some(path) = &self.path {
            for (place, text) in files(path, &mut found.problems) {
                let pods = manifest::read(&text, Origin::File, &place, node, &seen);
                found.add(&place, pods);
            }
        }
        if let Some(url) = &self.url {
            match fetch(env, url, &self.headers).await {
                Ok(text) => {
                    let pods = manifest::read(&text, Origin::Http, url, node, &seen);
                    found.add(url, pods);
                }
                Err(error) => {
                    found.problems.push((url.clone(), error));
                    found.lacks_url = true;
                }
            }
        }
        found
    }
}

/// What was read of all places.
#[derive(Debug, Default)]
pub struct Found {
    pub pods: BTreeMap<String, Pod>,
    /// Places, and what is wrong there.
    pub problems: Vec<(String, String)>,
    /// True when the URL did not answer.
    pub lacks_url: bool,
}

impl Found {
    fn add(&mut self, place: &str, pods: Result<Vec<Pod>, String>) {
        match pods {
            Ok(pods) => self.pods.extend(pods.into_iter().map(|pod| (pod.key(), pod))),
            Err(error) => self.problems.push((place.to_owned(), error)),
        }
    }
}

/// Reads the files of a folder, in the order of their names; hidden ones and folders are left out.
fn files(path: &Path, problems: &mut Vec<(String, String)>) -> Vec<(String, String)> {
    let mut paths = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
        paths = entries.unwrap_or_default();
        let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        paths.retain(|path| path.is_file() && !is_hidden(path));
        paths.sort();
    }
    let mut texts = Vec::new();
    for path in paths {
        let place = path.display().to_string();
        match fs::read_to_string(&path) {
            Ok(text) if text.len() > MAX_BYTES => problems.push((place, "is too large".to_owned())),
            Ok(text) => texts.push((place, text)),
            // A folder that does not exist yet is empty.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => problems.push((place, error.to_string())),
        }
    }
    texts
}

async fn fetch(env: &Env, url: &str, headers: &[(String, String)]) -> Result<String, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
    let server = format!("{}://{}", uri.scheme_str().unwrap_or("http"), uri.authority().map_or("", |a| a.as_str()));
    let connection = Connection { server, insecure: true, ..Connection::default() };
    let client = Client::connect(env, &connection, "kubelet-sim").map_err(|error| error.to_string())?;
    let mut request = Request::get(uri.path_and_query().map_or("/", |path| path.as_str()));
    for (name, value) in headers {
        let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is no name of a header"))?;
        let value: HeaderValue = value.parse().map_err(|_| format!("{value:?} is no value of a header"))?;
        request = request.header(name, value);
    }
    let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
    let answer = client.send(request).await.map_err(|error| error.to_string())?;
    if !answer.status().is_success() {
        return Err(format!("{url}: {}", answer.status()));
    }
    let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await.map_err(|error| error.to_string())?;
    String::from_utf8(body.to_bytes().to_vec()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> String {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c}}]}}\n")
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_does_not_parse_harms_no_other() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("b.yaml", pod("b")),
            ("a.json", pod("a")),
            (".hidden", pod("h")),
            ("bad.yaml", "kind: Service".to_owned()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::create_dir(folder.path().join("node-1")).unwrap();
        fs::write(folder.path().join("node-1").join("c"), pod("c")).unwrap();
        let settings = Settings { nodes: 3, pod_manifest_path: Some(folder.path().to_owned()), ..Settings::default() };
        let env = Env::simulated(1);
        let first = Source::of(&settings, "node-0", true).read("node-0", &env).await;
        assert_eq!(first.pods.keys().collect::<Vec<_>>(), ["default/a-node-0", "default/b-node-0"]);
        assert_eq!(first.problems.len(), 1);
        assert!(first.problems[0].0.ends_with("bad.yaml"));
        let second = Source::of(&settings, "node-1", false).read("node-1", &env).await;
        assert_eq!(second.pods.keys().collect::<Vec<_>>(), ["default/c-node-1"]);
        assert!(Source::of(&settings, "node-2", false).is_empty());
    }
}
