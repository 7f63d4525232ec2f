//! `orrery trace request`: sends a request, or takes an earlier one, and prints its trace.
//!
//! [`sent`] builds requests, [`made`] makes objects from words, and [`page`] prints a trace. The API server records traces
//! in `apiserver/request/src/trace/`.

pub mod made;
pub mod page;
pub mod sent;

use crate::place::Place;
use clap::{Args, Subcommand};
use client::request::Call;
use client::{Client, Error};
use component_base::env::Env;
use component_base::http::Body;
use component_base::kubeconfig::{self, Connection, KubeconfigError};
use controller_base::discovery::discover;
use http::header::{CONTENT_TYPE, LINK, WARNING};
use http::{HeaderMap, Method, Request};
use request::trace::document::{Summary, Trace};
use request::trace::{HEADER, PATH, path_of};
use sent::{Sent, Verb};
use serde::Deserialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Options of `orrery trace`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Show what became of a request at every gate: who knew its sender, what allowed it, what was changed, and why it
    /// was refused. The API server has to run with --enable-request-trace
    Request(Box<RequestOptions>),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  orrery trace request create -f pod.yaml --dry-run      what would become of a pod
  orrery trace request create deployment web --image=i   an object of words, as of kubectl create
  orrery trace request get pods -n shop --as=ann         may ann, and by which rule?
  orrery trace request delete pods/web                   a resource and a name
  orrery trace request get /version                      or a path
  orrery trace request                                   what is kept
  orrery trace request 3fd0a2c1-…                        one of them, by its audit id")]
pub struct RequestOptions {
    /// get, create, replace, apply or delete; or the audit id of a request that is kept. Nothing: list what is kept
    #[arg(value_name = "VERB|ID")]
    pub what: Option<String>,
    /// RESOURCE, RESOURCE/NAME or a path
    pub target: Option<String>,
    /// The rest of what `kubectl create` is told: `create service clusterip NAME`
    pub words: Vec<String>,
    /// Objects to send, in YAML or JSON; `-` is standard input
    #[arg(long, short, value_name = "FILE")]
    pub filename: Option<PathBuf>,
    /// Namespace of what is asked for, where an object does not say
    #[arg(long, short, default_value = "default")]
    pub namespace: String,
    /// Let the server do everything but write
    #[arg(long)]
    pub dry_run: bool,
    /// Send the request as that user
    #[arg(long = "as", value_name = "USER")]
    pub as_user: Option<String>,
    /// Send it as a member of that group; as often as you like
    #[arg(long, value_name = "GROUP", requires = "as_user")]
    pub as_group: Vec<String>,
    /// Send it with that bearer token, which has to be wrong or its owner's to see traces
    #[arg(long, value_name = "TOKEN", conflicts_with = "as_user")]
    pub token: Option<String>,
    /// Print the trace as it is kept, in JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
    /// Kubeconfig of an administrator [default: the cluster's own, or where there is none what KUBECONFIG names]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub flags: made::Flags,
}

