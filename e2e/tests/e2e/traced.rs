//! What the system is asked for, and in which order: the sync of the store comes before the answer.

use crate::program;
use e2e::apiserver::ApiServer;
use e2e::ask::Ask;
use e2e::store::Store;
use e2e::strace::Trace;
use serde_json::json;
use std::collections::BTreeSet;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CALLS: &str = "fsync,fdatasync,read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg";
const WRITES: usize = 20;
/// Requests and answers of this test are several times longer; what else a connection carries is shorter.
const LONG_BYTES: usize = 2000;

#[tokio::test]
async fn the_store_is_synced_before_a_write_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let trace = match Trace::prepare(directory.path(), program(), "-yy -s 0", CALLS) {
        Ok(trace) => trace,
        Err(why) => return eprintln!("SKIPPED the trace of the API server: {why}"),
    };
    let mut server = ApiServer::start(&trace.program, directory.path(), Store::Embedded).await;
    let client = server.client(&server.admin);
    for number in 0..WRITES {
        let body = json!({"metadata": {"name": format!("c-{number}")}, "data": {"text": "x".repeat(4 * LONG_BYTES)}});
        let answer = Ask::post(CONFIG_MAPS, body.to_string()).of(&client).await.unwrap();
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
    server.stop();
    let steps = steps(&trace.text());
    assert_eq!(unsynced(&steps), Vec::<usize>::new(), "answers that came before the sync");
    assert!(steps.iter().filter(|step| **step == Step::Answer).count() >= WRITES, "the trace shows the answers");

    // A server that answers first would be found out.
    let mut hasty = steps.clone();
    hasty.retain(|step| *step != Step::Sync);
    assert!(unsynced(&hasty).len() >= WRITES);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Request,
    Sync,
    Answer,
}

/// Requests, completed syncs of the data file, and answers, in order.
fn steps(trace: &str) -> Vec<Step> {
    let (mut steps, mut syncing) = (Vec::new(), BTreeSet::new());
    for line in trace.lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let result = call.rsplit_once("= ").and_then(|(_, result)| result.parse::<usize>().ok());
        let is_sync = call.starts_with("fdatasync(") || call.starts_with("fsync(");
        let of_data = is_sync && call.contains("/store.redb>");
        let of_client = call.contains("TCP:[") || call.contains("TCPv6:[");
        let is_reading = ["read(", "readv(", "recvfrom(", "recvmsg("].iter().any(|name| call.starts_with(name));
        if of_data && call.ends_with("<unfinished ...>") {
            syncing.insert(process);
        } else if (of_data && result == Some(0))
            || (call.contains("sync resumed>") && result == Some(0) && syncing.remove(process))
        {
            steps.push(Step::Sync);
        } else if of_client && result.is_some_and(|bytes| bytes >= LONG_BYTES) {
            steps.push(if is_reading { Step::Request } else { Step::Answer });
        }
    }
    steps
}

/// The places of the answers that have no sync between the request and them.
fn unsynced(steps: &[Step]) -> Vec<usize> {
    let mut places = Vec::new();
    let (mut requested, mut synced) = (false, false);
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Request => (requested, synced) = (true, false),
            Step::Sync => synced = true,
            Step::Answer if requested => {
                if !synced {
                    places.push(place);
                }
                requested = false;
            }
            Step::Answer => {}
        }
    }
    places
}
