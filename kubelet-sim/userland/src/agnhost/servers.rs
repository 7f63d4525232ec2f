//! The small servers of agnhost: `serve-hostname`, `test-webserver`, `porter` and `liveness`.
//!
//! Corresponds to the packages of the same names in test/images/agnhost.

use super::flags::{Flags, json, log};
use crate::network::http::{Request, Response};
use crate::network::serve::{Answering, Port, Site, listen, serve, serve_site};
use crate::process::network::{Connection, Protocol};
use crate::process::proc::{Outcome, Proc, Stop};
use crate::process::sockets::Received;
use crate::programs::web::files::{self, Listing};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The time after which `liveness` begins to fail.
const LIVENESS_TIME: Duration = Duration::from_secs(10);

async fn in_use(proc: &mut Proc, port: u16) -> Outcome {
    proc.fail(&format!("listen tcp :{port}: bind: address already in use"), 1).await
}

pub async fn serve_hostname(proc: &mut Proc, argv: &[String]) -> Outcome {
    let flags = Flags::parse(&argv[1..], &["tcp", "udp", "http", "close"]);
    let [tcp, udp, http] = [("tcp", false), ("udp", false), ("http", true)].map(|(name, is)| flags.is_set(name, is));
    if http && (tcp || udp) {
        return proc.fail("Can't server TCP/UDP mode and HTTP mode at the same time", 1).await;
    }
    let Some(port) = flags.port("port", 9376) else { return proc.fail("listen tcp: invalid port", 1).await };
    let mut ports = Vec::new();
    ports.extend((tcp || http).then(|| Port::tcp(port)));
    ports.extend(udp.then(|| Port::udp(port)));
    if let Err(port) = listen(proc, &ports) {
        return in_use(proc, port).await;
    }
    log(proc, &format!("Serving on port {port}.")).await?;
    if http {
        let site = HostnameSite { closes: flags.is_set("close", false) };
        return serve_site(proc, &ports, Arc::new(site)).await;
    }
    serve(proc, &ports, |proc, connection| Box::pin(say_hostname(proc, connection))).await
}

async fn say_hostname(mut proc: Proc, connection: Connection) -> Result<(), Stop> {
    let is_udp = connection.protocol == Protocol::Udp;
    if is_udp && !matches!(proc.receive(&connection, None).await, Received::Bytes(_)) {
        return Ok(());
    }
    let kind = if is_udp { "UDP" } else { "TCP" };
    log(&mut proc, &format!("{kind} request from {}", connection.remote)).await?;
    let hostname = proc.kernel.hostname.clone();
    let _ = proc.send(&connection, hostname.as_bytes()).await;
    Ok(())
}

struct HostnameSite {
    closes: bool,
}

impl Site for HostnameSite {
    fn answer<'a>(&'a self, proc: &'a mut Proc, _: &'a Request, connection: &'a Connection) -> Answering<'a> {
        Box::pin(async move {
            log(proc, &format!("HTTP request from {}", connection.remote)).await?;
            let answer = Response::text(200, proc.kernel.hostname.clone());
            Ok(if self.closes { answer.with_header("Connection", "close") } else { answer })
        })
    }
}

pub async fn test_webserver(proc: &mut Proc, argv: &[String]) -> Outcome {
    let flags = Flags::parse(&argv[1..], &[]);
    let ports: Vec<Port> = flags.port("port", 80).map(Port::tcp).into_iter().collect();
    if let Err(port) = listen(proc, &ports) {
        return in_use(proc, port).await;
    }
    serve_site(proc, &ports, Arc::new(WholeTree)).await
}

struct WholeTree;

