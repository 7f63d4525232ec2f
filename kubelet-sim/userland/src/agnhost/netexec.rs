//! `agnhost netexec`: a server that says who it is, runs commands, and asks other servers.
//!
//! Corresponds to test/images/agnhost/netexec.

use super::flags::{Flags, go_duration, json, log};
use crate::network::fetch::{FetchError, FetchOptions, connect, fetch};
use crate::network::http::{Headers, Request, Response};
use crate::network::serve::{Answering, Port, Site, http_thread, listen, serve};
use crate::network::url::Url;
use crate::process::descriptor::Descriptor;
use crate::process::network::{ConnectError, Connection, Protocol};
use crate::process::pipe::pipe;
use crate::process::proc::{Outcome, Proc, Stop};
use crate::process::signal::ExitStatus;
use crate::process::sockets::Received;
use file_tree::node::Device;
use std::sync::Arc;
use std::time::Duration;

/// The time that `/dial` waits for an answer.
const DIAL_LIMIT: Duration = Duration::from_secs(5);
/// The descriptor from which the output of a command is read.
const COMMAND_OUTPUT: u8 = 101;
const MAX_TRIES: u32 = 1_000;

pub async fn netexec(proc: &mut Proc, argv: &[String]) -> Outcome {
    let flags = Flags::parse(&argv[1..], &[]);
    let mut ports = Vec::new();
    ports.extend(flags.port("udp-port", 8081).map(Port::udp));
    let http = flags.port("http-port", 8080);
    let is_tls = flags.value("tls-cert-file").is_some_and(|path| !path.is_empty());
    ports.extend(http.map(|port| Port { is_tls, ..Port::tcp(port) }));
    if let Err(port) = listen(proc, &ports) {
        return proc.fail(&format!("listen tcp :{port}: bind: address already in use"), 1).await;
    }
    for port in &ports {
        let kind = if port.protocol == Protocol::Udp { "UDP" } else { "HTTP" };
        log(proc, &format!("Started {kind} server on port {}", port.number)).await?;
    }
    let site: Arc<dyn Site> = Arc::new(Netexec {
        answers_always: flags.value("http-override").filter(|path| !path.is_empty()).map(str::to_owned),
        is_ready: flags.port("udp-port", 8081).is_some(),
    });
    serve(proc, &ports, |proc, connection| match connection.protocol {
        Protocol::Tcp => Box::pin(http_thread(proc, connection, site.clone())),
        Protocol::Udp => Box::pin(datagrams(proc, connection)),
    })
    .await
}

/// Answers the commands that arrive as datagrams.
async fn datagrams(mut proc: Proc, connection: Connection) -> Result<(), Stop> {
    while let Received::Bytes(bytes) = proc.receive(&connection, None).await {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut words = text.trim_end().splitn(2, ' ');
        let answer = match words.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "hostname" => proc.kernel.hostname.clone(),
            "echo" => words.next().unwrap_or_default().to_owned(),
            "clientip" => connection.remote.to_string(),
            "" => continue,
            other => {
                log(&mut proc, &format!("Unknown UDP command received from {}: {other}", connection.remote)).await?;
                continue;
            }
        };
        if proc.send(&connection, answer.as_bytes()).await.is_err() {
            break;
        }
    }
    Ok(())
}

struct Netexec {
    /// The page that answers every request.
    answers_always: Option<String>,
    is_ready: bool,
}

impl Site for Netexec {
    fn answer<'a>(&'a self, proc: &'a mut Proc, request: &'a Request, connection: &'a Connection) -> Answering<'a> {
        Box::pin(async move {
            match &self.answers_always {
                Some(target) => {
                    let request = Request { target: target.clone(), method: "GET".to_owned(), ..request.clone() };
                    self.page(proc, &request, connection).await
                }
                None => self.page(proc, request, connection).await,
            }
        })
    }
}

