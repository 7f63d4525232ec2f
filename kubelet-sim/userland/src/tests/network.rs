//! Programs that talk to each other over a network of a few containers.

use super::{START, words};
use crate::image;
use crate::launch::launch;
use crate::process::network::{
    ConnectError, Ends, LookupAnswer, NetworkRequest, Protocol, Record, RecordData, RecordType,
};
use crate::process::processes::{ContainerSetup, Processes};
use crate::process::streams::Streams;
use file_tree::mounts::FileTree;
use file_tree::node::Owner;
use jiff::Timestamp;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const RESOLV_CONF: &str = "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\n\
                           options ndots:5\n";
/// A host that is silent.
const SILENT: &str = "10.9.9.9";

/// Containers by their addresses. The first one runs the commands.
struct Cluster {
    containers: Vec<(IpAddr, Processes)>,
    names: Vec<Record>,
}

fn setup(image: &str, address: &str, env: &[(&str, &str)]) -> Processes {
    let files = image::known(image).unwrap_or(image::plain()).files(START);
    files.put_file("etc/resolv.conf", RESOLV_CONF, 0o644, Owner::default(), START);
    files.put_file("etc/hosts", "127.0.0.1\tlocalhost\n10.1.1.1 aliased\n", 0o644, Owner::default(), START);
    let path = ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let env = env.iter().chain([&path]).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let setup = ContainerSetup {
        hostname: format!("pod-{}", address.rsplit('.').next().unwrap()),
        tree: FileTree::new(files, false),
        env,
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        working_dir: "/".to_owned(),
        started_at: START,
    };
    let processes = Processes::new(setup, launch);
    processes.network().attach(vec![address.parse().unwrap()]);
    processes
}

impl Cluster {
    /// Starts servers, each with its image and words; the n-th has the address `10.1.0.n`.
    fn new(servers: &[(&str, &str, &[(&str, &str)])]) -> Self {
        let mut containers = vec![("10.1.0.0".parse().unwrap(), setup("shop", "10.1.0.0", &[]))];
        for (number, (image, line, env)) in servers.iter().enumerate() {
            let address = format!("10.1.0.{}", number + 1);
            let mut processes = setup(image, &address, env);
            let argv = match image::known(image) {
                Some(known) if line.is_empty() => known.argv(&[], &[]),
                _ => words(&line.split(' ').collect::<Vec<_>>()),
            };
            processes.start(argv, Streams::of_log(false, false)).unwrap();
            containers.push((address.parse().unwrap(), processes));
        }
        let record = |name: &str, data: RecordData| Record { name: name.to_owned(), ttl_s: 30, data };
        let address = |text: &str| RecordData::Address(text.parse().unwrap());
        let names = vec![
            record("web.shop.svc.cluster.local", address("10.1.0.1")),
            record("two.shop.svc.cluster.local", address("10.1.0.1")),
            record("two.shop.svc.cluster.local", address("10.1.0.2")),
            record("kubernetes.default.svc.cluster.local", address("10.96.0.1")),
            record("silent.shop.svc.cluster.local", address(SILENT)),
            record("alias.shop.svc.cluster.local", RecordData::Cname("web.shop.svc.cluster.local".into())),
            record(
                "_http._tcp.web.shop.svc.cluster.local",
                RecordData::Service { priority: 0, weight: 100, port: 80, target: "web.shop.svc.cluster.local".into() },
            ),
            record("1.0.1.10.in-addr.arpa", RecordData::Pointer("web.shop.svc.cluster.local".into())),
        ];
        let mut cluster = Self { containers, names };
        cluster.advance(0);
        cluster
    }

