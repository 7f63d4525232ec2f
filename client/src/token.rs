//! `TokenSource`: bearer tokens that are fixed, or read from a file.
//!
//! Corresponds to k8s.io/client-go/transport/token_source.go.

use crate::error::Error;
use async_trait::async_trait;
use component_base::env::Env;
use http::HeaderValue;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// A source of bearer tokens. It is asked before every request, so it has to cache its token.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// Returns the value of the Authorization header, as `bearer` makes it.
    async fn authorization(&self) -> Result<HeaderValue, Error>;

    /// Drops a token that the server refused. Returns true if the next one may differ.
    fn invalidate(&self) -> bool {
        false
    }
}

/// Returns the value of the Authorization header with a token.
pub fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Error::Transport("the token holds bytes that no header can".into()))?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

/// A token that never changes.
pub struct FixedToken(Result<HeaderValue, Error>);

impl FixedToken {
    pub fn new(token: &str) -> Self {
        Self(bearer(token.trim()))
    }
}

#[async_trait]
impl TokenSource for FixedToken {
    async fn authorization(&self) -> Result<HeaderValue, Error> {
        self.0.clone()
    }
}

/// Time after which the file is read again.
const FILE_PERIOD: Duration = Duration::from_secs(60);

/// A token in a file, which others may replace.
pub struct FileToken {
    env: Env,
    path: PathBuf,
    last: Mutex<Option<(Instant, HeaderValue)>>,
}

impl FileToken {
    pub fn new(env: &Env, path: &Path) -> Self {
        Self { env: env.clone(), path: path.to_owned(), last: Mutex::new(None) }
    }
}

#[async_trait]
impl TokenSource for FileToken {
    async fn authorization(&self) -> Result<HeaderValue, Error> {
        let now = self.env.now();
        let held = self.last.lock().clone();
        if let Some((read_at, bearer)) = &held
            && now.duration_since(*read_at) < FILE_PERIOD
        {
            return Ok(bearer.clone());
        }
        let path = self.path.clone();
        match self.env.blocking(move || std::fs::read_to_string(path)).await {
            Ok(text) => {
                let bearer = bearer(text.trim())?;
                *self.last.lock() = Some((now, bearer.clone()));
                Ok(bearer)
            }
            Err(error) => match held {
                // The file may be missing while it is being replaced.
                Some((_, bearer)) => Ok(bearer),
                None => Err(Error::Transport(format!("{}: {error}", self.path.display()))),
            },
        }
    }

    fn invalidate(&self) -> bool {
        self.last.lock().take().is_some()
    }
}
