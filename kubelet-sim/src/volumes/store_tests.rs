//! What every store of volumes does, in memory and on a disk, and what only a disk does.

use crate::volumes::store::VolumeStore;
use file_tree::actor::{Actor, OpenOptions};
use file_tree::error::FileError;
use file_tree::mounts::{FileTree, Mount};
use file_tree::node::Owner;
use file_tree::volume::{DEFAULT_LIMIT_BYTES, Volume};
use jiff::{SignedDuration, Timestamp};
use std::path::Path;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const GROUP: Owner = Owner { uid: 0, gid: 7 };

fn open(store: &VolumeStore, name: &str) -> Volume {
    store.open(name, (0o2777, GROUP), NOW, Timestamp::MIN).unwrap()
}

/// Returns the files of a container that has mounted the volume at `/data`.
fn mounted(volume: &Volume) -> FileTree {
    let mut tree = FileTree::new(Volume::new(0o755, Owner::default(), DEFAULT_LIMIT_BYTES, NOW), false);
    let mount = Mount { volume: volume.clone(), is_read_only: false, fs_type: "ext4".to_owned(), is_known: true };
    tree.mount("/data", mount, NOW);
    tree
}

fn root() -> Actor {
    Actor::root(NOW)
}

fn user() -> Actor {
    Actor { uid: 9, gid: 9, ..root() }
}

fn read(tree: &FileTree, path: &str) -> String {
    match tree.read(&root(), path) {
        Ok(bytes) => String::from_utf8(bytes).unwrap(),
        Err(error) => error.to_string(),
    }
}

fn in_every_store(check: impl Fn(&VolumeStore)) {
    check(&VolumeStore::new(None));
    let folder = tempfile::tempdir().unwrap();
    check(&VolumeStore::new(Some(folder.path().to_owned())));
}

#[test]
fn a_volume_is_the_same_for_all_who_open_it() {
    in_every_store(|store| {
        let (one, other) = (mounted(&open(store, "v")), mounted(&open(store, "v")));
        one.write(&user(), "/data/f", b"kept").unwrap();
        assert_eq!(read(&other, "/data/f"), "kept");
        assert_eq!(read(&mounted(&open(store, "w")), "/data/f"), "No such file or directory");
        let made = other.metadata(&root(), "/data/f", true).unwrap();
        assert_eq!((made.owner, made.mode, made.size, made.links), (Owner { uid: 9, gid: 7 }, 0o644, 4, 1));
    });
}

#[test]
fn files_grow_shrink_and_are_appended_to() {
    in_every_store(|store| {
        let tree = mounted(&open(store, "v"));
        tree.write(&root(), "/data/f", b"one\n").unwrap();
        let file = tree.open(&root(), "/data/f", OpenOptions::APPEND).unwrap().node;
        assert_eq!(file.write(None, b"two\n", NOW), Ok(8));
        assert_eq!(file.write(Some(0), b"ONE", NOW), Ok(3));
        assert_eq!(file.read(4, 2), b"tw");
        file.truncate(2, NOW).unwrap();
        assert_eq!(file.write(Some(4), b"!", NOW), Ok(5));
        assert_eq!(tree.read(&root(), "/data/f").unwrap(), b"ON\0\0!");
        assert_eq!(file.read(99, 1), b"");
    });
}

