//! Tests with a trace of system calls that the store is synced before the answer to a write is sent.

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
/// Least size of a call that reads a request or writes an answer. Those of this test are several times longer, and all
/// other data of a connection is shorter.
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
    let events = io_events(&trace.text());
    assert_eq!(unsynced(&events), Vec::<usize>::new(), "answers that came before the sync");
    assert!(events.iter().filter(|event| **event == IoEvent::Answer).count() >= WRITES, "the trace shows the answers");

    // The check would find a server that answers before the sync.
    let mut without_sync = events.clone();
    without_sync.retain(|event| *event != IoEvent::Sync);
    assert!(unsynced(&without_sync).len() >= WRITES);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum IoEvent {
    Request,
    Sync,
    Answer,
}

/// Returns the requests, completed syncs of the data file and answers in their order. An answer has the place at which
/// its call begins, and all others have the place at which their call ends. A call that is interrupted has two lines in
/// the trace, and only the first one names the file.
fn io_events(trace: &str) -> Vec<IoEvent> {
    let (mut events, mut unfinished) = (Vec::new(), BTreeMap::new());
    for line in trace.lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let result = call.rsplit_once("= ").and_then(|(_, result)| result.parse::<usize>().ok());
        let is_done = |event: IoEvent| {
            result.is_some_and(|result| if event == IoEvent::Sync { result == 0 } else { result >= LONG_BYTES })
        };
        if call.starts_with("<... ") {
            match unfinished.remove(process) {
                Some((IoEvent::Answer, place)) if is_done(IoEvent::Answer) => events[place] = Some(IoEvent::Answer),
                Some((event, _)) if event != IoEvent::Answer && is_done(event) => events.push(Some(event)),
                _ => {}
            }
        } else if let Some(event) = event_of(call) {
            if call.ends_with("<unfinished ...>") {
                unfinished.insert(process, (event, events.len()));
                // An answer gets this place when its call ends.
                events.push(None);
            } else if is_done(event) {
                events.push(Some(event));
            }
        }
    }
    events.into_iter().flatten().collect()
}

/// Returns the event of a call, if it concerns the data file or a client.
fn event_of(call: &str) -> Option<IoEvent> {
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
    let read = io_events(trace);
    let expected = [IoEvent::Request, IoEvent::Answer, IoEvent::Sync, IoEvent::Request, IoEvent::Sync, IoEvent::Answer];
    assert_eq!((read.as_slice(), unsynced(&read)), (&expected[..], vec![1]));
}

/// Returns the places of the answers that have no sync between them and their request.
fn unsynced(events: &[IoEvent]) -> Vec<usize> {
    let mut places = Vec::new();
    let (mut requested, mut synced) = (false, false);
    for (place, event) in events.iter().enumerate() {
        match event {
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
