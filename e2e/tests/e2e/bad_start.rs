//! Tests that a component that cannot start prints the reason as one line on standard error, exits with a code other
//! than 0, and overwrites nothing.

use crate::program;
use component_base::env::Env;
use component_base::pki::{Authority, Subject};
use e2e::apiserver::ApiServer;
use e2e::processes::free_ports;
use e2e::store::Store;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the program in a directory, which must print one line on standard error. Returns its exit code and that line.
pub fn failure(directory: &Path, line: &str) -> (i32, String) {
    let mut command = Command::new(program());
    let command = command.args(line.split_whitespace()).current_dir(directory).env_remove("KUBECONFIG");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{line}: one line on standard error, not:\n{said}");
    (output.status.code().unwrap(), said.trim_end().to_owned())
}

/// Returns every file below a directory with its content, except logs.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn bad_flags() {
    let directory = tempfile::tempdir().unwrap();
    for (line, expected) in [
        ("up --port=99999", "orrery: invalid value '99999' for '--port <PORT>': 99999 is not in 1..=65529"),
        ("up --port=x", "orrery: invalid value 'x' for '--port <PORT>': invalid digit found in string"),
        ("up --nodes=many", "orrery: invalid value 'many' for '--nodes <N>': invalid digit found in string"),
        ("up --nodes=50000", "orrery: invalid value '50000' for '--nodes <N>': 50000 is not in 0..=32768"),
        (
            "up --store=disk",
            "orrery: invalid value 'disk' for '--store <ENGINE>'; [possible values: embedded, memory, etcd]",
        ),
        ("up --store=etcd", "orrery: the following required arguments were not provided: --etcd-endpoints <URLS>"),
        ("up --bind-address=here", "orrery: invalid value 'here' for '--bind-address <IP>': invalid IP address syntax"),
        ("up --sotre=memory", "orrery: unexpected argument '--sotre' found; a similar argument exists: '--store'"),
        ("up now", "orrery: unexpected argument 'now' found"),
        ("down now", "orrery: unexpected argument 'now' found"),
        ("staus", "orrery: unrecognized subcommand 'staus'; a similar subcommand exists: 'status'"),
        ("status", "status: cluster orrery is not running"),
        ("apiserver --audit-log-maxage=long", "orrery: invalid value 'long' for '--audit-log-maxage <…"),
        (
            "apiserver --authorization-mode=Odd",
            "orrery: invalid value 'Odd' for '--authorization-mode <MODES>'; [possible values: AlwaysAllow, AlwaysDeny, ABAC, Webhook, Node, RBAC]",
        ),
        (
            "apiserver --authorization-mode=Webhook",
            "apiserver: --authorization-webhook-config-file: needed by --authorization-mode=Webhook",
        ),
        (
            "apiserver --runtime-config=apps",
            "orrery: invalid value 'apps' for '--runtime-config <API=BOOL>': want GROUP/VERSION=true or =false, or GROUP/VERSION/RESOURCE=true or =false",
        ),
        ("scheduler --config=none", "scheduler: --config: none: No such file or directory (os error 2)"),
        (
            "scheduler --leader-elekt",
            "orrery: unexpected argument '--leader-elekt' found; a similar argument exists: '--leader-elect'",
        ),
        ("up --proxy-sim-arg=mode=iptables", "orrery: --proxy-sim-arg: unexpected argument '--mode' found…"),
        (
            "apiserver --service-cluster-ip-range=10.0.0.0/33",
            "orrery: invalid value '10.0.0.0/33' for '--service-cluster-ip-range <CIDR>': invalid IP address syntax",
        ),
        (
            "apiserver --store=memory --tls-cert-file=none",
            "apiserver: --tls-cert-file and --tls-private-key-file are both needed to serve TLS",
        ),
        (
            "apiserver --cert-dir=/dev/null/certs",
            "apiserver: --cert-dir: /dev/null/certs: Not a directory (os error 20)",
        ),
        (
            "apiserver --tls-cert-file=none --tls-private-key-file=none",
            "apiserver: --tls-cert-file: none: No such file or directory (os error 2)",
        ),
        ("scheduler", "scheduler: no kubeconfig: give --kubeconfig or set KUBECONFIG"),
        ("controller-manager --kubeconfig=none", "controller-manager: none: No such file or directory (os error 2)"),
        (
            "cloud-controller-manager --cloud-provider=gce",
            r#"cloud-controller-manager: --cloud-provider: unknown cloud provider "gce": the simulated one is called orrery"#,
        ),
        (
            "cloud-controller-manager --cloud-provider=orrery",
            "cloud-controller-manager: --cloud-config: it is needed: the file that `orrery certs` makes in \
             cloud-controller-manager",
        ),
        (
            "cloud-sim --secure-port=0 --fault-rate=2",
            "cloud-sim: the command line does not fit the cloud: Invalid: faultRate must be from 0 to 1",
        ),
        ("kubelet-sim --memory=lots", "orrery: invalid value 'lots' for '--memory <QUANTITY>': …"),
        (
            "proxy-sim --cluster-cidr=lots",
            "orrery: invalid value 'lots' for '--cluster-cidr <CIDR>': invalid IP address syntax",
        ),
        ("proxy-sim rules", "orrery: the following required arguments were not provided: --node <NAME>"),
    ] {
        let (code, said) = failure(directory.path(), line);
        assert_ne!(code, 0, "{line}");
        match expected.strip_suffix('…') {
            Some(beginning) => assert!(said.starts_with(beginning), "{line}: {said}"),
            None => assert_eq!(said, expected, "{line}"),
        }
    }
    assert_eq!(files(directory.path()), BTreeMap::new(), "something was written");
}