impl Netexec {
    async fn page(&self, proc: &mut Proc, request: &Request, connection: &Connection) -> Result<Response, Stop> {
        let value = |name: &str| request.parameter(name).unwrap_or_default();
        let path = request.path();
        match path.as_str() {
            "/clientip" => {
                log(proc, "GET /clientip").await?;
                Ok(Response::text(200, connection.remote.to_string()))
            }
            "/dial" => dial(proc, request).await,
            "/echo" => {
                let (msg, code) = (value("msg"), value("code"));
                log(proc, &format!("GET /echo?msg={msg}&code={code}")).await?;
                Ok(match code.parse() {
                    Ok(code) => Response::text(code, msg),
                    Err(_) if code.is_empty() => Response::text(200, msg),
                    Err(_) => {
                        Response::text(200, format!("argument 'code' must be an integer or empty, got {code:?}\n"))
                    }
                })
            }
            "/exit" => exit(proc, request).await,
            "/healthz" => {
                log(proc, "GET /healthz").await?;
                Ok(Response::text(if self.is_ready { 200 } else { 412 }, ""))
            }
            "/header" => {
                let key = value("key");
                log(proc, &format!("GET /header?key={key}")).await?;
                let found = match key.eq_ignore_ascii_case("host") {
                    true => None,
                    false => request.headers.get(&key),
                };
                Ok(Response::text(200, found.unwrap_or_default()))
            }
            "/hostname" | "/hostName" => {
                log(proc, &format!("GET {path}")).await?;
                Ok(Response::text(200, proc.kernel.hostname.clone()))
            }
            "/redirect" => {
                let (location, code) = (value("location"), value("code"));
                log(proc, &format!("GET /redirect?location={location}&code={code}")).await?;
                let status = code.parse().unwrap_or(302);
                Ok(Response::new(status, "text/html; charset=utf-8", "").with_header("Location", location))
            }
            "/shell" => shell(proc, request).await,
            "/shutdown" => {
                log(proc, "GET /shutdown").await?;
                Err(Stop::Exit(0))
            }
            "/upload" => {
                log(proc, "GET /upload").await?;
                Ok(Response::text(200, "{\"error\":\"Unable to upload file.\"}"))
            }
            // The page `/` answers for everything that has no page of its own.
            _ => {
                log(proc, "GET /").await?;
                let now = proc.now().strftime("%Y-%m-%d %H:%M:%S.%9f +0000 UTC m=+0.000000000");
                Ok(Response::text(200, format!("NOW: {now}")))
            }
        }
    }
}

async fn exit(proc: &mut Proc, request: &Request) -> Result<Response, Stop> {
    let [code, timeout, wait] = ["code", "timeout", "wait"].map(|name| request.parameter(name).unwrap_or_default());
    log(proc, &format!("GET /exit?code={code}&timeout={timeout}&wait={wait}")).await?;
    for (name, text) in [("timeout", &timeout), ("wait", &wait)] {
        if !text.is_empty() && go_duration(text).is_none() {
            let why = format!("argument '{name}' must be a valid golang duration or empty, got {text:?}\n");
            return Ok(Response::text(200, why));
        }
    }
    let Ok(number) = code.parse::<i32>().or_else(|error| if code.is_empty() { Ok(0) } else { Err(error) }) else {
        let why = format!("argument 'code' must be an integer [0-127] or empty, got {code:?}\n");
        return Ok(Response::text(200, why));
    };
    proc.sleep(go_duration(&wait).unwrap_or_default()).await;
    Err(Stop::Exit(number))
}

async fn shell(proc: &mut Proc, request: &Request) -> Result<Response, Stop> {
    let mut given = ["shellCommand", "cmd"].into_iter().filter_map(|name| request.parameter(name));
    let command = given.find(|command| !command.is_empty()).unwrap_or_default();
    log(proc, &format!("GET /shell?cmd={command}")).await?;
    let (reader, writer) = pipe();
    proc.descriptors.insert(0, Descriptor::Device(Device::Null));
    let outputs = [1, 2].map(|number| (number, proc.descriptors.insert(number, Descriptor::Writer(writer.clone()))));
    let child = proc.spawn(["/bin/sh", "-c", &command].map(str::to_owned).to_vec());
    for (number, before) in outputs {
        proc.descriptors.remove(&number);
        proc.descriptors.extend(before.map(|before| (number, before)));
    }
    drop(writer);
    proc.descriptors.insert(COMMAND_OUTPUT, Descriptor::Reader(reader));
    let output = proc.read_all(COMMAND_OUTPUT).await.unwrap_or_default();
    proc.descriptors.remove(&COMMAND_OUTPUT);
    let error = match child {
        Some(pid) => match proc.wait(pid).await {
            ExitStatus::Code(0) => None,
            ExitStatus::Code(code) => Some(format!("exit status {code}")),
            ExitStatus::Signal(signal) => Some(format!("signal: {}", signal.name().to_ascii_lowercase())),
        },
        None => Some("fork/exec /bin/sh: resource temporarily unavailable".to_owned()),
    };
    let output = String::from_utf8_lossy(&output).into_owned();
    let fields = [("error", error), ("output", Some(output).filter(|output| !output.is_empty()))];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let shown: Vec<String> = fields.clone().map(|(name, value)| format!("{name}:{value}")).collect();
    log(proc, &format!("Output: map[{}]", shown.join(" "))).await?;
    let written: Vec<String> = fields.map(|(name, value)| format!("{}:{}", json(name), json(&value))).collect();
    Ok(Response::text(200, format!("{{{}}}", written.join(","))))
}

