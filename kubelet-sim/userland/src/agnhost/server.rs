//! Answers HTTP requests as the serving sub-commands of agnhost do. Pure: nothing listens.
//!
//! Corresponds to netexec, serve-hostname, test-webserver, porter and liveness of test/images/agnhost.

use std::time::Duration;

/// The time after which `agnhost liveness` begins to fail.
const LIVENESS_TIME: Duration = Duration::from_secs(10);

/// A request to a server in a container.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub port: u16,
    /// The path with its leading slash, without the query.
    pub path: String,
    pub query: Vec<(String, String)>,
    /// The address and port of the client.
    pub client: String,
    pub host: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    pub status: u16,
    pub body: String,
}

/// The server: its words, and where it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Server<'a> {
    /// The words of the container behind `agnhost`.
    pub argv: &'a [String],
    pub hostname: &'a str,
    /// Variables, of which `porter` reads `SERVE_PORT_…`.
    pub env: &'a std::collections::BTreeMap<String, String>,
}

impl Server<'_> {
    /// Returns the ports on which the sub-command listens for HTTP.
    pub fn ports(&self) -> Vec<u16> {
        match self.argv.first().map(String::as_str).unwrap_or_default() {
            "netexec" => {
                let port = self.flag("--http-port").and_then(|text| text.parse().ok()).unwrap_or(8080);
                if port < 0 { Vec::new() } else { u16::try_from(port).into_iter().collect() }
            }
            "serve-hostname" => {
                vec![self.flag("--port").and_then(|text| text.parse().ok()).unwrap_or(9376)]
            }
            "test-webserver" => vec![self.flag("--port").and_then(|text| text.parse().ok()).unwrap_or(80)],
            "liveness" => vec![8080],
            "porter" => {
                let ports = self.env.keys().filter_map(|name| name.strip_prefix("SERVE_PORT_")?.parse().ok());
                ports.collect()
            }
            _ => Vec::new(),
        }
    }

    fn flag(&self, name: &str) -> Option<&str> {
        let own = self.argv.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        own.or_else(|| self.argv.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1].as_str()))
    }

    /// Answers a request; `elapsed` is the time since the container started. `None` when nothing listens on the port.
    pub fn answer(&self, request: &Request, elapsed: Duration) -> Option<Response> {
        if !self.ports().contains(&request.port) {
            return None;
        }
        let ok = |body: String| Response { status: 200, body };
        let missing = || Response { status: 404, body: "404 page not found\n".to_owned() };
        Some(match self.argv[0].as_str() {
            "serve-hostname" => ok(self.hostname.to_owned()),
            "test-webserver" => ok(String::new()),
            "porter" => ok(self.env.get(&format!("SERVE_PORT_{}", request.port)).cloned().unwrap_or_default()),
            "liveness" => match request.path.as_str() {
                "/healthz" if elapsed > LIVENESS_TIME => {
                    Response { status: 500, body: format!("error: {:.9}", elapsed.as_secs_f64()) }
                }
                "/healthz" => ok("ok".to_owned()),
                "/started" => ok(format!("{:.9}s", elapsed.as_secs_f64())),
                _ => missing(),
            },
            _ => self.netexec(request, elapsed).unwrap_or_else(missing),
        })
    }

    fn netexec(&self, request: &Request, elapsed: Duration) -> Option<Response> {
        let ok = |body: String| Some(Response { status: 200, body });
        let value = |name: &str| {
            request.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default()
        };
        match request.path.as_str() {
            "/" => ok(format!("NOW: {elapsed:?}")),
            "/clientip" => ok(request.client.clone()),
            "/echo" => {
                let status = value("code").parse().unwrap_or(200);
                Some(Response { status, body: value("msg") })
            }
            "/healthz" => ok(String::new()),
            "/hostname" | "/hostName" => ok(self.hostname.to_owned()),
            "/header" => ok(String::new()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn servers_answer_on_their_ports() {
        let env: BTreeMap<String, String> = [("SERVE_PORT_81".to_owned(), "foo".to_owned())].into();
        for (words, port, path, elapsed_s, expected) in [
            ("netexec", 8080, "/hostname", 0, Some((200, "web-0"))),
            ("netexec --http-port=80", 8080, "/hostname", 0, None),
            ("netexec --http-port 80", 80, "/echo", 0, Some((418, "tea"))),
            ("netexec", 8080, "/none", 0, Some((404, "404 page not found\n"))),
            ("serve-hostname", 9376, "/", 0, Some((200, "web-0"))),
            ("porter", 81, "/", 0, Some((200, "foo"))),
            ("liveness", 8080, "/healthz", 10, Some((200, "ok"))),
            ("liveness", 8080, "/healthz", 11, Some((500, "error: 11.000000000"))),
            ("pause", 80, "/", 0, None),
        ] {
            let argv: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let server = Server { argv: &argv, hostname: "web-0", env: &env };
            let query = [("msg", "tea"), ("code", "418")].map(|(name, value)| (name.to_owned(), value.to_owned()));
            let request = Request {
                port,
                path: path.to_owned(),
                query: query.into(),
                client: "10.0.0.9:4000".to_owned(),
                host: String::new(),
            };
            let answer = server.answer(&request, Duration::from_secs(elapsed_s));
            let answer = answer.map(|response| (response.status, response.body));
            assert_eq!(answer, expected.map(|(status, body)| (status, body.to_owned())), "{words} {path}");
        }
    }
}