#[test]
fn names_are_made_moved_linked_and_removed() {
    in_every_store(|store| {
        let tree = mounted(&open(store, "v"));
        tree.create_folder(&root(), "/data/a", 0o750).unwrap();
        let folder = tree.metadata(&root(), "/data/a", true).unwrap();
        assert_eq!((folder.mode, folder.owner.gid), (0o2750 & !0o022 | 0o2000, 7));
        assert_eq!(tree.metadata(&root(), "/data", true).unwrap().links, 3);
        tree.write(&root(), "/data/a/f", b"1").unwrap();
        tree.write(&root(), "/data/g", b"old").unwrap();
        assert_eq!(tree.create_folder(&root(), "/data/a", 0o777), Err(FileError::Exists));
        assert_eq!(tree.remove_folder(&root(), "/data/a"), Err(FileError::NotEmpty));
        tree.rename(&root(), "/data/a/f", "/data/g").unwrap();
        assert_eq!((read(&tree, "/data/g"), read(&tree, "/data/a/f")), ("1".into(), FileError::NotFound.to_string()));
        tree.rename(&root(), "/data/a", "/data/b").unwrap();
        tree.hard_link(&root(), "/data/g", "/data/b/h").unwrap();
        tree.write(&root(), "/data/b/h", b"22").unwrap();
        assert_eq!((read(&tree, "/data/g"), tree.metadata(&root(), "/data/g", true).unwrap().links), ("22".into(), 2));
        tree.create_link(&root(), "/data/l", "b/h").unwrap();
        assert_eq!((read(&tree, "/data/l"), tree.read_link(&root(), "/data/l").unwrap()), ("22".into(), "b/h".into()));
        assert_eq!(tree.read_folder(&root(), "/data").unwrap(), ["b", "g", "l"]);
        tree.remove_file(&root(), "/data/g").unwrap();
        assert_eq!(read(&tree, "/data/b/h"), "22", "it has another name");
        tree.remove_file(&root(), "/data/b/h").unwrap();
        tree.remove_folder(&root(), "/data/b").unwrap();
        assert_eq!(tree.metadata(&root(), "/data", true).unwrap().links, 2);
        assert_eq!(tree.open(&root(), "/data/../data/l", OpenOptions::READ).err(), Some(FileError::NotFound));
    });
}

#[test]
fn attributes_change_and_are_checked() {
    in_every_store(|store| {
        let tree = mounted(&open(store, "v"));
        tree.write(&user(), "/data/f", b"1").unwrap();
        let time = NOW + SignedDuration::from_secs(99);
        tree.set_modified(&user(), "/data/f", time).unwrap();
        tree.set_mode(&user(), "/data/f", 0o4600).unwrap();
        tree.set_owner(&root(), "/data/f", Some(3), None, true).unwrap();
        let changed = tree.metadata(&root(), "/data/f", true).unwrap();
        assert_eq!((changed.mode, changed.owner, changed.modified_at), (0o4600, Owner { uid: 3, gid: 7 }, time));
        assert_eq!(tree.read(&user(), "/data/f"), Err(FileError::PermissionDenied));
    });
}

#[test]
fn a_volume_is_full_at_its_limit_and_has_room_again() {
    in_every_store(|store| {
        let volume = open(store, "v");
        let tree = mounted(&volume);
        let half = vec![b'x'; usize::try_from(DEFAULT_LIMIT_BYTES / 2).unwrap()];
        tree.write(&root(), "/data/a", &half).unwrap();
        tree.write(&root(), "/data/b", &half).unwrap();
        assert_eq!(tree.write(&root(), "/data/c", b"1"), Err(FileError::NoSpace));
        tree.remove_file(&root(), "/data/a").unwrap();
        assert_eq!(volume.used_bytes(), DEFAULT_LIMIT_BYTES / 2);
        tree.write(&root(), "/data/c", b"1").unwrap();
    });
}

#[test]
fn names_that_containers_choose_stay_in_the_volume() {
    in_every_store(|store| {
        let tree = mounted(&open(store, "../../v"));
        tree.create_link(&root(), "/data/out", "/etc").unwrap();
        for name in ["1", "2", "lock", "1.new", "%2e%2e", "a b", "é", &"n".repeat(255)] {
            tree.write(&root(), &format!("/data/{name}"), name.as_bytes()).unwrap();
            assert_eq!(read(&tree, &format!("/data/{name}")), name);
        }
        assert_eq!(tree.read_folder(&root(), "/data").unwrap().len(), 9);
    });
}

fn stored(folder: &Path) -> VolumeStore {
    VolumeStore::new(Some(folder.to_owned()))
}

