//! The options of `curl`.

use crate::programs::running::duration;
use std::net::IpAddr;
use std::time::Duration;

/// What the words of a command ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurlOptions {
    pub urls: Vec<String>,
    pub is_silent: bool,
    pub shows_error: bool,
    pub is_verbose: bool,
    pub includes_head: bool,
    pub only_head: bool,
    pub fails: bool,
    pub fails_with_body: bool,
    pub follows: bool,
    pub sends_query: bool,
    pub outputs: Vec<String>,
    pub uses_remote_name: bool,
    pub write_out: Option<String>,
    pub method: Option<String>,
    pub data: Vec<u8>,
    pub has_data: bool,
    pub is_json: bool,
    pub headers: Vec<String>,
    pub user: Option<String>,
    pub bearer: Option<String>,
    pub agent: Option<String>,
    pub limit: Option<Duration>,
    pub connect_limit: Option<Duration>,
    pub resolve: Vec<(String, u16, Vec<IpAddr>)>,
    pub retries: u32,
    pub retry_delay: Option<Duration>,
    pub retries_refused: bool,
    pub retries_all: bool,
    pub max_redirects: Option<u32>,
    pub only_v4: bool,
    pub only_v6: bool,
    /// Files whose content is data: read before the request is sent.
    pub data_files: Vec<String>,
    pub shows_version: bool,
}

/// Letters and long names of the options; those with a value.
const WITH_VALUE: [(&str, char); 27] = [
    ("output", 'o'),
    ("write-out", 'w'),
    ("request", 'X'),
    ("data", 'd'),
    ("header", 'H'),
    ("user-agent", 'A'),
    ("user", 'u'),
    ("max-time", 'm'),
    ("cacert", ' '),
    ("cert", 'E'),
    ("key", ' '),
    ("interface", ' '),
    ("referer", 'e'),
    ("connect-timeout", ' '),
    ("resolve", ' '),
    ("retry", ' '),
    ("retry-delay", ' '),
    ("retry-max-time", ' '),
    ("max-redirs", ' '),
    ("data-raw", ' '),
    ("data-binary", ' '),
    ("data-urlencode", ' '),
    ("json", ' '),
    ("oauth2-bearer", ' '),
    ("url", ' '),
    ("noproxy", ' '),
    ("local-port", ' '),
];
const SWITCHES: [(&str, char); 29] = [
    ("silent", 's'),
    ("show-error", 'S'),
    ("verbose", 'v'),
    ("include", 'i'),
    ("head", 'I'),
    ("fail", 'f'),
    ("fail-with-body", ' '),
    ("location", 'L'),
    ("get", 'G'),
    ("insecure", 'k'),
    ("globoff", 'g'),
    ("disable", 'q'),
    ("remote-name", 'O'),
    ("ipv4", '4'),
    ("ipv6", '6'),
    ("no-buffer", 'N'),
    ("version", 'V'),
    ("compressed", ' '),
    ("http1.1", ' '),
    ("http1.0", '0'),
    ("http2", ' '),
    ("retry-connrefused", ' '),
    ("retry-all-errors", ' '),
    ("no-progress-meter", ' '),
    ("no-keepalive", ' '),
    ("path-as-is", ' '),
    ("progress-bar", '#'),
    ("tcp-nodelay", ' '),
    ("location-trusted", ' '),
];