/// The reason why there is no trace, in one line.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Client(#[from] Error),
    #[error(transparent)]
    Sent(#[from] sent::SentError),
    #[error(transparent)]
    Made(#[from] made::MadeError),
    #[error("{0}: no trace of it is kept; does the API server run with --enable-request-trace?")]
    NotKept(String),
    #[error("the API server keeps no traces: it has to run with --enable-request-trace")]
    Off,
    #[error("the API server did not trace the request: {0}")]
    NotTraced(String),
    #[error("the API server's answer: {0}")]
    Answer(serde_json::Error),
}

pub async fn run(options: Options, env: Env) -> Result<(), TraceError> {
    let Command::Request(options) = options.command;
    let own = options.place.kubeconfig();
    let kubeconfig = match &options.kubeconfig {
        None if own.exists() => own,
        given => kubeconfig::locate(given.as_deref()).unwrap_or(own),
    };
    let connection = kubeconfig::read(&kubeconfig)?;
    let reader = Client::connect(&env, &connection, "orrery-trace")?;
    let Some(what) = &options.what else {
        print!("{}", listed(&reader).await?);
        return Ok(());
    };
    let Some(verb) = Verb::of(what) else {
        let document = document(&reader, &path_of(what)).await?;
        return show(&document.ok_or_else(|| TraceError::NotKept(what.clone()))?, options.json);
    };
    let sender = sender(&env, &connection, &reader, &options)?;
    for (number, sent) in requests(verb, &reader, &options).await?.iter().enumerate() {
        if number > 0 {
            println!();
        }
        show(&trace(&sender, &reader, sent).await?, options.json)?;
    }
    Ok(())
}

fn show(document: &[u8], as_json: bool) -> Result<(), TraceError> {
    if as_json {
        println!("{}", String::from_utf8_lossy(document));
    } else {
        let trace: Trace = serde_json::from_slice(document).map_err(TraceError::Answer)?;
        print!("{}", page::of(&trace));
    }
    Ok(())
}

/// Returns the client that sends the request.
fn sender(env: &Env, connection: &Connection, reader: &Client, options: &RequestOptions) -> Result<Client, TraceError> {
    if let Some(token) = &options.token {
        let token = Some(token.clone());
        let bare = Connection { client_cert_pem: None, client_key_pem: None, token_file: None, ..connection.clone() };
        return Ok(Client::connect(env, &Connection { token, ..bare }, "orrery-trace")?);
    }
    let groups: Vec<&str> = options.as_group.iter().map(String::as_str).collect();
    Ok(match &options.as_user {
        Some(user) => reader.impersonating(user, &groups),
        None => reader.clone(),
    })
}

async fn requests(verb: Verb, reader: &Client, options: &RequestOptions) -> Result<Vec<Sent>, TraceError> {
    let mut objects = match &options.filename {
        Some(path) => {
            let text = if path == Path::new("-") { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
            let text = text.map_err(|source| TraceError::File { path: path.clone(), source })?;
            sent::objects(text.as_bytes())?
        }
        None => Vec::new(),
    };
    let mut target = options.target.as_deref();
    let is_path = target.is_some_and(|target| target.starts_with('/'));
    let served = if is_path && objects.is_empty() { Vec::new() } else { discover(reader).await?.resources };
    let kind = target.filter(|_| verb == Verb::Create && options.filename.is_none() && !is_path);
    if let Some(kind) = kind {
        let group_of = |resource: &str| {
            let known = served.iter().find(|known| known.is_preferred && known.gvr.resource == resource);
            known.map(|known| known.gvr.group.clone())
        };
        objects.push(made::object(kind, &options.words, &options.flags, group_of)?);
        target = None;
    } else if let Some(word) = options.words.first() {
        return Err(sent::SentError::Surplus(word.clone()).into());
    }
    let place = sent::RequestBuilder { served: &served, namespace: &options.namespace, dry_run: options.dry_run };
    Ok(place.requests(verb, target, &objects)?)
}

/// Sends a request, and fetches its trace.
async fn trace(sender: &Client, reader: &Client, sent: &Sent) -> Result<Vec<u8>, TraceError> {
    let Sent { method, target, content_type, body } = sent;
    let mut request = Request::builder().method(method).uri(target).header(HEADER, "true");
    if !body.is_empty() {
        request = request.header(CONTENT_TYPE, *content_type);
    }
    let request = request.body(Body::from(body.clone()));
    let request = request.map_err(|error| Error::Transport(format!("{method} {target}: {error}")))?;
    let answer = sender.send(request).await?;
    // An unauthenticated sender gets no link to the trace, but the audit ID identifies it.
    let path = linked(answer.headers()).or_else(|| Some(path_of(text(answer.headers(), "audit-id")?)));
    let warned = text(answer.headers(), WARNING.as_str()).unwrap_or("does it run with --enable-request-trace?");
    let found = match path {
        Some(path) => document(reader, &path).await?,
        None => None,
    };
    found.ok_or_else(|| TraceError::NotTraced(warned.to_owned()))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the path of the trace in an answer's `Link` header.
fn linked(headers: &HeaderMap) -> Option<String> {
    let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
    let mut paths = links.filter_map(|link| link.strip_prefix('<')?.strip_suffix(">; rel=\"trace\""));
    // The last link is from the server that was asked, also if another one answered for it.
    paths.next_back().map(str::to_owned)
}

async fn document(reader: &Client, path: &str) -> Result<Option<Vec<u8>>, TraceError> {
    match reader.call(&Call::new(Method::GET, path)).await {
        Ok(bytes) => Ok(Some(bytes.to_vec())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<Summary>,
}

/// Returns a line for each stored trace.
async fn listed(reader: &Client) -> Result<String, TraceError> {
    let document = document(reader, PATH).await?.ok_or(TraceError::Off)?;
    let listed: Listed = serde_json::from_slice(&document).map_err(TraceError::Answer)?;
    let mut lines = String::new();
    for Summary { audit_id, received, method, uri, user, code } in listed.items {
        let user = if user.is_empty() { "(unknown)" } else { &user };
        let _ = writeln!(lines, "{audit_id}  {received}  {code}  {user}  {method} {uri}");
    }
    Ok(lines)
}
