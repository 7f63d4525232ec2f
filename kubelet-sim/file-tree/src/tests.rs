//! Tables of what operations on a tree do.

use super::actor::{Actor, OpenOptions};
use super::error::FileError;
use super::mounts::{FileTree, Mount};
use super::node::Owner;
use super::payload::PayloadFile;
use super::place::Access;
use super::volume::{DEFAULT_LIMIT_BYTES, Volume};
use jiff::Timestamp;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn volume(mode: u32, owner: Owner) -> Volume {
    Volume::new(mode, owner, DEFAULT_LIMIT_BYTES, NOW)
}

fn tree() -> FileTree {
    let root = volume(0o755, Owner::default());
    root.put_file("etc/hostname", "web-0\n", 0o644, Owner::default(), NOW);
    root.put_file("etc/shadow", "secret", 0o600, Owner::default(), NOW);
    root.put_link("etc/loop", "loop", NOW);
    root.put_link("var/run", "/run", NOW);
    root.put_link("etc/up", "../etc/hostname", NOW);
    root.put_folder("run", 0o755, Owner::default(), NOW);
    root.put_folder("tmp", 0o1777, Owner::default(), NOW);
    root.put_folder("group", 0o2770, Owner { uid: 0, gid: 7 }, NOW);
    FileTree::new(root, false)
}

fn mount(volume: &Volume, is_read_only: bool) -> Mount {
    Mount { volume: volume.clone(), is_read_only, fs_type: "tmpfs".to_owned(), is_known: true }
}

fn user(uid: u32, groups: &[u32]) -> Actor {
    Actor { uid, gid: uid, groups: groups.to_vec(), ..Actor::root(NOW) }
}

