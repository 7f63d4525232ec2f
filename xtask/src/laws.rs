//! Laws that a file keeps or breaks, each with the list of files that break it: two laws of the API server, and those of
//! the edges where a process meets the world. The lists only get shorter: a file that is not in them may not break the law,
//! and one that keeps the law may not stay in them.

use crate::circles::product_code;
use crate::crates::PURE;
use crate::source::{Source, member_of};
use proto::resources::Catalogue;
use std::collections::BTreeSet;
use std::path::Path;

/// Files that may break a law, each with the reason.
type Exceptions = &'static [(&'static str, &'static str)];

/// Where writes of objects begin and end. Below them is the store itself.
const DOOR: &[&str] = &["apiserver/registry/src/lib.rs", "apiserver/registry/src/deletion.rs"];

/// Objects reach the store through the registry's one door: create, update and delete.
const WRITES_ELSEWHERE: Exceptions = &[
    ("apiserver/registry/src/lookup.rs", "reservations and quota usage, which a write takes beside its own object"),
    ("apiserver/registry/src/repair.rs", "reservations that no Service holds"),
    ("apiserver/src/bootstrap/master_leases.rs", "leases of servers, which are no objects"),
    ("apiserver/src/snapshot.rs", "fills the empty store of a server that does not run"),
];

/// Where code is written for a verb, whatever the resource.
const VERBS: &[&str] = &["apiserver/src/endpoints/", "apiserver/registry/src/"];

/// No file names both a verb and a resource.
const NAMES_A_RESOURCE: Exceptions = &[
    ("apiserver/registry/src/escalation.rs", "roles and bindings give away permissions"),
    ("apiserver/registry/src/lookup.rs", "IPAddresses are reservations, ResourceQuotas are counted beside a write"),
    ("apiserver/registry/src/repair.rs", "compares Services with the addresses that they hold"),
    ("apiserver/registry/src/repair/events.rs", "tells the owners of Services what the comparison finds"),
    ("apiserver/src/endpoints/container_choice.rs", "pods have containers, and run on a node"),
    ("apiserver/src/endpoints/eviction.rs", "an eviction asks the budgets of its pod"),
    ("apiserver/src/endpoints/mod.rs", "the URL of a Namespace has its name where others have their namespace"),
    ("apiserver/src/endpoints/proxy.rs", "the way to a node, a pod or a Service"),
    ("apiserver/src/endpoints/review.rs", "reviews are answered and never stored"),
    ("apiserver/src/endpoints/token.rs", "a token may be bound to an object"),
];

/// Calls that connect a process with the world. Only the listed files of the product make them.
struct Edge {
    calls: &'static [&'static str],
    complaint: &'static str,
    files: Exceptions,
}

const EDGES: &[Edge] = &[
    Edge {
        calls: &["TcpListener::bind(", "TlsAcceptor::from(", "UnixListener"],
        complaint: "accepts connections; only a SecureServer does, over TLS",
        files: &[
            ("component-base/src/options/serving.rs", "the port that a SecureServer serves"),
            ("component-base/src/serving.rs", "SecureServer"),
            ("orrery/src/up/ports.rs", "looks whether a port is free, and serves nothing"),
        ],
    },
    Edge {
        calls: &["TcpStream::connect(", "UnixStream", "UdpSocket"],
        complaint: "opens a connection; only the client and the dialer of streams do, over TLS",
        files: &[
            ("client/src/connector.rs", "requests"),
            ("component-base/src/dial.rs", "streams between a client and a node's agent"),
        ],
    },
    Edge {
        // What clippy.toml does not ban stands here.
        calls: &[
            "(clippy::disallowed",
            "thread::Builder",
            "JoinSet",
            "time::interval",
            "task::spawn_local",
            "mpsc::channel()",
        ],
        complaint: "reads a clock, starts a task or thread, or has a channel without a limit; Env is for that",
        files: &[
            ("component-base/src/env.rs", "Env"),
            ("simulator/src/trial/steered.rs", "keeps the paused clock from going on by itself"),
        ],
    },
];

