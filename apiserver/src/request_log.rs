//! `RequestLog`: receives a row for each request and for each watch event that is passed on. Simulations compare and keep them.

use jiff::Timestamp;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Receives rows, each when it happens.
#[derive(Clone)]
pub struct RequestLog(pub Arc<dyn Fn(LogRow) + Send + Sync>);

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestLog")
    }
}

/// A row, with the time by the server's clock. As text it is one line of words, in which `-` stands for what is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogRow {
    pub at: Timestamp,
    #[serde(flatten)]
    pub logged: Logged,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Logged {
    /// A request and its answer.
    Request {
        user: String,
        verb: String,
        path: String,
        code: u16,
        /// Revision and hash of the object that it has stored.
        revision: Option<u64>,
        hash: Option<String>,
    },
    /// A watch event that was passed on.
    Delivery {
        user: String,
        /// Path of the watch.
        path: String,
        /// `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
        event: String,
        /// `namespace/name`.
        object: Option<String>,
        revision: u64,
        hash: Option<String>,
    },
}

impl fmt::Display for LogRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.logged)
    }
}

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        match self {
            Self::Request { user, verb, path, code, revision, hash } => {
                let revision = or_dash(&revision.map(|revision| revision.to_string()));
                write!(f, "{user} {verb} {path} {code} {revision} {}", or_dash(hash))
            }
            Self::Delivery { user, path, event, object, revision, hash } => {
                write!(f, "{user} event {path} {event} {} {revision} {}", or_dash(object), or_dash(hash))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_is_a_line_and_an_object() {
        let at = "2026-01-01T00:00:01.5Z".parse().unwrap();
        let (user, path) = ("ann".to_owned(), "/api/v1/pods".to_owned());
        let get = Logged::Request {
            user: user.clone(),
            verb: "get".to_owned(),
            path: path.clone(),
            code: 404,
            revision: None,
            hash: None,
        };
        let added = Logged::Delivery {
            user,
            path,
            event: "ADDED".to_owned(),
            object: Some("default/a".to_owned()),
            revision: 7,
            hash: Some("ff".to_owned()),
        };
        let [get, added] = [get, added].map(|logged| LogRow { at, logged });
        assert_eq!(get.to_string(), "2026-01-01T00:00:01.5Z ann get /api/v1/pods 404 - -");
        assert_eq!(added.to_string(), "2026-01-01T00:00:01.5Z ann event /api/v1/pods ADDED default/a 7 ff");
        assert_eq!(
            serde_json::to_value(&added).unwrap(),
            json!({"at": "2026-01-01T00:00:01.5Z", "what": "delivery", "user": "ann", "path": "/api/v1/pods",
                "event": "ADDED", "object": "default/a", "revision": 7, "hash": "ff"})
        );
    }
}
