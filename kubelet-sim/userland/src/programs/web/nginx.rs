//! `nginx`: serves the files of a folder, by those parts of its configuration that say where.
//!
//! Corresponds to nginx. Of a configuration, `listen`, `root`, `return` and `location` are read; everything else is
//! left out.

use super::access_log;
use super::files::{self, Listing};
use crate::network::http::{Request, Response, reason};
use crate::network::serve::{Answering, Port, Site, listen, serve_site};
use crate::process::network::Connection;
use crate::process::proc::{Outcome, Proc};
use file_tree::actor::Actor;
use std::sync::Arc;

const MAIN: &str = "/etc/nginx/nginx.conf";
const PARTS: &str = "/etc/nginx/conf.d";
const ROOT: &str = "/usr/share/nginx/html";
const SERVER: &str = "nginx/1.29.0";

pub async fn nginx(proc: &mut Proc, argv: &[String]) -> Outcome {
    if argv.iter().any(|word| word == "-v" || word == "-V") {
        proc.error(&format!("nginx version: {SERVER}\n")).await?;
        return Ok(0);
    }
    let config = configuration(proc);
    if argv.iter().any(|word| word == "-t") {
        proc.error(&format!("nginx: the configuration file {MAIN} syntax is ok\n")).await?;
        proc.error(&format!("nginx: configuration file {MAIN} test is successful\n")).await?;
        return Ok(0);
    }
    let mut numbers: Vec<u16> = config.iter().flat_map(|server| server.ports.iter().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let ports: Vec<Port> = numbers.into_iter().map(Port::tcp).collect();
    if let Err(port) = listen(proc, &ports) {
        let why = format!("nginx: [emerg] bind() to 0.0.0.0:{port} failed (98: Address already in use)");
        return proc.fail(&why, 1).await;
    }
    serve_site(proc, &ports, Arc::new(Nginx { servers: config })).await
}

/// A block `server`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    ports: Vec<u16>,
    root: String,
    answer: Option<(u16, String)>,
    locations: Vec<Location>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Location {
    prefix: String,
    is_exact: bool,
    root: Option<String>,
    answer: Option<(u16, String)>,
}

/// Reads the files of the configuration.
fn configuration(proc: &Proc) -> Vec<Server> {
    let actor = Actor::root(proc.now());
    let read = |path: &str| {
        let content = proc.tree().read(&actor, path).unwrap_or_default();
        servers(&String::from_utf8_lossy(&content))
    };
    let mut found = read(MAIN);
    let mut names = proc.tree().read_folder(&actor, PARTS).unwrap_or_default();
    names.sort();
    for name in names.iter().filter(|name| name.ends_with(".conf")) {
        found.extend(read(&format!("{PARTS}/{name}")));
    }
    if found.is_empty() {
        found.push(Server { ports: vec![80], root: ROOT.to_owned(), answer: None, locations: Vec::new() });
    }
    found
}

/// Splits a configuration into words; `{`, `}` and `;` are words of their own.
fn words(text: &str) -> Vec<String> {
    let (mut found, mut word) = (Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_empty() => while chars.next_if(|next| *next != '\n').is_some() {},
            '"' | '\'' => {
                while let Some(inner) = chars.next().filter(|inner| *inner != c) {
                    let escaped = (inner == '\\').then(|| chars.next()).flatten();
                    word.push(match escaped {
                        Some('n') => '\n',
                        Some(other) => other,
                        None => inner,
                    });
                }
                // An empty text is a word too.
                found.push(std::mem::take(&mut word));
            }
            c if c.is_whitespace() || matches!(c, '{' | '}' | ';') => {
                if !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
                if !c.is_whitespace() {
                    found.push(c.to_string());
                }
            }
            c => word.push(c),
        }
    }
    found
}

/// Reads the blocks `server` of a configuration.
fn servers(text: &str) -> Vec<Server> {
    let words = words(text);
    let (mut found, mut blocks, mut statement) = (Vec::<Server>::new(), Vec::<String>::new(), Vec::<String>::new());
    for word in words {
        match word.as_str() {
            "{" => {
                let kind = statement.first().cloned().unwrap_or_default();
                let is_in_server = blocks.last().is_some_and(|block| block == "server");
                match (kind.as_str(), found.last_mut()) {
                    ("server", _) => found.push(Server {
                        ports: Vec::new(),
                        root: ROOT.to_owned(),
                        answer: None,
                        locations: Vec::new(),
                    }),
                    ("location", Some(server)) if is_in_server => server.locations.push(Location {
                        prefix: statement.last().cloned().unwrap_or_default(),
                        is_exact: statement.get(1).is_some_and(|word| word == "="),
                        ..Location::default()
                    }),
                    _ => {}
                }
                blocks.push(kind);
                statement.clear();
            }
            "}" => {
                let ended = blocks.pop();
                if let (Some("server"), Some(server)) = (ended.as_deref(), found.last_mut())
                    && server.ports.is_empty()
                {
                    server.ports.push(80);
                }
                statement.clear();
            }
            ";" => {
                let block = blocks.last().map(String::as_str).unwrap_or_default();
                if let (Some(server), "server" | "location") = (found.last_mut(), block) {
                    server.set(block == "location", &statement);
                }
                statement.clear();
            }
            _ => statement.push(word),
        }
    }
    found
}