    fn lookup(&self, name: &str, record_type: RecordType) -> LookupAnswer {
        let mut found: Vec<Record> = Vec::new();
        let mut name = name.to_owned();
        while let Some(record) = self.names.iter().find(|record| record.name == name) {
            match &record.data {
                RecordData::Cname(target) => {
                    found.push(record.clone());
                    name.clone_from(target);
                }
                _ => {
                    let is_asked = |r: &&Record| r.name == name && r.data.record_type() == record_type;
                    found.extend(self.names.iter().filter(is_asked).cloned());
                    return LookupAnswer::Records(found);
                }
            }
        }
        LookupAnswer::NoSuchName(found)
    }

    /// Answers what the containers ask until all are silent at a time.
    fn advance(&mut self, seconds: u64) {
        let now = START + Duration::from_secs(seconds);
        loop {
            let mut is_silent = true;
            for at in 0..self.containers.len() {
                self.containers[at].1.advance_to(now);
                for request in self.containers[at].1.network().take_requests() {
                    is_silent = false;
                    self.answer(at, request, now);
                }
            }
            is_silent &= self.containers.iter().all(|(_, processes)| !processes.is_ready());
            if is_silent {
                self.containers.iter().for_each(|(_, processes)| processes.network().peers_are_silent());
                if self.containers.iter_mut().fold(true, |is_done, (_, one)| one.advance_to(now) & is_done) {
                    return;
                }
            }
        }
    }

    fn answer(&mut self, at: usize, request: NetworkRequest, now: Timestamp) {
        match request {
            NetworkRequest::Lookup { name, record_type, reply, server } => {
                assert_eq!(server.to_string(), "10.96.0.10");
                reply.send(self.lookup(&name, record_type));
            }
            NetworkRequest::Connect { to, protocol, reply } => {
                let client = self.containers[at].1.network().client_address(to.ip());
                // The host must have come as far as the client, so that it listens and knows the time.
                let host = self.containers.iter_mut().find(|(address, _)| *address == to.ip());
                let host = host.map(|(_, host)| {
                    host.advance_to(now);
                    host
                });
                reply.send(match host {
                    Some(host) => host.network().open(protocol, Ends::direct(client, to)).ok_or(ConnectError::Refused),
                    None if to.ip().to_string() == SILENT => Err(ConnectError::TimedOut),
                    None => Err(ConnectError::Unreachable),
                });
            }
            NetworkRequest::Ping { to, reply } => {
                reply.send(self.containers.iter().any(|(address, _)| *address == to));
            }
        }
    }

    /// Runs a line in the first container; returns its output, with errors behind `!`, its code and when it ended.
    fn run(&mut self, line: &str) -> String {
        let pid = self.containers[0].1.start(words(&["sh", "-c", line]), Streams::of_log(false, false)).unwrap();
        (0..600).for_each(|second| self.advance(second));
        let shown: String = self.containers[0]
            .1
            .outputs(pid)
            .iter()
            .map(|output| {
                let mark = if output.descriptor == 2 { "!" } else { "" };
                format!("{mark}{}", String::from_utf8_lossy(&output.bytes))
            })
            .collect();
        match self.containers[0].1.end_of(pid) {
            Some((at, status)) => {
                let seconds = at.duration_since(START).as_secs();
                format!("{shown}{} at {seconds}", status.code())
            }
            None => format!("{shown}running"),
        }
    }

    fn log(&self, at: usize) -> String {
        let outputs = self.containers[at].1.outputs(1);
        outputs.iter().map(|output| String::from_utf8_lossy(&output.bytes).into_owned()).collect()
    }
}

