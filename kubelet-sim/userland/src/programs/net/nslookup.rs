//! `nslookup`, `host` and `getent`: look names up and print what is found.
//!
//! Corresponds to busybox's nslookup, BIND's host, and getent of the C library.

use crate::network::resolver::{Lookup, ResolvConf, ask, hosts, search};
use crate::options;
use crate::process::network::{LookupAnswer, Record, RecordData, RecordType};
use crate::process::proc::{Outcome, Proc, Stop};
use std::net::{IpAddr, SocketAddr};

/// Returns the name under which a server has the name of an address.
pub fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let digits: Vec<String> =
                address.octets().iter().rev().map(|byte| format!("{:x}.{:x}", byte & 15, byte >> 4)).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    }
}

/// Returns the address of a server that a word names.
async fn server(proc: &mut Proc, word: &str) -> Option<IpAddr> {
    let found = crate::network::resolver::resolve(proc, word, Default::default()).await;
    found.ok()?.first().copied()
}

pub async fn nslookup(proc: &mut Proc, argv: &[String]) -> Outcome {
    let (mut types, mut operands) = (Vec::new(), Vec::new());
    for word in &argv[1..] {
        let option = word.strip_prefix('-').and_then(|option| option.split_once('='));
        match option {
            Some(("type" | "querytype" | "q", name)) => match RecordType::parse(name) {
                Some(record_type) => types.push(record_type),
                None if name.eq_ignore_ascii_case("any") => types.extend([RecordType::A, RecordType::Srv]),
                None => return proc.fail(&format!("nslookup: invalid query type \"{name}\""), 1).await,
            },
            Some(_) => {}
            None if word.starts_with('-') => {}
            None => operands.push(word.clone()),
        }
    }
    let Some(name) = operands.first() else {
        return proc.fail("Usage: nslookup [-type=QUERY_TYPE] HOST [DNS_SERVER]", 1).await;
    };
    let mut config = ResolvConf::of(proc);
    if let Some(given) = operands.get(1) {
        match server(proc, given).await {
            Some(address) => config.servers = vec![address],
            None => return proc.fail(&format!("nslookup: bad address '{given}'"), 1).await,
        }
    }
    let address: Option<IpAddr> = name.parse().ok();
    let name = address.map_or(name.clone(), |address| format!("{}.", reverse_name(address)));
    if types.is_empty() {
        types = if address.is_some() { vec![RecordType::Ptr] } else { vec![RecordType::A, RecordType::Aaaa] };
    }
    let mut lookups = Vec::new();
    for record_type in types {
        let found = search(proc, &config, &name, record_type).await;
        if found.answer == LookupAnswer::TimedOut {
            return proc.fail(";; connection timed out; no servers could be reached\n", 1).await;
        }
        lookups.push(found);
    }
    let server = SocketAddr::new(lookups[0].server, 53);
    proc.print(&format!("Server:\t\t{}\nAddress:\t{server}\n\n", server.ip())).await?;
    print_answers(proc, &lookups).await
}

async fn print_answers(proc: &mut Proc, lookups: &[Lookup]) -> Outcome {
    let mut text = String::new();
    for record in lookups.iter().flat_map(Lookup::records) {
        text += &match &record.data {
            RecordData::Address(address) => format!("Name:\t{}\nAddress: {address}\n", record.name),
            RecordData::Cname(target) => format!("{}\tcanonical name = {target}\n", record.name),
            RecordData::Pointer(target) => format!("{}\tname = {target}\n", record.name),
            RecordData::Service { .. } => {
                let data = record.data.to_string();
                format!("{}\tservice = {}\n", record.name, data.trim_end_matches('.'))
            }
            RecordData::Text(_) => format!("{}\ttext = {}\n", record.name, record.data),
        };
    }
    if !text.is_empty() {
        proc.print(&format!("{text}\n")).await?;
        return Ok(0);
    }
    let best = lookups.iter().find(|lookup| !matches!(lookup.answer, LookupAnswer::NoSuchName(_)));
    let line = match best {
        Some(Lookup { name, answer: LookupAnswer::ServerFailed, .. }) => {
            format!("** server can't find {name}: SERVFAIL\n\n")
        }
        Some(found) => format!("*** Can't find {}: No answer\n\n", found.name),
        None => format!("** server can't find {}: NXDOMAIN\n\n", lookups[0].name),
    };
    proc.print(&line).await?;
    Ok(i32::from(!line.contains("No answer")))
}

