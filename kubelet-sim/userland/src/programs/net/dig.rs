//! `dig`: prints the records of a name, as zone files have them.
//!
//! Corresponds to BIND's dig.

use super::nslookup::reverse_name;
use crate::network::resolver::{ResolvConf, ask, search};
use crate::process::network::{LookupAnswer, Record, RecordType};
use crate::process::proc::{Outcome, Proc};
use std::net::IpAddr;

/// What the words of a command ask for.
struct Question {
    name: String,
    record_type: RecordType,
    is_short: bool,
    searches: bool,
    shows_answer: bool,
    shows_rest: bool,
}

pub async fn dig(proc: &mut Proc, argv: &[String]) -> Outcome {
    let mut question = Question {
        name: ".".to_owned(),
        record_type: RecordType::A,
        is_short: false,
        searches: false,
        shows_answer: true,
        shows_rest: true,
    };
    let mut config = ResolvConf::of(proc);
    let mut words = argv[1..].iter();
    while let Some(word) = words.next() {
        if let Some(given) = word.strip_prefix('@') {
            match given.parse::<IpAddr>() {
                Ok(address) => config.servers = vec![address],
                Err(_) => match crate::network::resolver::resolve(proc, given, Default::default()).await {
                    Ok(addresses) => config.servers = addresses,
                    Err(_) => {
                        return proc.fail(&format!("dig: couldn't get address for '{given}': not found"), 10).await;
                    }
                },
            }
        } else if let Some(option) = word.strip_prefix('+') {
            question.set(option);
        } else if word == "-x" {
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else {
                return proc.fail("dig: Invalid IP address", 1).await;
            };
            (question.name, question.record_type) = (reverse_name(address), RecordType::Ptr);
        } else if matches!(word.as_str(), "-t" | "-q") {
            let value = words.next().cloned().unwrap_or_default();
            match RecordType::parse(&value) {
                Some(record_type) if word == "-t" => question.record_type = record_type,
                _ => question.name = value,
            }
        } else if let Some(record_type) = RecordType::parse(word) {
            question.record_type = record_type;
        } else if !word.eq_ignore_ascii_case("IN") && !word.starts_with('-') {
            question.name.clone_from(word);
        }
    }
    let found = match question.searches {
        true => search(proc, &config, &question.name, question.record_type).await,
        false => ask(proc, &config, question.name.trim_end_matches('.'), question.record_type).await,
    };
    let (records, status): (&[Record], &str) = match &found.answer {
        LookupAnswer::Records(records) => (records, "NOERROR"),
        LookupAnswer::NoSuchName(records) => (records, "NXDOMAIN"),
        LookupAnswer::ServerFailed => (&[], "SERVFAIL"),
        LookupAnswer::TimedOut => {
            proc.print(";; connection timed out; no servers could be reached\n").await?;
            return Ok(9);
        }
    };
    if question.is_short {
        let lines: String = records.iter().map(|record| format!("{}\n", record.data)).collect();
        proc.print(&lines).await?;
        return Ok(0);
    }
    let lines: String = records.iter().map(line).collect();
    if question.shows_rest {
        let count = records.len();
        proc.print(&format!(
            "\n; <<>> DiG 9.18 <<>> {}\n;; global options: +cmd\n;; Got answer:\n\
             ;; ->>HEADER<<- opcode: QUERY, status: {status}, id: 4660\n\
             ;; flags: qr aa rd; QUERY: 1, ANSWER: {count}, AUTHORITY: 0, ADDITIONAL: 0\n\n\
             ;; QUESTION SECTION:\n;{}.\t\tIN\t{}\n\n",
            argv[1..].join(" "),
            found.name,
            question.record_type
        ))
        .await?;
        if !lines.is_empty() {
            proc.print(&format!(";; ANSWER SECTION:\n{lines}\n")).await?;
        }
        let when = proc.now().strftime("%a %b %d %H:%M:%S UTC %Y");
        let server = found.server;
        proc.print(&format!(";; Query time: 0 msec\n;; SERVER: {server}#53({server}) (UDP)\n;; WHEN: {when}\n\n"))
            .await?;
    } else if question.shows_answer {
        proc.print(&lines).await?;
    }
    Ok(0)
}

impl Question {
    fn set(&mut self, option: &str) {
        match option {
            "short" => self.is_short = true,
            "search" => self.searches = true,
            "nosearch" => self.searches = false,
            "noall" => (self.shows_answer, self.shows_rest) = (false, false),
            "answer" => self.shows_answer = true,
            // Options about retries, transports and other sections change nothing here.
            _ => {}
        }
    }
}

fn line(record: &Record) -> String {
    format!("{}.\t\t{}\tIN\t{}\t{}\n", record.name, record.ttl_s, record.data.record_type(), record.data)
}
