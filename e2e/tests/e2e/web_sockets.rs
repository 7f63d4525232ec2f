//! Tests every sub-protocol of a WebSocket for exec, attach, logs and port forwarding. Stock `kubectl` speaks only the
//! newest, while browsers and older clients speak the others.

use crate::cluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::websocket::{WebSocketClient, WebSocketMessage};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: box}
spec: {containers: [{name: main, image: busybox, command: [sh, -c, "echo ready; sleep 100000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: nginx, ports: [{containerPort: 80}]}]}
"#;
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";

#[test]
fn every_sub_protocol_of_a_websocket_works() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    kubectl.with_input("apply -f -", PODS).succeeded();
    kubectl.ok("wait --for=condition=Ready pod/box pod/web --timeout=60s");
    let (mut proxy, address) = proxy(&kubectl);
    commands(&address);
    single_channels_close(&address);
    attached(&address);
    logs(&address);
    ports(&address);
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    cluster.stop();
}

/// Starts `kubectl proxy`, which speaks TLS for the client, and returns its address.
fn proxy(kubectl: &Kubectl) -> (std::process::Child, String) {
    let mut command = kubectl.command(&["proxy", "--port=0", "--disable-filter=true"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let address = line.rsplit(' ').next().unwrap().to_owned();
    (child, address)
}

/// Reads a message as a channel and its bytes; `None` for the end of the connection.
fn channel_message(client: &mut WebSocketClient, is_base64: bool) -> Option<(u8, Vec<u8>)> {
    match (client.receive(), is_base64) {
        (WebSocketMessage::Binary(bytes), false) => Some((bytes[0], bytes[1..].to_vec())),
        (WebSocketMessage::Text(text), true) => Some((text.as_bytes()[0] - b'0', STANDARD.decode(&text[1..]).unwrap())),
        (WebSocketMessage::Close, _) => None,
        (message, _) => panic!("{message:?} is not of this protocol"),
    }
}

fn send(client: &mut WebSocketClient, is_base64: bool, channel: u8, bytes: &[u8]) {
    match is_base64 {
        true => client.send_text(&format!("{channel}{}", STANDARD.encode(bytes))),
        false => client.send_binary(&[&[channel], bytes].concat()),
    }
}

/// Reads all channels until the server closes the connection; returns the first message, and the bytes of each channel.
fn read_all(client: &mut WebSocketClient, is_base64: bool) -> ((u8, Vec<u8>), [String; 4]) {
    let mut channels: [Vec<u8>; 4] = Default::default();
    let first = channel_message(client, is_base64).unwrap();
    while let Some((channel, bytes)) = channel_message(client, is_base64) {
        channels[usize::from(channel)].extend(bytes);
    }
    (first, channels.map(|bytes| String::from_utf8(bytes).unwrap()))
}

fn commands(address: &str) {
    for (protocol, is_base64, has_status_object) in [
        (None, false, false),
        (Some("channel.k8s.io"), false, false),
        (Some("base64.channel.k8s.io"), true, false),
        (Some("v4.channel.k8s.io"), false, true),
        (Some("v4.base64.channel.k8s.io"), true, true),
        (Some("v5.channel.k8s.io"), false, true),
    ] {
        let names: Vec<&str> = protocol.into_iter().collect();
        let exec = |query: &str| {
            let path = format!("{PODS_PATH}/box/exec?stdin=true&stdout=true&stderr=true&{query}");
            WebSocketClient::open(address, &path, &names).unwrap()
        };
        let mut client = exec("command=sh&command=-c&command=read%20a;echo%20got%20$a;echo%20no%20%3E%262;exit%203");
        assert_eq!(client.protocol.as_deref(), protocol);
        send(&mut client, is_base64, 0, b"hello\n");
        let (first, [_, output, errors, status]) = read_all(&mut client, is_base64);
        assert_eq!(first, (1, Vec::new()), "{protocol:?}: the connection is established");
        assert_eq!((output.as_str(), errors.as_str()), ("got hello\n", "no\n"), "{protocol:?}");
        match has_status_object {
            true => assert!(status.contains(r#""reason":"ExitCode""#), "{protocol:?}: {status}"),
            false => {
                assert!(status.starts_with("command terminated with non-zero exit code"), "{protocol:?}: {status}")
            }
        }
        let (_, [_, _, _, status]) = read_all(&mut exec("command=true"), is_base64);
        assert_eq!(status.contains("Success"), has_status_object, "{protocol:?}: {status}");
    }
    let path = format!("{PODS_PATH}/box/exec?stdout=true&command=true");
    assert_eq!(WebSocketClient::open(address, &path, &["v9.channel.k8s.io"]).unwrap_err(), 403);
    let chosen = WebSocketClient::open(address, &path, &["v4.base64.channel.k8s.io", "channel.k8s.io"]).unwrap();
    assert_eq!(chosen.protocol.as_deref(), Some("v4.base64.channel.k8s.io"), "the client's first");
}

/// With v5 a client ends its input, and still reads what follows.
fn single_channels_close(address: &str) {
    let path = format!("{PODS_PATH}/box/exec?stdin=true&stdout=true&command=wc&command=-c");
    let mut client = WebSocketClient::open(address, &path, &["v5.channel.k8s.io"]).unwrap();
    send(&mut client, false, 0, b"four");
    client.send_binary(&[255, 0]);
    let (_, [_, output, _, status]) = read_all(&mut client, false);
    assert_eq!(output.trim(), "4");
    assert!(status.contains("Success"), "{status}");
}

fn attached(address: &str) {
    let path = format!("{PODS_PATH}/web/attach?stdin=true&stdout=true");
    for (protocol, is_base64) in [("channel.k8s.io", false), ("base64.channel.k8s.io", true)] {
        let mut client = WebSocketClient::open(address, &path, &[protocol]).unwrap();
        assert_eq!(channel_message(&mut client, is_base64), Some((1, Vec::new())), "{protocol}");
        send(&mut client, is_base64, 0, b"typed\n");
        assert_eq!(channel_message(&mut client, is_base64), Some((1, b"typed\n".to_vec())), "{protocol}");
    }
}

fn logs(address: &str) {
    let path = format!("{PODS_PATH}/box/log");
    for protocol in [None, Some("binary.k8s.io"), Some("base64.binary.k8s.io")] {
        let names: Vec<&str> = protocol.into_iter().collect();
        let mut client = WebSocketClient::open(address, &path, &names).unwrap();
        assert_eq!(client.protocol.as_deref(), protocol);
        let messages: Vec<WebSocketMessage> = (0..3).map(|_| client.receive()).collect();
        let expected = match protocol {
            Some("base64.binary.k8s.io") => ["", "cmVhZHkK"].map(|text| WebSocketMessage::Text(text.to_owned())),
            _ => ["", "ready\n"].map(|text| WebSocketMessage::Binary(text.into())),
        };
        assert_eq!((&messages[..2], &messages[2]), (&expected[..], &WebSocketMessage::Close), "{protocol:?}");
    }
    assert_eq!(WebSocketClient::open(address, &path, &["v4.channel.k8s.io"]).unwrap_err(), 403);
    let missing = WebSocketClient::open(address, &format!("{PODS_PATH}/none/log"), &[]);
    assert_eq!(missing.unwrap_err(), 404);
}

fn ports(address: &str) {
    for (protocol, is_base64) in
        [(None, false), (Some("v4.channel.k8s.io"), false), (Some("v4.base64.channel.k8s.io"), true)]
    {
        let names: Vec<&str> = protocol.into_iter().collect();
        let path = format!("{PODS_PATH}/web/portforward?ports=80&ports=81");
        let mut client = WebSocketClient::open(address, &path, &names).unwrap();
        // Each port has a channel for data and one for an error, and both begin with the port.
        let request = b"GET / HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n";
        send(&mut client, is_base64, 0, request);
        let mut channels: [Vec<u8>; 4] = Default::default();
        while let Some((channel, bytes)) = channel_message(&mut client, is_base64) {
            channels[usize::from(channel)].extend(bytes);
        }
        for (channel, bytes) in channels.iter().enumerate() {
            let port = if channel < 2 { 80 } else { 81 };
            assert_eq!(bytes[..2], [port, 0], "{protocol:?} channel {channel}");
        }
        let text = |channel: usize| String::from_utf8_lossy(&channels[channel][2..]).into_owned();
        assert!(text(0).starts_with("HTTP/1.1 200 OK\r\n"), "{protocol:?}: {}", text(0));
        assert_eq!((text(1).as_str(), text(2).as_str()), ("", ""), "{protocol:?}");
        assert!(text(3).starts_with("error forwarding port 81 to pod "), "{protocol:?}: {}", text(3));
    }
    let path = format!("{PODS_PATH}/web/portforward");
    assert_eq!(WebSocketClient::open(address, &path, &["v4.channel.k8s.io"]).unwrap_err(), 400);
}