impl Server {
    /// Applies a statement of the block, or of its last location.
    fn set(&mut self, is_of_location: bool, statement: &[String]) {
        let location = if is_of_location { self.locations.last_mut() } else { None };
        match statement {
            [name, value, ..] if name == "listen" => {
                self.ports.extend(value.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()));
            }
            [name, value] if name == "root" => match location {
                Some(location) => location.root = Some(value.clone()),
                None => self.root.clone_from(value),
            },
            [name, code, text @ ..] if name == "return" => {
                let answer = code.parse().ok().map(|code| (code, text.first().cloned().unwrap_or_default()));
                match location {
                    Some(location) => location.answer = answer,
                    None => self.answer = answer,
                }
            }
            _ => {}
        }
    }

    /// Returns the location for a path: the exact one, or the one with the longest prefix.
    fn location(&self, path: &str) -> Option<&Location> {
        let exact = self.locations.iter().find(|location| location.is_exact && location.prefix == path);
        let prefixes =
            self.locations.iter().filter(|location| !location.is_exact && path.starts_with(&location.prefix));
        exact.or_else(|| prefixes.max_by_key(|location| location.prefix.len()))
    }
}

struct Nginx {
    servers: Vec<Server>,
}

impl Site for Nginx {
    fn answer<'a>(&'a self, proc: &'a mut Proc, request: &'a Request, connection: &'a Connection) -> Answering<'a> {
        Box::pin(async move {
            let answer = self.page(proc, request, connection).with_header("Server", SERVER);
            let agent = request.headers.get("user-agent").unwrap_or("-");
            let line = access_log::line(proc, request, connection, &answer);
            proc.print(&format!("{line} \"-\" \"{agent}\" \"-\"\n")).await?;
            Ok(answer)
        })
    }
}

impl Nginx {
    fn page(&self, proc: &Proc, request: &Request, connection: &Connection) -> Response {
        let port = connection.local.port();
        let Some(server) = self.servers.iter().find(|server| server.ports.contains(&port)) else {
            return error_page(404);
        };
        let path = request.path();
        let location = server.location(&path);
        if let Some((status, text)) = location.and_then(|location| location.answer.as_ref()).or(server.answer.as_ref())
        {
            return match status {
                301 | 302 | 303 | 307 | 308 => error_page(*status).with_header("Location", text.clone()),
                status if text.is_empty() => error_page(*status),
                status => Response::new(*status, "application/octet-stream", variables(text, request, proc)),
            };
        }
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return error_page(405);
        }
        let root = location.and_then(|location| location.root.as_deref()).unwrap_or(&server.root);
        let found = files::page(proc, root, &path, Listing::Forbidden);
        match found.status {
            200 => found,
            301 => {
                let host = request.headers.get("host").unwrap_or_default();
                error_page(301).with_header("Location", format!("http://{host}{path}/"))
            }
            status => error_page(status),
        }
    }
}

/// Replaces the variables that answers often have.
fn variables(text: &str, request: &Request, proc: &Proc) -> String {
    text.replace("$hostname", &proc.kernel.hostname)
        .replace("$request_uri", &request.target)
        .replace("$uri", &request.path())
        .replace("$host", request.headers.get("host").unwrap_or_default())
}

fn error_page(status: u16) -> Response {
    let title = format!("{status} {}", if status == 405 { "Not Allowed" } else { reason(status) });
    let body = format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
         <hr><center>{SERVER}</center>\r\n</body>\r\n</html>\r\n"
    );
    Response::new(status, "text/html", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_where_pages_are() {
        let found = servers(
            "events {}\nhttp {\n  # mine\n  server { listen 0.0.0.0:8080; listen 81 default_server;\n\
             root /data; location / { root /www; } location = /healthz { return 200 \"up;\\n\"; } } }",
        );
        let [server] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((server.ports.as_slice(), server.root.as_str()), (&[8080, 81][..], "/data"));
        assert_eq!(server.location("/healthz").unwrap().answer, Some((200, "up;\n".to_owned())));
        assert_eq!(server.location("/healthz/x").unwrap().root.as_deref(), Some("/www"));
        assert_eq!(servers("server { return 204; }")[0].ports, [80]);
    }
}