async fn dial(proc: &mut Proc, request: &Request) -> Result<Response, Stop> {
    let [host, port, asked, protocol, tries] =
        ["host", "port", "request", "protocol", "tries"].map(|name| request.parameter(name).unwrap_or_default());
    log(proc, &format!("GET /dial?host={host}&protocol={protocol}&port={port}&request={asked}&tries={tries}")).await?;
    let bad = |why: String| Ok(Response::text(400, format!("{why}\n")));
    let tries = match tries.parse::<u32>() {
        Ok(tries) => tries.min(MAX_TRIES),
        Err(_) if tries.is_empty() => 1,
        Err(_) => {
            let why = format!("strconv.Atoi: parsing {tries:?}: invalid syntax");
            return bad(format!("tries parameter is invalid. {why}"));
        }
    };
    if asked.is_empty() {
        return bad("request parameter not specified. <nil>".to_owned());
    }
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "" | "http" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        other => return bad(format!("unsupported protocol. {other}")),
    };
    let Ok(port) = port.parse::<u16>() else {
        return bad(format!("host and/or port param are invalid. lookup tcp/{port}: unknown port"));
    };
    let addresses = crate::network::resolver::resolve(proc, &host, Default::default()).await;
    let Ok(addresses) = addresses else {
        return bad(format!("host and/or port param are invalid. lookup {host}: no such host"));
    };
    let (mut responses, mut errors, mut last) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..tries {
        let options = FetchOptions {
            addresses: addresses.iter().take(1).copied().collect(),
            until: proc.after(Some(DIAL_LIMIT)),
            ..FetchOptions::default()
        };
        let answer = match protocol {
            Protocol::Tcp => dial_http(proc, (&host, port), &asked, &options).await,
            Protocol::Udp => dial_udp(proc, (&host, port), &asked, &options).await,
        };
        match answer {
            Ok(answer) => {
                last.clone_from(&answer);
                responses.push(json(&answer));
            }
            Err(error) => {
                last.clear();
                errors.push(json(&error));
            }
        }
    }
    let mut fields = Vec::new();
    if !errors.is_empty() {
        fields.push(format!("\"errors\":[{}]", errors.join(",")));
    }
    if !last.is_empty() {
        fields.push(format!("\"responses\":[{}]", responses.join(",")));
    }
    Ok(Response::text(200, format!("{{{}}}", fields.join(","))))
}

async fn dial_http(
    proc: &mut Proc,
    (_, port): (&str, u16),
    asked: &str,
    options: &FetchOptions,
) -> Result<String, String> {
    let address = std::net::SocketAddr::new(options.addresses[0], port);
    let text = format!("http://{address}/{asked}");
    let url = Url::parse(&text).ok_or_else(|| format!("Get {text:?}: invalid URL"))?;
    let headers = [("Host", url.authority()), ("User-Agent", "Go-http-client/1.1".to_owned())];
    let request = Request {
        method: "GET".to_owned(),
        target: url.target.clone(),
        version: "HTTP/1.1".to_owned(),
        headers: Headers(headers.map(|(name, value)| (name.to_owned(), value)).into()),
        body: Vec::new(),
    };
    match fetch(proc, &url, &request, options).await {
        Ok(fetched) => Ok(String::from_utf8_lossy(&fetched.response.body).into_owned()),
        Err(error) => Err(format!("Get {text:?}: {}", go_error(&error))),
    }
}

/// Words an error as Go's HTTP client does.
pub fn go_error(error: &FetchError) -> String {
    match error {
        FetchError::Resolve(_) => "dial tcp: lookup failed: no such host".to_owned(),
        FetchError::Connect(to, ConnectError::Refused) => format!("dial tcp {to}: connect: connection refused"),
        FetchError::Connect(to, ConnectError::Unreachable) => format!("dial tcp {to}: connect: no route to host"),
        FetchError::Connect(to, ConnectError::TimedOut) => format!("dial tcp {to}: i/o timeout"),
        FetchError::TimedOut => "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned(),
        FetchError::Empty => "EOF".to_owned(),
        FetchError::NotHttp => "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned(),
        FetchError::NotTls => "http: server gave HTTP response to HTTPS client".to_owned(),
    }
}

async fn dial_udp(proc: &mut Proc, to: (&str, u16), asked: &str, options: &FetchOptions) -> Result<String, String> {
    let failed = |why: &str| Err(format!("reading from udp connection failed. err:'{why}'"));
    let connection = match connect(proc, to, Protocol::Udp, options).await {
        Ok(connection) => connection,
        Err(FetchError::Connect(to, ConnectError::Refused)) => {
            return failed(&format!("read udp {to}: read: connection refused"));
        }
        Err(_) => return failed("i/o timeout"),
    };
    let _ = proc.send(&connection, asked.as_bytes()).await;
    match proc.receive(&connection, options.until).await {
        Received::Bytes(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Received::End | Received::TimedOut => failed("i/o timeout"),
    }
}
