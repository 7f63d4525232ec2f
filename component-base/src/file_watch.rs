//! `FileWatch`: polls files that may change while a component runs.
//!
//! It compares contents, not times, because certificates and configurations are often replaced by renaming or through
//! symbolic links. A file that cannot be read for a moment counts as unchanged. Corresponds to the dynamic files of
//! k8s.io/apiserver/pkg/server/dynamiccertificates.

use crate::env::Env;
use std::path::PathBuf;
use std::time::Duration;

/// Time between two polls. Kubernetes gets notifications from the kernel, and polls each minute as well.
const POLL_PERIOD: Duration = Duration::from_secs(1);

type Contents = Vec<Option<Vec<u8>>>;

/// Files, and their contents at the last poll.
#[derive(Debug)]
pub struct FileWatch {
    paths: Vec<PathBuf>,
    seen: Contents,
}

impl FileWatch {
    /// Starts from the files' present contents.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let seen = contents(&paths);
        Self { paths, seen }
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Waits until the content of a file has changed.
    pub async fn changed(&mut self, env: &Env) {
        loop {
            env.sleep(POLL_PERIOD).await;
            let paths = self.paths.clone();
            let now = env.blocking(move || contents(&paths)).await;
            let mut is_news = false;
            for (seen, now) in self.seen.iter_mut().zip(now) {
                if now.is_some() && *seen != now {
                    (*seen, is_news) = (now, true);
                }
            }
            if is_news {
                return;
            }
        }
    }
}

fn contents(paths: &[PathBuf]) -> Contents {
    paths.iter().map(|path| std::fs::read(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_other_content_is_a_change() {
        let env = Env::simulated(1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let mut watch = FileWatch::new([path.clone()]);
        for (content, is_change) in [(Some("one"), false), (None, false), (Some("two"), true), (Some("two"), false)] {
            match content {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let seen = env.timeout(Duration::from_secs(10), watch.changed(&env)).await.is_ok();
            assert_eq!(seen, is_change, "{content:?}");
        }
    }
}
