//! File modes: the store holds every Secret, so only its owner may access its files and its directory, from the start.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn modes(root: &Path) -> Vec<(String, u32)> {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let mut modes: Vec<_> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), mode(&entry.path()))).collect();
    modes.push((".".to_owned(), mode(root)));
    modes.sort();
    modes
}

fn private() -> Vec<(String, u32)> {
    [(".", 0o700), ("format", 0o600), ("lock", 0o600), ("store.redb", 0o600)]
        .map(|(name, mode)| (name.to_owned(), mode))
        .to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_new_store_is_its_owners_alone() {
    let (env, directory) = (Env::simulated(1), tempfile::tempdir().unwrap());
    let root = directory.path().join("above/store");
    let store = open(&env, &root).await.unwrap();
    put(&store, "/a", "1").await;
    assert_eq!(modes(&root), private());
    let above = fs::metadata(directory.path().join("above")).unwrap().permissions().mode() & 0o777;
    assert_eq!(above, 0o700, "what had to be made on the way is private too");
}

#[tokio::test(start_paused = true)]
async fn an_existing_store_is_narrowed() {
    let (env, directory) = (Env::simulated(1), tempfile::tempdir().unwrap());
    let store = open(&env, directory.path()).await.unwrap();
    put(&store, "/a", "1").await;
    store.close().await;
    let widen = |name: &str, mode: u32| {
        fs::set_permissions(directory.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    ["store.redb", "lock", "format"].iter().for_each(|name| widen(name, 0o644));
    widen("", 0o755);
    let again = open(&env, directory.path()).await.unwrap();
    assert_eq!(modes(directory.path()), private());
    assert_eq!(everything(&again).await, "/a=1 2/2");
}