/// Flags with files that the API server reads when it starts. Each has the flags that it needs, and the text in the
/// error about a malformed file; an empty text stands for the flag itself.
const FILES: [(&str, &str, &str); 25] = [
    ("audit-policy-file", "--audit-log-path=audit.log", ""),
    ("audit-webhook-config-file", "", ""),
    ("encryption-provider-config", "", ""),
    ("authentication-config", "", ""),
    ("authentication-token-webhook-config-file", "", ""),
    ("oidc-ca-file", "--oidc-issuer-url=https://issuer --oidc-client-id=lab", "--oidc-issuer-url: "),
    ("token-auth-file", "", ""),
    ("client-ca-file", "", ""),
    ("requestheader-client-ca-file", "", ""),
    ("service-account-signing-key-file", "", "service account key: "),
    ("service-account-key-file", "--service-account-signing-key-file=good.key", "service account key: "),
    ("authorization-config", "", "--authorization-config"),
    ("authorization-policy-file", "--authorization-mode=ABAC", ""),
    ("authorization-webhook-config-file", "--authorization-mode=Webhook", "--authorization-config, --"),
    ("admission-control-config-file", "", ""),
    ("proxy-client-cert-file", "--proxy-client-key-file=good.key", "--proxy-client-cert-file, --"),
    ("proxy-client-key-file", "--proxy-client-cert-file=good.crt", "--proxy-client-cert-file, --"),
    ("kubelet-certificate-authority", "", "--kubelet-"),
    ("kubelet-client-certificate", "--kubelet-client-key=good.key", ""),
    ("kubelet-client-key", "--kubelet-client-certificate=good.crt", "--kubelet-"),
    ("tls-cert-file", "--tls-private-key-file=good.key", "serving certificate: "),
    ("tls-private-key-file", "--tls-cert-file=good.crt", "serving key: "),
    ("etcd-cafile", "--etcd-servers=https://127.0.0.1:1", ""),
    ("etcd-certfile", "--etcd-servers=https://127.0.0.1:1 --etcd-keyfile=good.key", ""),
    ("restore", "", ""),
];

/// Checks that no store, certificate or log is created before all files have been checked.
#[test]
fn bad_files() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::load_or_create(&directory.path().join("ca"), Env::system().wall()).unwrap();
    let pair = authority.issue(&Subject { common_name: "good", ..Subject::default() }, Env::system().wall()).unwrap();
    write(directory.path(), "good.crt", &pair.cert_pem);
    write(directory.path(), "good.key", &pair.key_pem);
    write(directory.path(), "wrong", "kind: Nonsense\n- [");
    let before = files(directory.path());
    let mut unclear = Vec::new();
    for (flag, others, wrong) in FILES {
        let by_flag = format!("--{flag}: ");
        let missing = format!("{by_flag}none: No such file or directory (os error 2)");
        for (file, expected) in [("none", missing.as_str()), ("wrong", if wrong.is_empty() { &by_flag } else { wrong })]
        {
            let line = format!("apiserver --data-dir=store --cert-dir=certs --secure-port=0 {others} --{flag}={file}");
            let (code, said) = failure(directory.path(), &line);
            if code == 0 || !said.contains(expected) {
                unclear.push(format!("{flag}={file}: {code} {said}"));
            }
            assert_eq!(before, files(directory.path()), "{flag}={file} left something behind");
            assert!(!directory.path().join("audit.log").exists(), "{flag}={file}");
        }
    }
    assert!(unclear.is_empty(), "{unclear:#?}");
}

