//! Sub-commands of agnhost that look at the network: `connect`, `dns-suffix`, `dns-server-list`, `etc-hosts` and
//! `inclusterclient`.
//!
//! Corresponds to connect, dns and inclusterclient of test/images/agnhost.

use super::flags::{Flags, go_duration, log};
use super::netexec::go_error;
use crate::network::fetch::{FetchError, FetchOptions, connect as connect_to, fetch};
use crate::network::http::{Headers, Request};
use crate::network::resolver::{Family, resolve};
use crate::network::url::{Url, host_and_port};
use crate::process::network::{ConnectError, Protocol};
use crate::process::proc::{Outcome, Proc};
use crate::process::sockets::Received;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::time::Duration;

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

fn text(proc: &Proc, path: &str) -> Option<String> {
    let content = proc.tree().read(&proc.actor(), path).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// Prints the words behind a keyword of `/etc/resolv.conf`.
pub async fn resolver_line(proc: &mut Proc, keyword: &str) -> Outcome {
    let content = text(proc, "/etc/resolv.conf").unwrap_or_default();
    let Some(line) = content.lines().find(|line| line.starts_with(keyword)) else {
        return proc.fail("panic: Could not find DNS search list!", 2).await;
    };
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    proc.print(&format!("{}\n", words.join(","))).await?;
    Ok(0)
}

pub async fn etc_hosts(proc: &mut Proc) -> Outcome {
    match text(proc, "/etc/hosts") {
        Some(content) => {
            proc.print(&format!("{content}\n")).await?;
            Ok(0)
        }
        None => proc.fail("panic: open /etc/hosts: no such file or directory", 2).await,
    }
}

pub async fn connect(proc: &mut Proc, argv: &[String]) -> Outcome {
    let flags = Flags::parse(&argv[1..], &[]);
    let [to] = flags.operands.as_slice() else {
        return proc.fail(&format!("Error: accepts 1 arg(s), received {}", flags.operands.len()), 1).await;
    };
    let protocol = match flags.value("protocol").unwrap_or("tcp") {
        "" | "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return proc.fail("Unsupported protocol", 1).await,
    };
    let Some((host, Some(port))) = host_and_port(to) else {
        return proc.fail(&format!("UNKNOWN: address {to}: missing port in address"), 1).await;
    };
    let limit = flags.value("timeout").and_then(go_duration).filter(|limit| !limit.is_zero());
    let Ok(addresses) = resolve(proc, &host, Family::Any).await else {
        return proc.fail(&format!("DNS: lookup {host}: no such host"), 1).await;
    };
    let options = FetchOptions { addresses, connect_limit: limit, ..FetchOptions::default() };
    let connection = match connect_to(proc, (&host, port), protocol, &options).await {
        Ok(connection) => connection,
        Err(FetchError::Connect(_, ConnectError::Refused)) => return proc.fail("REFUSED", 1).await,
        Err(FetchError::Connect(_, ConnectError::TimedOut)) => return proc.fail("TIMEOUT", 1).await,
        Err(error) => return proc.fail(&format!("OTHER: {}", go_error(&error)), 1).await,
    };
    if protocol == Protocol::Tcp {
        return Ok(0);
    }
    let data = flags.value("udp-data").unwrap_or("hostname").to_owned();
    let _ = proc.send(&connection, format!("{data}\n").as_bytes()).await;
    match proc.receive(&connection, proc.after(limit)).await {
        Received::Bytes(_) => Ok(0),
        Received::TimedOut => proc.fail(&format!("TIMEOUT: read udp {}: i/o timeout", connection.remote), 1).await,
        Received::End => proc.fail(&format!("REFUSED: read udp {}: connection refused", connection.remote), 1).await,
    }
}

/// Asks the API server for `/healthz` again and again, with the token of the pod's service account.
pub async fn in_cluster_client(proc: &mut Proc, argv: &[String]) -> Outcome {
    let flags = Flags::parse(&argv[1..], &[]);
    let period = Duration::from_secs(u64::try_from(flags.number("poll-interval", 30)).unwrap_or(30).max(1));
    log(proc, "started").await?;
    let address = |name: &str| proc.env.get(name).cloned().filter(|value| !value.is_empty());
    let (Some(host), Some(port)) = (address("KUBERNETES_SERVICE_HOST"), address("KUBERNETES_SERVICE_PORT")) else {
        let why = "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT \
                   must be defined";
        return proc.fail(&format!("err: {why}"), 1).await;
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let Some(url) = Url::parse(&format!("https://{host}:{port}/healthz")) else {
        return proc.fail("err: the address of the API server is not valid", 1).await;
    };
    loop {
        proc.sleep(period).await;
        log(proc, "calling /healthz").await?;
        let token = text(proc, TOKEN).map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        let mut headers = vec![("Host".to_owned(), url.authority())];
        match token {
            Some(token) => {
                let header = format!("Bearer {token}");
                let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(format!("salt|{header}")));
                log(proc, &format!("authz_header={hash}")).await?;
                headers.push(("Authorization".to_owned(), header));
            }
            None => log(proc, "authz_header=<empty>").await?,
        }
        let request = Request {
            method: "GET".to_owned(),
            target: url.target.clone(),
            version: "HTTP/1.1".to_owned(),
            headers: Headers(headers),
            body: Vec::new(),
        };
        let options = FetchOptions { until: proc.after(Some(period)), ..FetchOptions::default() };
        let why = match fetch(proc, &url, &request, &options).await {
            Ok(fetched) if fetched.response.status == 200 => continue,
            Ok(fetched) => format!("the server answered with status {}", fetched.response.status),
            Err(error) => format!("Get {:?}: {}", url.to_string(), go_error(&error)),
        };
        log(proc, "status=failed").await?;
        log(proc, &format!("error checking /healthz: {why}")).await?;
    }
}
