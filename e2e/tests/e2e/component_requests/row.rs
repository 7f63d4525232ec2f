//! `Row`: a request with its sender, and the expected answer.
//!
//! The methods `sees`, `says`, `code` and `media_type` add expectations; `keeps` saves a value for later rows.

use client::Client;
use component_base::http::{Body, BodyStream};
use futures::StreamExt;
use http::{HeaderMap, Request};
use serde_json::Value;
use std::collections::BTreeMap;

/// The `Accept` header of components by default.
pub const ACCEPT: &str = "application/vnd.kubernetes.protobuf,application/json";
/// The `Accept` header of a watch by default.
pub const ACCEPT_WATCH: &str =
    "application/vnd.kubernetes.protobuf;stream=watch,application/json;stream=watch,application/json";
pub const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                            application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
pub const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const MERGE: &str = "application/merge-patch+json";

/// The query of a reflector's watch that begins with the initial objects.
pub const STREAMED_LIST: &str = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&\
                                 timeout=9m31s&timeoutSeconds=571&watch=true";
/// The query of a reflector's watch without the initial objects.
pub const WATCH: &str = "allowWatchBookmarks=true&resourceVersion=0&timeout=6m3s&timeoutSeconds=363&watch=true";
/// The query of a reflector's first list, if the server does not stream lists.
pub const FIRST_LIST: &str = "limit=500&resourceVersion=0";

/// Most attempts of a row that repeats its request.
const MAX_ATTEMPTS: u32 = 100;

/// Values of earlier answers, by name. In a row's texts, `{name}` stands for such a value.
pub type Kept = BTreeMap<&'static str, String>;

/// A program with its identity.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub name: &'static str,
    /// Part of the program, as at the end of its user agent; empty if the user agent has none.
    pub part: &'static str,
    pub caller: Caller,
}

#[derive(Clone, Copy, Debug)]
pub enum Caller {
    Admin,
    /// A user and a group. The group may be empty.
    User(&'static str, &'static str),
    /// A controller, whose token was kept under the name of its account.
    Token(&'static str),
}

/// One request, and the expectations on its answer.
pub struct Row {
    program: Program,
    method: &'static str,
    path: String,
    accept: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
    code: u16,
    media_type: &'static str,
    /// Number of lines that are read from a watch. Its answer is the list of these lines; 0 for other requests.
    lines: usize,
    /// True if the request is repeated until the answer is right, since it depends on a recent change.
    is_repeated: bool,
    sees: Vec<(&'static str, Value)>,
    /// Text that the message of a refusal contains.
    says: &'static str,
    keeps: Vec<(&'static str, &'static str)>,
}

impl Program {
    pub const fn part(self, part: &'static str) -> Self {
        Self { part, ..self }
    }

    fn agent(self) -> String {
        let program = format!("{}/v1.36.2 (linux/amd64) kubernetes/abcdef", self.name);
        match (self.part, self.caller) {
            ("", Caller::Token(account)) => format!("{program}/system:serviceaccount:kube-system:{account}"),
            ("", _) => program,
            (part, _) => format!("{program}/{part}"),
        }
    }

    fn row(self, method: &'static str, path: impl Into<String>, code: u16) -> Row {
        Row {
            program: self,
            method,
            path: path.into(),
            accept: ACCEPT,
            content_type: "",
            body: Vec::new(),
            code,
            media_type: JSON,
            lines: 0,
            is_repeated: false,
            sees: Vec::new(),
            says: "",
            keeps: Vec::new(),
        }
    }

    pub fn get(self, path: impl Into<String>) -> Row {
        self.row("GET", path, 200)
    }

    /// Opens a watch, and reads this number of lines. They must all arrive at once.
    pub fn watch(self, path: impl Into<String>, lines: usize) -> Row {
        Row { lines, accept: ACCEPT_WATCH, ..self.get(path) }
    }

    pub fn post(self, path: impl Into<String>, body: Value) -> Row {
        self.row("POST", path, 201).body(JSON, body.to_string())
    }

    pub fn put(self, path: impl Into<String>, body: Value) -> Row {
        self.row("PUT", path, 200).body(JSON, body.to_string())
    }

    pub fn patch(self, path: impl Into<String>, content_type: &'static str, body: Value) -> Row {
        self.row("PATCH", path, 200).body(content_type, body.to_string())
    }

    pub fn delete(self, path: impl Into<String>, options: Value) -> Row {
        self.row("DELETE", path, 200).body(JSON, options.to_string())
    }
}

impl Row {
    pub fn body(mut self, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        (self.content_type, self.body) = (content_type, body.into());
        self
    }

    pub fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// Expects this status code instead of success.
    pub fn code(mut self, code: u16) -> Self {
        self.code = code;
        self
    }