impl CurlOptions {
    /// Reads the words behind the program's name. The error is a message and an exit code.
    pub fn parse(words: &[String]) -> Result<Self, (String, i32)> {
        let mut found = Self::default();
        let mut words = words.iter();
        let unknown = |word: &str| (format!("option {word}: is unknown"), 2);
        let missing = |word: &str| (format!("option {word}: requires parameter"), 2);
        while let Some(word) = words.next() {
            if let Some(name) = word.strip_prefix("--") {
                if WITH_VALUE.iter().any(|(known, _)| *known == name) {
                    let value = words.next().ok_or_else(|| missing(word))?;
                    found.set_value(name, value)?;
                } else if SWITCHES.iter().any(|(known, _)| *known == name) {
                    found.set(name);
                } else {
                    return Err(unknown(word));
                }
                continue;
            }
            let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                found.urls.push(word.clone());
                continue;
            };
            let mut rest = letters.chars();
            while let Some(letter) = rest.next() {
                if let Some((name, _)) = SWITCHES.iter().find(|(_, known)| *known == letter) {
                    found.set(name);
                } else if let Some((name, _)) = WITH_VALUE.iter().find(|(_, known)| *known == letter) {
                    let own: String = rest.by_ref().collect();
                    let value = match own.is_empty() {
                        false => own,
                        true => words.next().cloned().ok_or_else(|| missing(word))?,
                    };
                    found.set_value(name, &value)?;
                } else {
                    return Err(unknown(word));
                }
            }
        }
        Ok(found)
    }

    fn set(&mut self, name: &str) {
        match name {
            "silent" => self.is_silent = true,
            "show-error" => self.shows_error = true,
            "verbose" => self.is_verbose = true,
            "include" => self.includes_head = true,
            "head" => self.only_head = true,
            "fail" => self.fails = true,
            "fail-with-body" => self.fails_with_body = true,
            "location" | "location-trusted" => self.follows = true,
            "get" => self.sends_query = true,
            "remote-name" => self.uses_remote_name = true,
            "ipv4" => self.only_v4 = true,
            "ipv6" => self.only_v6 = true,
            "retry-connrefused" => self.retries_refused = true,
            "retry-all-errors" => self.retries_all = true,
            "version" => self.shows_version = true,
            // Certificates, buffers and versions of the protocol are not simulated.
            _ => {}
        }
    }

    fn set_value(&mut self, name: &str, value: &str) -> Result<(), (String, i32)> {
        let number = |text: &str| {
            text.parse().map_err(|_| (format!("option --{name}: expected a proper numerical parameter"), 2))
        };
        let time = |text: &str| {
            duration(text).map(Some).ok_or((format!("option --{name}: expected a proper numerical parameter"), 2))
        };
        match name {
            "output" => self.outputs.push(value.to_owned()),
            "write-out" => self.write_out = Some(value.to_owned()),
            "request" => self.method = Some(value.to_owned()),
            "data" | "data-binary" | "data-urlencode" | "data-raw" | "json" => self.add_data(name, value),
            "header" => self.headers.push(value.to_owned()),
            "user" => self.user = Some(value.to_owned()),
            "oauth2-bearer" => self.bearer = Some(value.to_owned()),
            "user-agent" => self.agent = Some(value.to_owned()),
            "max-time" => self.limit = time(value)?,
            "connect-timeout" => self.connect_limit = time(value)?,
            "retry" => self.retries = number(value)?,
            "retry-delay" => self.retry_delay = time(value)?,
            "max-redirs" => self.max_redirects = Some(number(value)?),
            "url" => self.urls.push(value.to_owned()),
            "resolve" => {
                let bad = || (format!("Couldn't parse CURLOPT_RESOLVE entry '{value}'"), 49);
                let mut parts = value.trim_start_matches('+').splitn(3, ':');
                let (host, port, addresses) = (parts.next(), parts.next(), parts.next());
                let port = port.and_then(|port| port.parse().ok()).ok_or_else(bad)?;
                let addresses: Vec<IpAddr> = addresses
                    .unwrap_or_default()
                    .split(',')
                    .filter_map(|text| text.trim_matches(['[', ']']).parse().ok())
                    .collect();
                if addresses.is_empty() {
                    return Err(bad());
                }
                self.resolve.push((host.unwrap_or_default().to_owned(), port, addresses));
            }
            // Certificates, proxies and interfaces are not simulated.
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, name: &str, value: &str) {
        if name == "json" {
            self.is_json = true;
        }
        let is_file = name != "data-raw" && value.starts_with('@');
        if self.has_data && name != "json" {
            self.data.push(b'&');
        }
        self.has_data = true;
        match (is_file, name) {
            (true, _) => self.data_files.push(value[1..].to_owned()),
            (false, "data-urlencode") => {
                let (name, text) = value.split_once('=').unwrap_or(("", value));
                let text = crate::network::url::encoded(text);
                let whole = if name.is_empty() { text } else { format!("{name}={text}") };
                self.data.extend(whole.bytes());
            }
            (false, _) => self.data.extend(value.bytes()),
        }
    }

    /// Returns the method of the request.
    pub fn request_method(&self) -> String {
        match &self.method {
            Some(method) => method.clone(),
            None if self.only_head => "HEAD".to_owned(),
            None if self.has_data && !self.sends_query => "POST".to_owned(),
            None => "GET".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_letters_or_words() {
        let parse = |line: &str| CurlOptions::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let found =
            parse("-gsS -m5 --connect-timeout 0.5 -XPUT -d a=1 -d b=2 -o /dev/null -w %{http_code} web").unwrap();
        assert_eq!(
            (found.limit, found.connect_limit),
            (Some(Duration::from_secs(5)), Some(Duration::from_millis(500)))
        );
        assert_eq!((found.request_method().as_str(), found.data.as_slice()), ("PUT", &b"a=1&b=2"[..]));
        assert_eq!((found.outputs, found.urls), (vec!["/dev/null".to_owned()], vec!["web".to_owned()]));
        assert_eq!(parse("--nope").unwrap_err(), ("option --nope: is unknown".to_owned(), 2));
        assert_eq!(parse("-m").unwrap_err().0, "option -m: requires parameter");
        let found = parse("--resolve web:80:10.0.0.1 web").unwrap();
        assert_eq!(found.resolve, [("web".to_owned(), 80, vec!["10.0.0.1".parse().unwrap()])]);
    }
}
