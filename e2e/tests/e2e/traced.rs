//! The order of system calls: the store is synced before the answer is sent.

use crate::program;
use component_base_testing::test_needs;
use e2e::apiserver::ApiServer;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use e2e::strace::Trace;
use serde_json::json;
use std::collections::BTreeMap;

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
        Err(why) => return test_needs::skip(&why),
    };
    let mut server = ApiServer::start(&trace.program, directory.path(), Store::Embedded).await;
    let client = server.client(&server.admin);
    for number in 0..WRITES {
        let body = json!({"metadata": {"name": format!("c-{number}")}, "data": {"text": "x".repeat(4 * LONG_BYTES)}});
        let answer = RawRequest::post(CONFIG_MAPS, body.to_string()).send(&client).await.unwrap();
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
    server.stop();
    let steps = steps(&trace.text());
    assert_eq!(unsynced(&steps), Vec::<usize>::new(), "answers that came before the sync");
    assert!(steps.iter().filter(|step| **step == IoEvent::Answer).count() >= WRITES, "the trace shows the answers");

    // The check finds a server that answers first.
    let mut hasty = steps.clone();
    hasty.retain(|step| *step != IoEvent::Sync);
    assert!(unsynced(&hasty).len() >= WRITES);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum IoEvent {
    Request,
    Sync,
    Answer,
}

/// Requests, completed syncs of the data file, and answers, in order. An answer counts from when it begins to be written,
/// all others from when they are done; a call that others interrupt stands in two lines, and only the first says of what
/// file it is.
fn steps(trace: &str) -> Vec<IoEvent> {
    let (mut steps, mut unfinished) = (Vec::new(), BTreeMap::new());
    for line in trace.lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let result = call.rsplit_once("= ").and_then(|(_, result)| result.parse::<usize>().ok());
        let is_done = |step: IoEvent| {
            result.is_some_and(|result| if step == IoEvent::Sync { result == 0 } else { result >= LONG_BYTES })
        };
        if call.starts_with("<... ") {
            match unfinished.remove(process) {
                Some((IoEvent::Answer, place)) if is_done(IoEvent::Answer) => steps[place] = Some(IoEvent::Answer),
                Some((step, _)) if step != IoEvent::Answer && is_done(step) => steps.push(Some(step)),
                _ => {}
            }
        } else if let Some(step) = meant(call) {
            if call.ends_with("<unfinished ...>") {
                unfinished.insert(process, (step, steps.len()));
                // Room for an answer.
                steps.push(None);
            } else if is_done(step) {
                steps.push(Some(step));
            }
        }
    }
    steps.into_iter().flatten().collect()
}

/// Returns the event of a call, if it concerns the data file or a client.
fn meant(call: &str) -> Option<IoEvent> {
    let is = |names: &[&str]| names.iter().any(|name| call.starts_with(name));
    let of_client = call.contains("TCP:[") || call.contains("TCPv6:[");
    if is(&["fdatasync(", "fsync("]) {
        call.contains("/store.redb>").then_some(IoEvent::Sync)
    } else if is(&["read(", "readv(", "recvfrom(", "recvmsg("]) {
        of_client.then_some(IoEvent::Request)
    } else {
        of_client.then_some(IoEvent::Answer)
    }
}

#[test]
fn interrupted_calls_are_put_together() {
    let trace = "1 recvfrom(9<TCP:[a]>,  <unfinished ...>\n2 fdatasync(3</d/store.redb> <unfinished ...>\n\
                 1 <... recvfrom resumed>\"\"..., 9) = 9000\n1 sendto(9<TCP:[a]>,  <unfinished ...>\n\
                 2 <... fdatasync resumed>) = 0\n1 <... sendto resumed>\"\"..., 9) = 9000\n\
                 1 read(9<TCP:[a]>, \"\"..., 9) = 9000\n2 fsync(3</d/store.redb>) = 0\n1 write(9<TCP:[a]>, \"\"..., 9) = 9000\n\
                 1 write(9<TCP:[a]>, \"\"..., 9) = 17\n";
    let read = steps(trace);
    let expected = [IoEvent::Request, IoEvent::Answer, IoEvent::Sync, IoEvent::Request, IoEvent::Sync, IoEvent::Answer];
    assert_eq!((read.as_slice(), unsynced(&read)), (&expected[..], vec![1]));
}

/// Returns the answers without a sync after their request.
fn unsynced(steps: &[IoEvent]) -> Vec<usize> {
    let mut places = Vec::new();
    let (mut requested, mut synced) = (false, false);
    for (place, step) in steps.iter().enumerate() {
        match step {
            IoEvent::Request => (requested, synced) = (true, false),
            IoEvent::Sync => synced = true,
            IoEvent::Answer if requested => {
                if !synced {
                    places.push(place);
                }
                requested = false;
            }
            IoEvent::Answer => {}
        }
    }
    places
}
