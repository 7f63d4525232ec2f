//! `Disk`: where a cell writes its files. Tests have one that becomes full.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A file that is written.
pub type Sink = Box<dyn Write + Send>;

pub trait Disk {
    /// Makes a file, or empties the one that is there.
    fn create(&self, path: &Path) -> io::Result<Sink>;

    /// Writes a whole file.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create(path)?;
        file.write_all(bytes)?;
        file.flush()
    }
}

/// The file system.
pub struct FileSystem;

impl Disk for FileSystem {
    fn create(&self, path: &Path) -> io::Result<Sink> {
        Ok(Box::new(File::create(path)?))
    }
}