impl Site for WholeTree {
    fn answer<'a>(&'a self, proc: &'a mut Proc, request: &'a Request, _: &'a Connection) -> Answering<'a> {
        Box::pin(async move {
            Ok(files::page(proc, "/", &request.path(), Listing::Go)
                .with_header("Cache-Control", "private")
                .with_header("Access-Control-Allow-Origin", "*")
                .with_header("Access-Control-Allow-Credentials", "true")
                .with_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS"))
        })
    }
}

pub async fn porter(proc: &mut Proc, argv: &[String]) -> Outcome {
    let flags = Flags::parse(&argv[1..], &["json-response"]);
    let mut values = BTreeMap::new();
    let mut ports = Vec::new();
    let port_of = |name: &str| {
        let number = |prefix: &str| name.strip_prefix(prefix).and_then(|port| port.parse::<u16>().ok());
        let tcp = number("SERVE_PORT_").or_else(|| number("SERVE_TCP_PORT_")).map(Port::tcp);
        let tls = || number("SERVE_TLS_PORT_").map(|port| Port { is_tls: true, ..Port::tcp(port) });
        tcp.or_else(tls).or_else(|| number("SERVE_UDP_PORT_").map(Port::udp))
    };
    for (name, value) in &proc.env {
        if let Some(port) = port_of(name) {
            values.insert((port.protocol, port.number), value.clone());
            ports.push(port);
        }
    }
    if let Err(port) = listen(proc, &ports) {
        return in_use(proc, port).await;
    }
    let site = Arc::new(Porter { values, as_json: flags.is_set("json-response", false) });
    serve(proc, &ports, |proc, connection| match connection.protocol {
        Protocol::Tcp => Box::pin(crate::network::serve::http_thread(proc, connection, site.clone())),
        Protocol::Udp => Box::pin(site.clone().datagrams(proc, connection)),
    })
    .await
}

struct Porter {
    values: BTreeMap<(Protocol, u16), String>,
    as_json: bool,
}

impl Porter {
    fn value(&self, connection: &Connection) -> String {
        self.values.get(&(connection.protocol, connection.local.port())).cloned().unwrap_or_default()
    }

    async fn datagrams(self: Arc<Self>, proc: Proc, connection: Connection) -> Result<(), Stop> {
        while let Received::Bytes(_) = proc.receive(&connection, None).await {
            let _ = proc.send(&connection, self.value(&connection).as_bytes()).await;
        }
        Ok(())
    }
}

impl Site for Porter {
    fn answer<'a>(&'a self, _: &'a mut Proc, request: &'a Request, connection: &'a Connection) -> Answering<'a> {
        Box::pin(async move {
            let value = self.value(connection);
            Ok(match self.as_json {
                true => {
                    let body = format!("{{\"Method\":{},\"Body\":{}}}", json(&request.method), json(&value));
                    Response::new(200, "application/json", body)
                }
                false => Response::text(200, value),
            })
        })
    }
}

pub async fn liveness(proc: &mut Proc) -> Outcome {
    let ports = [Port::tcp(8080)];
    if let Err(port) = listen(proc, &ports) {
        return in_use(proc, port).await;
    }
    let started_at = proc.now();
    serve_site(proc, &ports, Arc::new(Liveness { started_at })).await
}

struct Liveness {
    started_at: Timestamp,
}

impl Site for Liveness {
    fn answer<'a>(&'a self, proc: &'a mut Proc, request: &'a Request, _: &'a Connection) -> Answering<'a> {
        Box::pin(async move {
            let elapsed = Duration::try_from(proc.now().duration_since(self.started_at)).unwrap_or_default();
            let number = |name: &str, default: u64| {
                request.parameter(name).and_then(|text| text.parse().ok()).unwrap_or(default)
            };
            Ok(match request.path().as_str() {
                "/started" => Response::text(200, format!("{elapsed:?}")),
                "/healthz" if elapsed > LIVENESS_TIME => {
                    Response::text(500, format!("error: {}", elapsed.as_secs_f64()))
                }
                "/healthz" => Response::text(200, "ok"),
                "/redirect" => {
                    let to = request.parameter("loc").unwrap_or_default();
                    Response::new(302, "text/html; charset=utf-8", "").with_header("Location", to)
                }
                "/sleep-headers" => {
                    let seconds = number("time", 0);
                    proc.sleep(Duration::from_secs(seconds)).await;
                    let status = u16::try_from(number("code", 500)).unwrap_or(500);
                    Response::text(status, format!("Slept for {seconds} secs\n"))
                }
                _ => Response::text(404, "404 page not found\n"),
            })
        })
    }
}
