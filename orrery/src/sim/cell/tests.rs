//! A disk that becomes full at any moment of a cell, while others have finished.

use super::*;
use crate::sim::disk::Sink;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;

const STUDY: &str = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: tiny
depth: scheduler
records: {decisions: plugins}
clusters: [{name: c, nodes: [{name: node, count: 2, capacity: {cpu: 1}}]}]
workloads:
- name: w
  generate:
    count: 3
    arrivals: {waves: {size: 3, every: 1s}}
    sizes: [{name: pod, requests: {cpu: 1}, duration: {constant: 20s}}]
policies: [{name: first}, {name: second}]
";
/// Number of the error of a full disk.
const NO_SPACE: i32 = 28;
/// Sizes of the disk that are tried.
const SIZES: usize = 16;

/// A disk with room for so many more bytes.
struct Small(Arc<Mutex<usize>>);

struct Limited {
    file: File,
    left: Arc<Mutex<usize>>,
}

impl Disk for Small {
    fn create(&self, path: &Path) -> io::Result<Sink> {
        Ok(Box::new(Limited { file: File::create(path)?, left: self.0.clone() }))
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut left = self.left.lock().unwrap();
        if *left == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(NO_SPACE));
        }
        let written = self.file.write(&bytes[..bytes.len().min(*left)])?;
        *left -= written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the files of a cell, but the CPU times.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap());
    entries.filter(|path| !path.ends_with(TIMINGS)).map(read).collect()
}

#[test]
fn a_disk_that_becomes_full_spares_finished_cells() {
    tls::install_provider();
    let folder = tempfile::tempdir().unwrap();
    let (path, out, other) = (folder.path().join("s.yaml"), folder.path().join("out"), folder.path().join("other"));
    fs::write(&path, STUDY).unwrap();
    let study = StudyFile::read(&path, None).unwrap();
    let cells = study.study.cells();
    let place = |out: &Path, at: usize| out.join(cells[at].to_string());
    play(&study, &cells[0], &out, &FileSystem).unwrap();
    play(&study, &cells[1], &other, &FileSystem).unwrap();
    let (finished, whole) = (files(&place(&out, 0)), files(&place(&other, 1)));
    let total: usize = whole.values().map(Vec::len).sum();
    let mut named = BTreeSet::new();
    for size in (0..SIZES).map(|part| total * part / SIZES) {
        let said = play(&study, &cells[1], &out, &Small(Arc::new(Mutex::new(size)))).unwrap_err();
        let start = format!("{}/", place(&out, 1).display());
        let (name, why) = said[0].strip_prefix(&start).unwrap().split_once(": ").unwrap();
        assert_eq!((said.len(), why), (1, "No space left on device (os error 28)"), "{size} of {total}: {said:?}");
        named.insert(name.to_owned());
        assert!(!place(&out, 1).join(MANIFEST).exists(), "{size}");
        assert_eq!(is_finished(&study, &cells[1], &out), Ok(false), "{size}");
        assert!(files(&place(&out, 0)) == finished && is_finished(&study, &cells[0], &out) == Ok(true), "{size}");
    }
    for name in ["decisions.parquet", "verdicts.parquet", "events.jsonl", "samples.parquet"] {
        assert!(named.contains(name), "{named:?}");
    }
    play(&study, &cells[1], &out, &FileSystem).unwrap();
    let mut again = files(&place(&out, 1));
    again.remove(&format!("{MANIFEST}.partial"));
    assert_eq!(is_finished(&study, &cells[1], &out), Ok(true));
    let differ: Vec<&String> = whole.keys().filter(|name| whole.get(*name) != again.get(*name)).collect();
    assert!(differ.is_empty() && whole.len() == again.len(), "{differ:?}");
}