    pub fn media_type(mut self, media_type: &'static str) -> Self {
        self.media_type = media_type;
        self
    }

    /// Expects a value at a JSON pointer of the answer. Null stands for no value.
    pub fn sees(mut self, pointer: &'static str, value: impl Into<Value>) -> Self {
        self.sees.push((pointer, value.into()));
        self
    }

    /// Repeats the request until the answer is right, since an earlier request takes effect with a delay.
    pub fn repeated(mut self) -> Self {
        self.is_repeated = true;
        self
    }

    /// Expects this text in the message of a refusal.
    pub fn says(mut self, text: &'static str) -> Self {
        self.says = text;
        self
    }

    /// Keeps a text of the answer for later rows.
    pub fn keeps(mut self, name: &'static str, pointer: &'static str) -> Self {
        self.keeps.push((name, pointer));
        self
    }

    /// Sends the request and checks the answer. The error names the request and what is wrong.
    pub async fn replay(&self, admin: &Client, nobody: &Client, kept: &mut Kept) -> Result<(), String> {
        let mut attempts_left = if self.is_repeated { MAX_ATTEMPTS } else { 1 };
        loop {
            let outcome = self.attempt(admin, nobody, kept).await;
            attempts_left -= 1;
            if outcome.is_ok() || attempts_left == 0 {
                return outcome;
            }
            e2e::wait::pause();
        }
    }

    async fn attempt(&self, admin: &Client, nobody: &Client, kept: &mut Kept) -> Result<(), String> {
        let (code, headers, answer) = self.send(admin, nobody, kept).await.map_err(|why| self.error(&why))?;
        let media_type = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if (code, media_type) != (self.code, self.media_type) {
            return Err(
                self.error(&format!("{code} {media_type:?} in place of {} {:?}: {answer}", self.code, self.media_type))
            );
        }
        for (pointer, value) in &self.sees {
            let value: Value = serde_json::from_str(&fill(&value.to_string(), kept)).expect("values have no quotes");
            let seen = answer.pointer(pointer).unwrap_or(&Value::Null);
            if *seen != value {
                return Err(self.error(&format!("{pointer} is {seen} in place of {value}: {answer}")));
            }
        }
        if !answer["message"].as_str().unwrap_or_default().contains(self.says) {
            return Err(self.error(&format!("the message does not say {:?}: {answer}", self.says)));
        }
        for (name, pointer) in &self.keeps {
            let text = answer.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
            let text = text.ok_or_else(|| self.error(&format!("nothing at {pointer}: {answer}")))?;
            kept.insert(name, text.to_owned());
        }
        Ok(())
    }

    fn error(&self, why: &str) -> String {
        format!("{} {} of {}: {why}", self.method, self.path, self.program.agent())
    }

    async fn send(&self, admin: &Client, nobody: &Client, kept: &Kept) -> Result<(u16, HeaderMap, Value), String> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(fill(&self.path, kept))
            .header("user-agent", self.program.agent())
            .header("accept", self.accept);
        if !self.content_type.is_empty() {
            request = request.header("content-type", self.content_type);
        }
        let client = match self.program.caller {
            Caller::Admin => admin,
            Caller::User(user, group) => {
                request = request.header("impersonate-user", user);
                if !group.is_empty() {
                    request = request.header("impersonate-group", group);
                }
                admin
            }
            Caller::Token(name) => {
                let token = kept.get(name).ok_or_else(|| format!("there is no token of {name}"))?;
                request = request.header("authorization", format!("Bearer {token}"));
                nobody
            }
        };
        let body = match std::str::from_utf8(&self.body) {
            Ok(text) => fill(text, kept).into_bytes(),
            Err(_) => self.body.clone(),
        };
        let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
        let (head, body) = client.send(request).await.map_err(|error| error.to_string())?.into_parts();
        let is_watch = self.lines > 0 && head.status.is_success();
        let text = read(body.into_data_stream(), is_watch.then_some(self.lines)).await?;
        let answer = if is_watch {
            let lines = text.lines().take(self.lines).map(serde_json::from_str);
            Value::Array(lines.collect::<Result<_, _>>().map_err(|error| format!("{error}: {text}"))?)
        } else {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        Ok((head.status.as_u16(), head.headers, answer))
    }
}

/// Reads a number of lines, or the whole body.
async fn read(mut body: BodyStream, lines: Option<usize>) -> Result<String, String> {
    let mut read = Vec::new();
    while lines.is_none_or(|lines| read.iter().filter(|byte| **byte == b'\n').count() < lines) {
        match body.next().await {
            Some(frame) => read.extend_from_slice(&frame.map_err(|error| error.to_string())?),
            None => break,
        }
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// Replaces each `{name}` by the kept value of that name.
fn fill(text: &str, kept: &Kept) -> String {
    kept.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}