/// Checks lines against new clusters of the same servers.
fn check(servers: &[(&str, &str, &[(&str, &str)])], table: &[(&str, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .filter_map(|(line, expected)| {
            let found = Cluster::new(servers).run(line);
            (found != *expected).then(|| format!("{line}\n  expected {expected:?}\n  found    {found:?}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn names_are_looked_up() {
    let server = "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\n";
    check(
        &[],
        &[
            ("nslookup web", &format!("{server}Name:\tweb.shop.svc.cluster.local\nAddress: 10.1.0.1\n\n0 at 0")),
            (
                "nslookup kubernetes.default",
                &format!("{server}Name:\tkubernetes.default.svc.cluster.local\nAddress: 10.96.0.1\n\n0 at 0"),
            ),
            ("nslookup nope", &format!("{server}** server can't find nope: NXDOMAIN\n\n1 at 0")),
            (
                "nslookup 10.1.0.1",
                &format!("{server}1.0.1.10.in-addr.arpa\tname = web.shop.svc.cluster.local\n\n0 at 0"),
            ),
            (
                "nslookup -type=srv _http._tcp.web",
                &format!(
                    "{server}_http._tcp.web.shop.svc.cluster.local\tservice = 0 100 80 web.shop.svc.cluster.local\n\n0 at 0"
                ),
            ),
            ("dig +short two.shop.svc.cluster.local", "10.1.0.1\n10.1.0.2\n0 at 0"),
            ("dig +short two", "0 at 0"),
            ("dig +short +search two A", "10.1.0.1\n10.1.0.2\n0 at 0"),
            ("dig +short alias.shop.svc.cluster.local CNAME", "web.shop.svc.cluster.local.\n0 at 0"),
            ("dig +notcp +noall +answer +search web A", "web.shop.svc.cluster.local.\t\t30\tIN\tA\t10.1.0.1\n0 at 0"),
            ("dig +short -x 10.1.0.1", "web.shop.svc.cluster.local.\n0 at 0"),
            ("host web", "web.shop.svc.cluster.local has address 10.1.0.1\n0 at 0"),
            ("host nope", "Host nope not found: 3(NXDOMAIN)\n1 at 0"),
            ("getent hosts web", "10.1.0.1        web.shop.svc.cluster.local\n0 at 0"),
            ("getent hosts aliased", "10.1.1.1        aliased\n0 at 0"),
            ("getent hosts nope", "2 at 0"),
            (
                "ping -c 2 -q web",
                "PING web (10.1.0.1): 56 data bytes\n\n--- web ping statistics ---\n2 packets transmitted, 0 packets received, 100% packet loss\n1 at 11",
            ),
            ("ping -c 1 nope", "!ping: bad address 'nope'\n1 at 0"),
        ],
    );
}

#[test]
fn a_web_server_answers() {
    check(
        &[("agnhost", "/agnhost netexec --http-port=80", &[])],
        &[
            ("wget -q -O - http://web/hostname", "pod-10 at 0"),
            ("wget -qO- web/hostname; echo", "pod-1\n0 at 0"),
            ("wget -q -T 3 -O - silent", "!wget: download timed out\n1 at 3"),
            ("wget -qO- nope", "!wget: bad address 'nope'\n1 at 0"),
            ("wget -qO- web:81", "!wget: can't connect to remote host (10.1.0.1): Connection refused\n1 at 0"),
            ("wget -qO- 'web/echo?code=404'", "!wget: server returned error: HTTP/1.1 404 Not Found\n1 at 0"),
            ("wget --spider -T 1 web", "!Connecting to web (10.1.0.1:80)\nremote file exists\n0 at 0"),
            ("cd /tmp; wget -q web/hostname && cat hostname", "pod-10 at 0"),
            ("curl -s web/clientip | cut -d: -f1", "10.1.0.0\n0 at 0"),
            (
                "curl -s -o /dev/null -w '%{http_code} %{remote_ip}:%{remote_port}\\n' 'web/echo?msg=x&code=418'",
                "418 10.1.0.1:80\n0 at 0",
            ),
            ("curl nope", "!curl: (6) Could not resolve host: nope\n6 at 0"),
            (
                "curl -sS web:9",
                "!curl: (7) Failed to connect to web port 9 after 0 ms: Could not connect to server\n7 at 0",
            ),
            ("curl -g -q -s --connect-timeout 5 http://silent:80/; echo $?", "28\n0 at 5"),
            ("curl -s -m 2 'web/shell?cmd=sleep%2010' || echo late", "late\n0 at 2"),
            ("curl -sf 'web/echo?code=500'; echo $?", "22\n0 at 0"),
            ("curl -s -d msg=posted web/echo", "posted0 at 0"),
            ("curl -s -X POST -H 'X-A: b' 'web/header?key=x-a'", "b0 at 0"),
            ("curl -sI web/hostname | head -n 1", "HTTP/1.1 200 OK\r\n0 at 0"),
            ("curl -sL 'web/redirect?location=/hostname'", "pod-10 at 0"),
            ("curl -s --resolve a.example:80:10.1.0.1 http://a.example/hostname", "pod-10 at 0"),
            ("curl -sk https://web:80/; echo $?", "35\n0 at 0"),
            ("curl -s --retry 2 --retry-delay 3 'web/echo?code=503'; echo $?", "0\n0 at 6"),
            (
                "curl -s 'web/shell?cmd=hostname%3B%20exit%203'",
                "{\"error\":\"exit status 3\",\"output\":\"pod-1\\n\"}0 at 0",
            ),
            (
                "curl -s 'web/dial?request=hostname&protocol=http&host=10.1.0.1&port=80&tries=2'",
                "{\"responses\":[\"pod-1\",\"pod-1\"]}0 at 0",
            ),
            (
                "curl -s 'web/dial?request=hostname&protocol=udp&host=10.1.0.1&port=8081'",
                "{\"responses\":[\"pod-1\"]}0 at 0",
            ),
            (
                "curl -s 'web/dial?request=hostname&host=10.1.0.1&port=9'",
                "{\"errors\":[\"Get \\\"http://10.1.0.1:9/hostname\\\": dial tcp 10.1.0.1:9: connect: connection refused\"]}0 at 0",
            ),
            ("curl -s 'web/dial?host=x'", "request parameter not specified. <nil>\n0 at 0"),
            ("curl -s web/exit?code=3; echo $?; curl -s web; echo $?", "52\n7\n0 at 0"),
            (
                "nc -z web 80; echo $?; nc -zv web 81; echo $?",
                "0\n!nc: web (10.1.0.1:81): Connection refused\n1\n0 at 0",
            ),
            ("nc -z -v -w 2 silent 80", "!nc: silent (10.9.9.9:80): Connection timed out\n1 at 2"),
            ("echo hostname | nc -u -w 1 web 8081", "pod-10 at 1"),
            ("printf 'GET /hostname HTTP/1.0\\r\\n\\r\\n' | nc web 80 | tail -n 1", "pod-10 at 0"),
            ("nc -lp 99 >/tmp/got & sleep 1; echo hi | nc 127.0.0.1 99; cat /tmp/got", "hi\n0 at 1"),
            (
                "ping -c 2 web | tail -n 2 | head -n 1",
                "2 packets transmitted, 2 packets received, 0% packet loss\n0 at 1",
            ),
            ("curl -s two/hostname", "pod-10 at 0"),
        ],
    );
}

#[test]
fn servers_of_agnhost_answer() {
    let porter = [("SERVE_PORT_81", "foo"), ("SERVE_TLS_PORT_443", "tls"), ("SERVE_UDP_PORT_82", "udp")];
    check(
        &[
            ("agnhost", "/agnhost serve-hostname", &[]),
            ("agnhost", "/agnhost test-webserver", &[]),
            ("agnhost", "/agnhost porter", &porter),
            ("agnhost", "/agnhost liveness", &[]),
            ("agnhost", "/agnhost serve-hostname --http=false --tcp --udp --port 90", &[]),
        ],
        &[
            ("curl -s 10.1.0.1:9376", "pod-10 at 0"),
            ("curl -s 10.1.0.2/etc/hosts | head -n 1", "127.0.0.1\tlocalhost\n0 at 0"),
            ("curl -s 10.1.0.2/none; curl -s 10.1.0.2/../x", "404 page not found\ninvalid URL path\n0 at 0"),
            ("curl -s 10.1.0.3:81; curl -sk https://10.1.0.3/; echo x | nc -u -w 1 10.1.0.3 82", "footlsudp0 at 1"),
            ("curl -s http://10.1.0.3:443/", "Client sent an HTTP request to an HTTPS server.\n0 at 0"),
            (
                "curl -s 10.1.0.4:8080/healthz; sleep 11; curl -s -w %{http_code} 10.1.0.4:8080/healthz",
                "okerror: 115000 at 11",
            ),
            ("nc 10.1.0.5 90; echo x | nc -u -w 1 10.1.0.5 90", "pod-5pod-50 at 0"),
        ],
    );
}

#[test]
fn servers_of_images_answer() {
    check(
        &[("nginx", "", &[]), ("httpd", "", &[]), ("redis", "", &[])],
        &[
            ("curl -s web | grep title", "<title>Welcome to nginx!</title>\n0 at 0"),
            ("curl -s -o /dev/null -w %{http_code} web/none", "4040 at 0"),
            ("curl -sI web | grep -c nginx/", "1\n0 at 0"),
            ("curl -s 10.1.0.2", "<html><body><h1>It works!</h1></body></html>\n0 at 0"),
            (
                "printf 'PING\\r\\nSET a 1\\r\\nINCR a\\r\\nGET a\\r\\nQUIT\\r\\n' | nc 10.1.0.3 6379",
                "+PONG\r\n+OK\r\n:2\r\n$1\r\n2\r\n+OK\r\n0 at 0",
            ),
        ],
    );
    let mut cluster = Cluster::new(&[("nginx", "", &[])]);
    cluster.run("curl -s web/none");
    assert_eq!(
        cluster.log(1),
        "10.1.0.0 - - [01/Jan/1970:00:00:00 +0000] \"GET /none HTTP/1.1\" 404 153 \"-\" \"curl/8.14.1\" \"-\"\n"
    );
}

#[test]
fn agnhost_looks_at_the_network() {
    let run = |line: &str| {
        let mut cluster = Cluster::new(&[("agnhost", "/agnhost netexec", &[]), ("agnhost", line, &[])]);
        cluster.advance(100);
        let code = cluster.containers[2].1.end_of(1).map(|(_, status)| status.code());
        format!("{}{code:?}", cluster.log(2))
    };
    for (line, expected) in [
        ("/agnhost connect 10.1.0.1:8080", "Some(0)"),
        ("/agnhost connect 10.1.0.1:81", "REFUSED\nSome(1)"),
        ("/agnhost connect --timeout=3s 10.9.9.9:80", "TIMEOUT\nSome(1)"),
        ("/agnhost connect nope:80", "DNS: lookup nope: no such host\nSome(1)"),
        ("/agnhost connect nope", "UNKNOWN: address nope: missing port in address\nSome(1)"),
        ("/agnhost connect --protocol udp 10.1.0.1:8081", "Some(0)"),
        ("/agnhost dns-suffix", "shop.svc.cluster.local,svc.cluster.local,cluster.local\nSome(0)"),
        ("/agnhost dns-server-list", "10.96.0.10\nSome(0)"),
        ("/agnhost etc-hosts", "127.0.0.1\tlocalhost\n10.1.1.1 aliased\n\nSome(0)"),
    ] {
        assert_eq!(run(line), expected, "{line}");
    }
}

#[test]
fn a_container_without_a_network_knows_nothing_of_others() {
    let mut processes = super::container(0);
    let pid =
        processes.start(words(&["nc", "-z", "-w", "2", "10.0.0.1", "80"]), Streams::of_log(false, false)).unwrap();
    processes.advance_to(START + Duration::from_secs(9));
    assert_eq!(processes.end_of(pid).map(|(at, status)| (at.as_second(), status.code())), Some((2, 1)));
    assert!(processes.take_used_unknown());
    let to = SocketAddr::new("10.0.0.1".parse().unwrap(), 1);
    assert!(processes.network().open(Protocol::Tcp, Ends::direct(to, to)).is_none());
}