fn read(tree: &FileTree, actor: &Actor, path: &str) -> String {
    match tree.read(actor, path) {
        Ok(bytes) => String::from_utf8(bytes).unwrap(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn paths_follow_links_and_dots() {
    let tree = tree();
    let actor = Actor { working_dir: "/etc".to_owned(), ..Actor::root(NOW) };
    for (path, expected) in [
        ("/etc/hostname", "web-0\n"),
        ("hostname", "web-0\n"),
        ("./../etc//hostname", "web-0\n"),
        ("/../../etc/hostname", "web-0\n"),
        ("up", "web-0\n"),
        ("loop", "Symbolic link loop"),
        ("/etc/hostname/x", "Not a directory"),
        ("/none/x", "No such file or directory"),
        ("", "No such file or directory"),
    ] {
        assert_eq!(read(&tree, &actor, path), expected, "{path}");
    }
    assert_eq!(tree.find(&actor, "/var/run/../etc", true).unwrap().path, "/etc");
}

#[test]
fn modes_are_checked_for_everybody_but_root() {
    let tree = tree();
    assert_eq!(read(&tree, &Actor::root(NOW), "/etc/shadow"), "secret");
    assert_eq!(read(&tree, &user(9, &[]), "/etc/shadow"), "Permission denied");
    assert_eq!(tree.write(&user(9, &[]), "/etc/new", b""), Err(FileError::PermissionDenied));
    assert_eq!(tree.write(&user(9, &[]), "/group/new", b""), Err(FileError::PermissionDenied));
    assert_eq!(tree.write(&user(9, &[7]), "/group/new", b""), Ok(()));
    let made = tree.metadata(&Actor::root(NOW), "/group/new", true).unwrap();
    assert_eq!((made.owner, made.mode), (Owner { uid: 9, gid: 7 }, 0o644));
    tree.write(&user(9, &[]), "/tmp/mine", b"").unwrap();
    assert_eq!(tree.remove_file(&user(8, &[]), "/tmp/mine"), Err(FileError::NotPermitted));
    assert_eq!(tree.set_mode(&user(8, &[]), "/tmp/mine", 0o777), Err(FileError::NotPermitted));
    assert_eq!(tree.remove_file(&user(9, &[]), "/tmp/mine"), Ok(()));
    assert!(!tree.allows(&Actor::root(NOW), "/etc/hostname", Access::Execute));
}

#[test]
fn volumes_are_shared_and_may_be_read_only() {
    let (mut one, mut other) = (tree(), tree());
    let shared = volume(0o777, Owner::default());
    one.mount("/var/run/data", mount(&shared, false), NOW);
    other.mount("/data", mount(&shared, true), NOW);
    let actor = user(9, &[]);
    one.write(&actor, "/run/data/a", b"x").unwrap();
    assert_eq!(read(&other, &actor, "/data/a"), "x");
    assert_eq!(other.write(&actor, "/data/b", b""), Err(FileError::ReadOnly));
    assert_eq!(other.remove_file(&actor, "/data/a"), Err(FileError::ReadOnly));
    assert_eq!(one.rename(&actor, "/run/data/a", "/tmp/a"), Err(FileError::CrossDevice));
    assert_eq!(one.remove_folder(&Actor::root(NOW), "/run/data"), Err(FileError::NotEmpty));
    assert_eq!(one.read_folder(&actor, "/run").unwrap(), ["data"]);
    let file = Volume::of_file(b"hosts".to_vec(), 0o644, Owner::default(), NOW);
    one.mount("/etc/hosts", mount(&file, false), NOW);
    assert_eq!(read(&one, &actor, "/etc/hosts"), "hosts");
    assert_eq!(one.remove_file(&Actor::root(NOW), "/etc/hosts"), Err(FileError::Busy));
}

#[test]
fn a_volume_is_full_at_its_limit() {
    let mut tree = tree();
    let small = Volume::new(0o777, Owner::default(), 10, NOW);
    tree.mount("/small", mount(&small, false), NOW);
    let actor = Actor::root(NOW);
    tree.write(&actor, "/small/a", b"12345678").unwrap();
    assert_eq!(tree.write(&actor, "/small/b", b"123"), Err(FileError::NoSpace));
    tree.remove_file(&actor, "/small/a").unwrap();
    assert_eq!(small.used_bytes(), 0);
    assert_eq!(tree.write(&actor, "/small/b", b"123"), Ok(()));
}

#[test]
fn names_are_moved_and_linked() {
    let (tree, actor) = (tree(), Actor::root(NOW));
    tree.create_folder(&actor, "/tmp/a", 0o777).unwrap();
    tree.write(&actor, "/tmp/a/f", b"1").unwrap();
    assert_eq!(tree.create_folder(&actor, "/tmp/a", 0o777), Err(FileError::Exists));
    assert_eq!(tree.rename(&actor, "/tmp/a", "/tmp/a/b"), Err(FileError::Invalid));
    assert_eq!(tree.rename(&actor, "/tmp/a", "/tmp/b"), Ok(()));
    tree.hard_link(&actor, "/tmp/b/f", "/tmp/g").unwrap();
    assert_eq!(tree.metadata(&actor, "/tmp/g", true).unwrap().links, 2);
    tree.write(&actor, "/tmp/g", b"22").unwrap();
    assert_eq!(read(&tree, &actor, "/tmp/b/f"), "22");
    assert_eq!(tree.remove_folder(&actor, "/tmp/b"), Err(FileError::NotEmpty));
    tree.create_link(&actor, "/tmp/l", "b/f").unwrap();
    assert_eq!(tree.read_link(&actor, "/tmp/l"), Ok("b/f".to_owned()));
    let options = OpenOptions { is_new: true, ..OpenOptions::CREATE };
    assert_eq!(tree.open(&actor, "/tmp/g", options).err(), Some(FileError::Exists));
}

#[test]
fn a_payload_changes_at_once() {
    let (mut tree, actor) = (tree(), user(9, &[]));
    let map = volume(0o755, Owner::default());
    let file = |text: &str| PayloadFile { content: text.into(), mode: 0o644, owner: Owner::default() };
    let first = [("a".to_owned(), file("1")), ("dir/b".to_owned(), file("2"))].into();
    map.write_payload(&first, NOW);
    tree.mount("/config", mount(&map, true), NOW);
    assert_eq!(tree.read_folder(&actor, "/config").unwrap().last().map(String::as_str), Some("dir"));
    assert_eq!(tree.read_link(&actor, "/config/a").unwrap(), "..data/a");
    assert_eq!(read(&tree, &actor, "/config/dir/b"), "2");
    let before = tree.read_link(&actor, "/config/..data").unwrap();
    map.write_payload(&first, NOW + std::time::Duration::from_secs(1));
    assert_eq!(tree.read_link(&actor, "/config/..data").unwrap(), before);
    map.write_payload(&[("c".to_owned(), file("3"))].into(), NOW + std::time::Duration::from_secs(2));
    let names = tree.read_folder(&actor, "/config").unwrap();
    assert_eq!(names, ["..1970_01_01_00_00_02.000000000", "..data", "c"]);
}