/// Starts on copies of a cluster's data directory, each damaged in another way.
#[tokio::test]
async fn bad_directories() {
    let original = tempfile::tempdir().unwrap();
    drop(ApiServer::start(program(), original.path(), Store::Embedded).await);
    type Damage = fn(&Path);
    let cases: [(&str, Damage, &str); 12] = [
        ("up --data-dir=data/format", |_| {}, "orrery: data/format: not a directory"),
        ("up --data-dir=photos", photos, "orrery: DIR/photos: not empty, and not a directory of this program: …"),
        ("up --data-dir=/proc/orrery", |_| {}, "orrery: /proc/orrery: …"),
        (
            "up",
            |dir| write(dir, "data/format", "99\n"),
            "orrery: DIR/data/format: written in format 99 by a later version; this one reads up to format 1",
        ),
        ("up", |dir| write(dir, "data/format", ""), "orrery: DIR/data/format: damaged: it is no format number"),
        ("up", |dir| write(dir, "data/pki/ca/ca.crt", "torn"), "orrery: DIR/data/pki/ca/ca.crt: damaged: …"),
        (
            "up",
            |dir| write(dir, "data/pki/scheduler/tls.crt", "torn"),
            "orrery: DIR/data/pki/scheduler/tls.crt: damaged: …",
        ),
        (
            "up",
            |dir| write(dir, "data/store/format", "99\n"),
            "orrery: apiserver ended (exit status: 1): DIR/data/store/format: written in format 99 by a later version; …",
        ),
        (
            "up",
            |dir| write(dir, "data/store/store.redb", "garbage"),
            "orrery: apiserver ended (exit status: 1): DIR/data/store/store.redb: damaged: …",
        ),
        ("up", truncated, "orrery: apiserver ended (exit status: 1): DIR/data/store/store.redb: damaged: …"),
        (
            "up --kubeconfig=config",
            |dir| write(dir, "config", "clusters: [{name: work}]"),
            "orrery: --kubeconfig: config: holds other clusters and is left as it is: choose a path of its own",
        ),
        (
            "up --kubeconfig=none/config",
            |_| {},
            "orrery: --kubeconfig: none/config: No such file or directory (os error 2)",
        ),
    ];
    for (line, damage, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        copy(&original.path().join("data"), &directory.path().join("data"));
        damage(directory.path());
        let before = files(directory.path());
        let data_dir = if line.contains("--data-dir") { "" } else { "--data-dir=data" };
        let (code, said) = failure(directory.path(), &format!("{line} {data_dir} --port={}", free_ports()));
        let whole = fs::canonicalize(directory.path()).unwrap();
        let said = said.replace(&*whole.to_string_lossy(), "DIR");
        assert_eq!(code, 1, "{said}");
        match expected.strip_suffix('…') {
            Some(beginning) => assert!(said.starts_with(beginning), "{expected}\n{said}"),
            None => assert_eq!(said, expected),
        }
        assert_eq!(without_kubeconfigs(before), without_kubeconfigs(files(directory.path())), "after {said}");
    }
}

/// Returns the files without kubeconfigs, which change with the port of each start.
fn without_kubeconfigs(mut files: BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    files.retain(|path, _| path.file_name().is_none_or(|name| name != "kubeconfig"));
    files
}

fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).unwrap();
}

fn photos(directory: &Path) {
    fs::create_dir(directory.join("photos")).unwrap();
    write(directory, "photos/cat.png", "meow");
}

fn truncated(directory: &Path) {
    let path = directory.join("data/store/store.redb");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).unwrap();
        }
    }
}

#[tokio::test]
async fn directories_and_ports_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let _running = ApiServer::start(program(), directory.path(), Store::Embedded).await;
    let whole = fs::canonicalize(directory.path()).unwrap();
    let base = free_ports();
    let _taken = TcpListener::bind(("127.0.0.1", base + 3)).unwrap();
    let pair = "--tls-cert-file=data/pki/apiserver/tls.crt --tls-private-key-file=data/pki/apiserver/tls.key";
    let before = files(directory.path());
    for (line, expected) in [
        (
            format!("up --data-dir=data --port={}", free_ports()),
            format!("orrery: {}/data: another `orrery up` is running on this data directory", whole.display()),
        ),
        (
            format!("apiserver --data-dir=data/store --secure-port={} {pair}", free_ports()),
            format!("apiserver: {}/data/store: in use by another process", whole.display()),
        ),
        (
            format!("apiserver --store=memory --bind-address=127.0.0.1 --secure-port={} {pair}", base + 3),
            format!(
                "apiserver: --bind-address, --secure-port: cannot listen on 127.0.0.1:{}: Address already in use (os error 98)",
                base + 3
            ),
        ),
    ] {
        assert_eq!(failure(directory.path(), &line), (1, expected));
    }
    assert_eq!(files(directory.path()), before);
    let elsewhere = tempfile::tempdir().unwrap();
    let expected =
        format!("orrery: kubelet-sim: cannot listen on 127.0.0.1:{}: Address already in use (os error 98)", base + 3);
    assert_eq!(failure(elsewhere.path(), &format!("up --data-dir=data --port={base}")), (1, expected));
}