#[test]
fn a_disk_keeps_files_for_the_next_process_and_shows_them_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let first = mounted(&open(&stored(folder.path()), "v"));
    first.create_folder(&root(), "/data/a", 0o755).unwrap();
    first.write(&root(), "/data/a/f", b"kept").unwrap();
    // Another process has the same volume open, with other modes in mind.
    let volume = stored(folder.path()).open("v", (0o700, Owner::default()), NOW, Timestamp::MIN).unwrap();
    let other = mounted(&volume);
    assert_eq!((read(&other, "/data/a/f"), volume.used_bytes()), ("kept".to_owned(), 4));
    assert_eq!(other.metadata(&root(), "/data", true).unwrap().mode, 0o2777);
    let (of_first, of_other) = ("/data/a/first", "/data/a/other");
    first.write(&root(), of_first, b"1").unwrap();
    other.write(&root(), of_other, b"2").unwrap();
    first.open(&root(), "/data/a/f", OpenOptions::APPEND).unwrap().node.write(None, b"+1", NOW).unwrap();
    other.open(&root(), "/data/a/f", OpenOptions::APPEND).unwrap().node.write(None, b"+2", NOW).unwrap();
    for tree in [&first, &other] {
        let seen = [of_first, of_other, "/data/a/f"].map(|path| read(tree, path));
        assert_eq!(seen, ["1", "2", "kept+1+2"]);
    }
}

/// A container's programs run again from their start when the agent has restarted. What they wrote before is there.
#[test]
fn what_was_written_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (then, later) = (root(), Actor::root(NOW + SignedDuration::from_secs(10)));
    let run = |tree: &FileTree, actor: &Actor| -> Result<(), FileError> {
        tree.create_folder(actor, "/data/a", 0o755)?;
        tree.write(actor, "/data/a/f", b"new")?;
        tree.rename(actor, "/data/a/f", "/data/a/g")?;
        tree.open(actor, "/data/a/g", OpenOptions::APPEND)?.node.write(None, b"+", actor.now)?;
        tree.hard_link(actor, "/data/a/g", "/data/a/h")?;
        tree.remove_file(actor, "/data/a/h")?;
        tree.set_mode(actor, "/data/a/g", 0o600)
    };
    run(&mounted(&open(&stored(folder.path()), "v")), &then).unwrap();
    let volume = stored(folder.path()).open("v", (0o777, GROUP), NOW, later.now).unwrap();
    let again = mounted(&volume);
    again.write(&later, "/data/a/g", b"changed since").unwrap();
    run(&again, &then).unwrap();
    assert_eq!(
        (read(&again, "/data/a/g"), again.read_folder(&root(), "/data/a").unwrap()),
        ("changed since".into(), vec!["g".to_owned()])
    );
    assert_eq!(run(&again, &later), Err(FileError::Exists), "from then on it is a file system like any other");
    assert_eq!(volume.used_bytes(), "changed since".len() as u64);
}

#[test]
fn a_removed_volume_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(folder.path());
    let before = mounted(&open(&store, "v"));
    before.write(&root(), "/data/f", b"old").unwrap();
    std::fs::remove_dir_all(folder.path().join("v")).unwrap();
    assert!(before.read(&root(), "/data/f").is_err(), "its last user sees nothing of it");
    assert_eq!(mounted(&open(&store, "v")).read_folder(&root(), "/data").unwrap(), Vec::<String>::new());
}

#[test]
fn a_disk_that_cannot_be_written_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(folder.path());
    let tree = mounted(&open(&store, "v"));
    tree.write(&root(), "/data/f", b"1").unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(stored(&file).open("v", (0o777, GROUP), NOW, Timestamp::MIN).err(), Some(FileError::NotFolder));
    // The lock cannot be taken, so no folder changes, while what is there can be read.
    let lock = folder.path().join("v/lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    assert_eq!(tree.write(&root(), "/data/g", b"1"), Err(FileError::Io));
    assert_eq!(tree.read_folder(&root(), "/data").unwrap(), ["f"]);
    std::fs::remove_dir(&lock).unwrap();
    tree.write(&root(), "/data/g", b"1").unwrap();
    assert_eq!((read(&tree, "/data/f"), read(&tree, "/data/g")), ("1".to_owned(), "1".to_owned()));
    // What was damaged is an error of its own, and stays one.
    std::fs::write(folder.path().join("v/1"), "{").unwrap();
    assert!(tree.write(&root(), "/data/h", b"1").is_err());
}
