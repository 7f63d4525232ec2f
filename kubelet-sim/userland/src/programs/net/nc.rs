//! `nc`: connects its input and output to a port, or tries whether something listens there.
//!
//! Corresponds to netcat, as busybox and OpenBSD have it.

use crate::network::fetch::{FetchError, FetchOptions, connect};
use crate::network::serve::{Port, listen};
use crate::options;
use crate::process::descriptor::Descriptor;
use crate::process::network::{ConnectError, Connection, Protocol};
use crate::process::proc::{CHUNK_BYTES, Outcome, Proc};
use crate::process::sleep::Sleep;
use crate::programs::running::duration;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

/// The time for which the answer to a datagram is waited for.
const DATAGRAM_LIMIT: Duration = Duration::from_secs(1);

pub async fn nc(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "zvw:luknp:q:N46te:i:s:");
    let protocol = if options.has('u') { Protocol::Udp } else { Protocol::Tcp };
    let limit = options.value('w').and_then(duration);
    if options.has('l') {
        let port =
            options.value('p').or(options.operands.last().map(String::as_str)).and_then(|port| port.parse().ok());
        let Some(port) = port else { return proc.fail("nc: missing port", 1).await };
        return serve(proc, Port { protocol, number: port, is_tls: false }, options.has('k')).await;
    }
    let [host, ports] = options.operands.as_slice() else {
        return proc.fail("usage: nc [-46klNnuvz] [-p port] [-w timeout] [destination] [port]", 1).await;
    };
    let range = match ports.split_once('-') {
        Some((first, last)) => first.parse::<u16>().ok().zip(last.parse::<u16>().ok()),
        None => ports.parse::<u16>().ok().map(|port| (port, port)),
    };
    let Some((first, last)) = range else {
        return proc.fail(&format!("nc: port number invalid: {ports}"), 1).await;
    };
    let mut code = 1;
    for port in first..=last.min(first.saturating_add(1_000)) {
        let fetch_options = FetchOptions { connect_limit: limit, ..FetchOptions::default() };
        let connection = match connect(proc, (host, port), protocol, &fetch_options).await {
            Ok(connection) => connection,
            Err(error) => {
                if options.has('v') || matches!(error, FetchError::Resolve(_)) {
                    let why = reason(host, port, &error);
                    proc.error(&format!("nc: {why}\n")).await?;
                }
                continue;
            }
        };
        code = 0;
        if options.has('v') {
            let at = connection.remote.ip();
            proc.error(&format!("{host} ({at}:{port}) open\n")).await?;
        }
        if !options.has('z') {
            return talk(proc, connection, limit, options.has('N')).await;
        }
    }
    Ok(code)
}

fn reason(host: &str, port: u16, error: &FetchError) -> String {
    match error {
        FetchError::Resolve(_) => format!("bad address '{host}'"),
        FetchError::Connect(to, ConnectError::Refused) => format!("{host} ({}:{port}): Connection refused", to.ip()),
        FetchError::Connect(to, ConnectError::Unreachable) => format!("{host} ({}:{port}): No route to host", to.ip()),
        FetchError::Connect(to, _) => format!("{host} ({}:{port}): Connection timed out", to.ip()),
        _ => format!("{host} ({port}): Connection timed out"),
    }
}

async fn serve(proc: &mut Proc, port: Port, again: bool) -> Outcome {
    if listen(proc, &[port]).is_err() {
        return proc.fail("nc: bind: Address already in use", 1).await;
    }
    loop {
        let connection = proc.accept(&[(port.protocol, port.number)]).await;
        if !again {
            proc.kernel.network.close(port.protocol, port.number);
        }
        let code = talk(proc, connection, None, true).await?;
        if !again {
            return Ok(code);
        }
    }
}

/// A part of what goes through.
enum Part {
    Typed(Vec<u8>),
    Arrived(Vec<u8>),
    TimedOut,
}

/// Copies the input to the peer and what the peer sends to the output, until the peer ends.
async fn talk(proc: &mut Proc, mut connection: Connection, limit: Option<Duration>, ends_output: bool) -> Outcome {
    let is_datagram = connection.protocol == Protocol::Udp;
    // Files and devices are read at once.
    let mut typed = match proc.descriptors.get(&0) {
        Some(Descriptor::Reader(end) | Descriptor::Terminal(end, _)) => Some(end.clone()),
        _ => {
            let whole = proc.read_all(0).await.unwrap_or_default();
            proc.send(&connection, &whole).await?;
            if ends_output {
                connection.shut_down();
            }
            None
        }
    };
    loop {
        let limit = limit.or(is_datagram.then_some(DATAGRAM_LIMIT)).filter(|_| typed.is_none());
        let mut sleep = Box::pin(Sleep::new(&proc.kernel, proc.after(limit)));
        let part = poll_fn(|cx| {
            if let Poll::Ready(bytes) = connection.poll_receive(cx, &proc.kernel) {
                return Poll::Ready(Part::Arrived(bytes));
            }
            if let Some(end) = &typed
                && let Poll::Ready(bytes) = end.poll_read(cx, CHUNK_BYTES, None)
            {
                return Poll::Ready(Part::Typed(bytes));
            }
            sleep.as_mut().poll(cx).map(|()| Part::TimedOut)
        })
        .await;
        match part {
            Part::Arrived(bytes) if bytes.is_empty() => return Ok(0),
            Part::Arrived(bytes) => proc.write(1, &bytes).await?,
            Part::Typed(bytes) if bytes.is_empty() => {
                typed = None;
                if ends_output {
                    connection.shut_down();
                }
            }
            Part::Typed(bytes) => proc.send(&connection, &bytes).await?,
            Part::TimedOut => return Ok(0),
        }
    }
}