pub async fn host(proc: &mut Proc, argv: &[String]) -> Outcome {
    let options = options!(proc, argv, "t:W:R:av46T");
    let Some(name) = options.operands.first() else {
        return proc.fail("Usage: host [-t type] hostname [server]", 1).await;
    };
    let mut config = ResolvConf::of(proc);
    if let Some(given) = options.operands.get(1) {
        match server(proc, given).await {
            Some(address) => config.servers = vec![address],
            None => return proc.fail(&format!("host: couldn't get address for '{given}': not found"), 1).await,
        }
    }
    let address: Option<IpAddr> = name.parse().ok();
    let asked = address.map_or(name.clone(), |address| format!("{}.", reverse_name(address)));
    let types = match (options.value('t').map(RecordType::parse), address) {
        (Some(Some(record_type)), _) => vec![record_type],
        (Some(None), _) => return proc.fail("host: invalid type", 1).await,
        (None, Some(_)) => vec![RecordType::Ptr],
        (None, None) => vec![RecordType::A, RecordType::Aaaa],
    };
    let is_typed = types.len() == 1;
    let mut lines = Vec::new();
    let mut first: Option<Lookup> = None;
    for record_type in types {
        let found = search(proc, &config, &asked, record_type).await;
        for record in found.records() {
            let line = host_line(record);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        if is_typed && found.records().is_empty() && matches!(found.answer, LookupAnswer::Records(_)) {
            lines.push(format!("{} has no {record_type} record\n", found.name));
        }
        first.get_or_insert(found);
    }
    if lines.is_empty() {
        let (code, line) = match first.map(|found| found.answer) {
            Some(LookupAnswer::TimedOut) => (1, ";; connection timed out; no servers could be reached\n".to_owned()),
            Some(LookupAnswer::ServerFailed) => (1, format!("Host {name} not found: 2(SERVFAIL)\n")),
            _ => (1, format!("Host {} not found: 3(NXDOMAIN)\n", asked.trim_end_matches('.'))),
        };
        proc.print(&line).await?;
        return Ok(code);
    }
    proc.print(&lines.concat()).await?;
    Ok(0)
}

fn host_line(record: &Record) -> String {
    let name = &record.name;
    match &record.data {
        RecordData::Address(IpAddr::V4(address)) => format!("{name} has address {address}\n"),
        RecordData::Address(IpAddr::V6(address)) => format!("{name} has IPv6 address {address}\n"),
        RecordData::Cname(target) => format!("{name} is an alias for {target}.\n"),
        RecordData::Pointer(target) => format!("{name} domain name pointer {target}.\n"),
        data @ RecordData::Service { .. } => format!("{name} has SRV record {data}\n"),
        data @ RecordData::Text(_) => format!("{name} descriptive text {data}\n"),
    }
}

/// Looks up the databases `hosts` and `ahosts`, and users.
pub async fn getent(proc: &mut Proc, argv: &[String]) -> Outcome {
    const NOT_FOUND: i32 = 2;
    let (database, keys) = match &argv[1..] {
        [database, keys @ ..] => (database.as_str(), keys),
        [] => return proc.fail("getent: wrong number of arguments", 1).await,
    };
    let mut code = 0;
    match database {
        "hosts" | "ahosts" | "ahostsv4" => {
            for key in keys {
                let found = addresses(proc, key).await?;
                if found.is_empty() {
                    code = NOT_FOUND;
                }
                for (address, name) in found {
                    let line = match database {
                        "hosts" => format!("{address:<15} {name}\n"),
                        _ => format!("{address:<15} STREAM {name}\n{address:<15} DGRAM\n{address:<15} RAW\n"),
                    };
                    proc.print(&line).await?;
                }
            }
        }
        "passwd" | "group" => {
            let content = proc.tree().read(&proc.actor(), &format!("/etc/{database}")).unwrap_or_default();
            let content = String::from_utf8_lossy(&content).into_owned();
            let is_meant = |line: &str| {
                let fields: Vec<&str> = line.split(':').collect();
                let is = |at: usize, key: &String| fields.get(at) == Some(&key.as_str());
                keys.is_empty() || keys.iter().any(|key| is(0, key) || is(2, key))
            };
            let lines: String = content.lines().filter(|line| is_meant(line)).map(|line| format!("{line}\n")).collect();
            if lines.is_empty() {
                code = NOT_FOUND;
            }
            proc.print(&lines).await?;
        }
        other => return proc.fail(&format!("Unknown database: {other}"), 1).await,
    }
    Ok(code)
}

/// Returns the addresses of a host with its whole name.
async fn addresses(proc: &mut Proc, name: &str) -> Result<Vec<(IpAddr, String)>, Stop> {
    if let Ok(address) = name.parse::<IpAddr>() {
        let config = ResolvConf::of(proc);
        let found = ask(proc, &config, &reverse_name(address), RecordType::Ptr).await;
        let name = |record: &Record| match &record.data {
            RecordData::Pointer(name) => Some((address, name.clone())),
            _ => None,
        };
        return Ok(found.records().iter().filter_map(name).take(1).collect());
    }
    let known = hosts(proc, name);
    if !known.is_empty() {
        return Ok(known.into_iter().map(|address| (address, name.to_owned())).collect());
    }
    let config = ResolvConf::of(proc);
    let found = search(proc, &config, name, RecordType::A).await;
    let whole = found.records().last().map(|record| record.name.clone()).unwrap_or_default();
    Ok(found.addresses().into_iter().map(|address| (address, whole.clone())).collect())
}