/// Calls that no file of a pure crate makes.
const IO: &[&str] = &["std::fs", "std::process", "std::env", "async fn"];

/// Members whose files may meet the world as they like, because they are no part of the product.
const NOT_PRODUCT: &[&str] = &["e2e", "xtask", "component-base/testing", "client/testing"];

/// Complaints about files that break a law, and about exceptions that are none any more.
pub fn check(sources: &[Source]) -> Vec<String> {
    let plurals: BTreeSet<String> =
        Catalogue::builtin().rows().iter().map(|row| format!("\"{}\"", row.storage_version().resource)).collect();
    let mut complaints = kept(
        sources,
        WRITES_ELSEWHERE,
        "writes to the store; only the registry's one door may",
        |path| path.starts_with("apiserver/") && !path.starts_with("apiserver/storage/") && !DOOR.contains(&path),
        writes,
    );
    complaints.extend(kept(
        sources,
        NAMES_A_RESOURCE,
        "names a resource where code is for a verb",
        |path| VERBS.iter().any(|room| path.starts_with(room)),
        |code| plurals.iter().any(|plural| code.contains(plural.as_str())),
    ));
    complaints.extend(EDGES.iter().flat_map(|edge| {
        let is_product = |path: &str| !NOT_PRODUCT.contains(&member_of(Path::new(path)));
        kept(sources, edge.files, edge.complaint, is_product, |code| names_one_of(code, edge.calls))
    }));
    complaints.extend(kept(
        sources,
        &[],
        "does IO in a crate that is pure",
        |path| PURE.contains(&member_of(Path::new(path))),
        |code| names_one_of(code, IO),
    ));
    complaints
}

fn kept(
    sources: &[Source],
    exceptions: Exceptions,
    what: &str,
    is_bound: impl Fn(&str) -> bool,
    breaks: impl Fn(&str) -> bool,
) -> Vec<String> {
    let broken: BTreeSet<&str> = sources
        .iter()
        .filter_map(|source| Some((source.path.to_str()?, source)))
        .filter(|(path, source)| is_bound(path) && breaks(&product_code(source)))
        .map(|(path, _)| path)
        .collect();
    let allowed: BTreeSet<&str> = exceptions.iter().map(|(path, _)| *path).collect();
    let new = broken.difference(&allowed).map(|path| format!("{path}: {what}"));
    let old = allowed.difference(&broken).map(|path| format!("{path}: keeps the law: take it from the exceptions"));
    new.chain(old).collect()
}

fn names_one_of(code: &str, calls: &[&str]) -> bool {
    calls.iter().any(|call| code.contains(call))
}

/// Whether code calls one of the store's writes.
fn writes(code: &str) -> bool {
    ["create", "update", "write", "delete"].iter().any(|write| code.contains(&format!("storage.{write}(")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_in_another_file_is_reported() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let tree = [
            source("scheduler/src/a.rs", "let listener = TcpListener::bind(address).await;"),
            source("proto/src/a.rs", "let text = std::fs::read_to_string(path);"),
            source("e2e/src/a.rs", "TcpStream::connect(address)"),
        ];
        let complaints = check(&tree);
        let about = |path: &str| complaints.iter().filter(|complaint| complaint.starts_with(path)).count();
        assert_eq!((about("scheduler/src/a.rs"), about("proto/src/a.rs"), about("e2e/src/a.rs")), (1, 1, 0));
    }

    #[test]
    fn a_list_of_exceptions_is_neither_too_short_nor_too_long() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let tree = [
            source("a/one.rs", "self.storage.write(change)"),
            source("a/two.rs", "// storage.write(change)\nfn f() {}"),
            source("a/three.rs", "#[cfg(test)]\nmod tests {\n storage.delete(key)\n}"),
            source("b/four.rs", "storage.create(key)"),
        ];
        let complaints = kept(&tree, &[("a/two.rs", "")], "writes", |path| path.starts_with("a/"), writes);
        assert_eq!(complaints, ["a/one.rs: writes", "a/two.rs: keeps the law: take it from the exceptions"]);
    }
}
