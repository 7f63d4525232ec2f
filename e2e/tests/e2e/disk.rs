//! Tests full and read-only disks: the server loses nothing, and `up` ends with one line that names the reason.

use crate::program;
use component_base_testing::test_needs;
use e2e::apiserver::ApiServer;
use e2e::programs::must;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use serde_json::json;
use std::path::Path;
use std::process::Command;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A folder on which a file system is mounted as long as this value lives.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// Mounts a file system in memory. If this process may not mount, returns `None` and records the test as skipped.
    #[track_caller]
    fn tmpfs(folder: &'a Path, options: &str) -> Option<Self> {
        let mut command = Command::new("mount");
        let output = command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder).output().unwrap();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            test_needs::skip(&format!("only root may mount a small disk: {}", why.trim()));
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}

#[tokio::test]
async fn a_full_disk_takes_deletions() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_disk) = Mounted::tmpfs(directory.path(), "size=64m") else { return };
    let server = ApiServer::start(program(), directory.path(), Store::Embedded).await;
    let client = server.client(&server.admin);
    let create = async |number: usize| {
        let body = json!({"metadata": {"name": format!("big-{number}")}, "data": {"text": "x".repeat(900_000)}});
        RawRequest::post(CONFIG_MAPS, body.to_string()).send(&client).await.unwrap()
    };
    let mut stored = 0;
    let refused = loop {
        let answer = create(stored).await;
        if answer.code != 201 {
            break answer;
        }
        stored += 1;
        assert!(stored < 64, "the disk takes no more than that");
    };
    assert_eq!(refused.code, 500, "{}", refused.body);
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("store.redb: only deletions are taken: there is room for "), "{message}");
    for number in 0..stored {
        let answer = RawRequest::delete(&format!("{CONFIG_MAPS}/big-{number}"), "").send(&client).await.unwrap();
        assert_eq!(answer.code, 200, "{}", answer.body);
    }
    let answer = create(0).await;
    assert_eq!(answer.code, 201, "there is room again: {}", answer.body);
}

#[test]
fn a_full_or_read_only_disk_is_named_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    for (options, why) in
        [("size=4k", "No space left on device (os error 28)"), ("ro", "Read-only file system (os error 30)")]
    {
        let Some(disk) = Mounted::tmpfs(directory.path(), options) else { return };
        let mut up = Command::new(program());
        let output = up.args(["up", "--port=15990", "--data-dir"]).arg(directory.path().join("data")).output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("orrery: ") && said.trim_end().ends_with(why), "{options}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{options}: {said}");
        drop(disk);
    }
    must(Command::new("test").arg("!").arg("-e").arg(directory.path().join("data")));
}
