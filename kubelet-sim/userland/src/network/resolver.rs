//! Finds the addresses of a name by `/etc/hosts`, `/etc/resolv.conf` and the DNS servers that it names.
//!
//! Corresponds to the resolver of a C library (resolv.conf(5)).

use crate::process::network::{LookupAnswer, Record, RecordData, RecordType};
use crate::process::proc::Proc;
use file_tree::actor::Actor;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Longest values of options, as the C library has them.
const MAX_NDOTS: usize = 15;
const MAX_TIMEOUT_S: u64 = 30;
const MAX_ATTEMPTS: u32 = 5;
const MAX_SERVERS: usize = 3;

/// The content of `/etc/resolv.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    pub servers: Vec<IpAddr>,
    pub searches: Vec<String>,
    pub ndots: usize,
    pub timeout: Duration,
    pub attempts: u32,
}

impl ResolvConf {
    pub fn parse(text: &str) -> Self {
        let mut found =
            Self { servers: Vec::new(), searches: Vec::new(), ndots: 1, timeout: Duration::from_secs(5), attempts: 2 };
        for line in text.lines() {
            let mut words = line.split(['#', ';']).next().unwrap_or_default().split_whitespace();
            match words.next() {
                Some("nameserver") => found.servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok())),
                Some("search" | "domain") => {
                    found.searches = words.map(|word| word.trim_end_matches('.').to_owned()).collect();
                }
                Some("options") => words.for_each(|word| found.set_option(word)),
                _ => {}
            }
        }
        found.servers.truncate(MAX_SERVERS);
        if found.servers.is_empty() {
            found.servers.push(Ipv4Addr::LOCALHOST.into());
        }
        found
    }

    fn set_option(&mut self, word: &str) {
        let Some((name, value)) = word.split_once(':') else { return };
        let Ok(value) = value.parse::<u32>() else { return };
        match name {
            "ndots" => self.ndots = (value as usize).min(MAX_NDOTS),
            "timeout" => self.timeout = Duration::from_secs(u64::from(value).clamp(1, MAX_TIMEOUT_S)),
            "attempts" => self.attempts = value.clamp(1, MAX_ATTEMPTS),
            _ => {}
        }
    }

    /// Reads the file of the container.
    pub fn of(proc: &Proc) -> Self {
        Self::parse(&text(proc, "/etc/resolv.conf"))
    }

    /// Returns the whole names that a name may mean, in the order in which they are tried.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let searched = self.searches.iter().map(|domain| format!("{name}.{domain}"));
        let own = std::iter::once(name.to_owned());
        match name.matches('.').count() >= self.ndots {
            true => own.chain(searched).collect(),
            false => searched.chain(own).collect(),
        }
    }
}

fn text(proc: &Proc, path: &str) -> String {
    let content = proc.tree().read(&Actor::root(proc.now()), path).unwrap_or_default();
    String::from_utf8_lossy(&content).into_owned()
}

/// Returns the addresses that `/etc/hosts` has for a name.
pub fn hosts(proc: &Proc, name: &str) -> Vec<IpAddr> {
    let text = text(proc, "/etc/hosts");
    let of_line = |line: &str| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    };
    text.lines().filter_map(of_line).collect()
}

/// The answer to a question that was asked of the servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// The whole name that was asked for last.
    pub name: String,
    pub server: IpAddr,
    pub answer: LookupAnswer,
}

impl Lookup {
    pub fn records(&self) -> &[Record] {
        match &self.answer {
            LookupAnswer::Records(records) => records,
            _ => &[],
        }
    }

    /// Returns the addresses among the records.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let address = |record: &Record| match record.data {
            RecordData::Address(address) => Some(address),
            _ => None,
        };
        self.records().iter().filter_map(address).collect()
    }

    /// True when the name has records of the type.
    pub fn has(&self, record_type: RecordType) -> bool {
        self.records().iter().any(|record| record.data.record_type() == record_type)
    }
}

/// Asks the servers for one whole name.
pub async fn ask(proc: &mut Proc, config: &ResolvConf, name: &str, record_type: RecordType) -> Lookup {
    let mut found = Lookup { name: name.to_owned(), server: config.servers[0], answer: LookupAnswer::TimedOut };
    for _ in 0..config.attempts {
        for server in &config.servers {
            found.server = *server;
            found.answer = proc.lookup(*server, name, record_type).await;
            match found.answer {
                LookupAnswer::TimedOut => proc.sleep(config.timeout).await,
                LookupAnswer::ServerFailed => {}
                _ => return found,
            }
        }
    }
    found
}

/// Asks for a name in the domains of the search list.
pub async fn search(proc: &mut Proc, config: &ResolvConf, name: &str, record_type: RecordType) -> Lookup {
    let mut last = None;
    for candidate in config.candidates(name) {
        let found = ask(proc, config, &candidate, record_type).await;
        match found.answer {
            LookupAnswer::NoSuchName(_) => {}
            LookupAnswer::Records(ref records) if records.is_empty() => {}
            _ => return found,
        }
        // The answer that names exist without such records says more than the one that they do not.
        let is_better = |last: &Lookup| matches!(last.answer, LookupAnswer::NoSuchName(_));
        if last.as_ref().is_none_or(is_better) {
            last = Some(found);
        }
    }
    last.unwrap_or(Lookup { name: name.to_owned(), server: config.servers[0], answer: LookupAnswer::ServerFailed })
}

/// The addresses that a program asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    #[default]
    Any,
    V4,
    V6,
}

impl Family {
    fn allows(self, address: &IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

/// A name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveError {
    Unknown,
    TimedOut,
}

/// Returns the addresses of a host: an address itself, what `/etc/hosts` says, or what the servers answer.
pub async fn resolve(proc: &mut Proc, host: &str, family: Family) -> Result<Vec<IpAddr>, ResolveError> {
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let known: Vec<IpAddr> = match literal {
        Some(address) => vec![address],
        None => hosts(proc, host),
    };
    let known: Vec<IpAddr> = known.into_iter().filter(|address| family.allows(address)).collect();
    if !known.is_empty() || literal.is_some() {
        return if known.is_empty() { Err(ResolveError::Unknown) } else { Ok(known) };
    }
    let config = ResolvConf::of(proc);
    for (record_type, is_asked) in [(RecordType::A, family != Family::V6), (RecordType::Aaaa, family != Family::V4)] {
        if !is_asked {
            continue;
        }
        let found = search(proc, &config, host, record_type).await;
        if found.answer == LookupAnswer::TimedOut {
            return Err(ResolveError::TimedOut);
        }
        let addresses = found.addresses();
        if !addresses.is_empty() {
            return Ok(addresses);
        }
    }
    Err(ResolveError::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_searched_for_in_order() {
        let config = ResolvConf::parse(
            "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:2\n",
        );
        let searched = |name: &str| config.candidates(name).join(" ");
        assert_eq!(searched("web"), "web.shop.svc.cluster.local web.svc.cluster.local web.cluster.local web");
        assert_eq!(searched("a.b.c"), "a.b.c a.b.c.shop.svc.cluster.local a.b.c.svc.cluster.local a.b.c.cluster.local");
        assert_eq!(searched("web."), "web");
    }

    #[test]
    fn a_file_is_read_as_the_c_library_reads_it() {
        let config = ResolvConf::parse(
            "# mine\nnameserver 1.1.1.1\nnameserver bad\nnameserver ::1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\n\
             search a\nsearch b. c ; d\noptions ndots:99 timeout:0 attempts:9 edns0\n",
        );
        assert_eq!(config.servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1.1.1.1", "::1", "2.2.2.2"]);
        assert_eq!((config.searches, config.ndots), (vec!["b".to_owned(), "c".to_owned()], 15));
        assert_eq!((config.timeout, config.attempts), (Duration::from_secs(1), 5));
        assert_eq!(ResolvConf::parse("").servers, [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    }
}
