//! `DeferredWrites`: defers every write to a store's file until the store has been read and found intact.
//!
//! Opening a database writes to it: marks and repairs. A damaged file must stay as it was found, so that a person can
//! examine it. So these writes wait in memory and go to the file, in their order, once the store is known to be intact.

use parking_lot::Mutex;
use redb::StorageBackend;
use std::io;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct DeferredWrites(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: Box<dyn StorageBackend>,
    /// The writes that wait; None once released.
    waiting: Mutex<Option<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    length: u64,
    operations: Vec<FileOperation>,
}

#[derive(Debug)]
enum FileOperation {
    Write { at: u64, bytes: Vec<u8> },
    Length(u64),
    Sync,
}

impl DeferredWrites {
    pub fn new(file: impl StorageBackend) -> io::Result<Self> {
        let waiting = Waiting { length: file.len()?, operations: Vec::new() };
        Ok(Self(Arc::new(Inner { file: Box::new(file), waiting: Mutex::new(Some(waiting)) })))
    }

    /// Writes all waiting operations to the file, and passes on later ones directly.
    pub fn release(&self) -> io::Result<()> {
        let mut waiting = self.0.waiting.lock();
        for operation in waiting.take().into_iter().flat_map(|waiting| waiting.operations) {
            match operation {
                FileOperation::Write { at, bytes } => self.0.file.write(at, &bytes)?,
                FileOperation::Length(length) => self.0.file.set_len(length)?,
                FileOperation::Sync => self.0.file.sync_data()?,
            }
        }
        Ok(())
    }

    /// Carries out an operation now, or keeps it for later.
    fn pass(
        &self,
        now: impl FnOnce(&dyn StorageBackend) -> io::Result<()>,
        later: impl FnOnce() -> FileOperation,
    ) -> io::Result<()> {
        let mut waiting = self.0.waiting.lock();
        let Some(waiting) = &mut *waiting else { return now(&*self.0.file) };
        let operation = later();
        match &operation {
            FileOperation::Length(length) => waiting.length = *length,
            FileOperation::Write { at, bytes } => waiting.length = waiting.length.max(at + bytes.len() as u64),
            FileOperation::Sync => {}
        }
        waiting.operations.push(operation);
        Ok(())
    }
}

impl Waiting {
    /// Reads what the file would hold. Opening makes few operations, so all of them are looked at.
    fn read(&self, file: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() as u64 > self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let on_disk = file.len()?.saturating_sub(offset).min(out.len() as u64) as usize;
        file.read(offset, &mut out[..on_disk])?;
        out[on_disk..].fill(0);
        let end = offset + out.len() as u64;
        for operation in &self.operations {
            match operation {
                FileOperation::Write { at, bytes } => {
                    let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
                    if from < to {
                        let source = &bytes[(from - at) as usize..(to - at) as usize];
                        out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
                    }
                }
                FileOperation::Length(length) if *length < end => out[length.saturating_sub(offset) as usize..].fill(0),
                FileOperation::Length(_) | FileOperation::Sync => {}
            }
        }
        Ok(())
    }
}

impl StorageBackend for DeferredWrites {
    fn len(&self) -> io::Result<u64> {
        match &*self.0.waiting.lock() {
            Some(waiting) => Ok(waiting.length),
            None => self.0.file.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let waiting = self.0.waiting.lock();
        if let Some(waiting) = &*waiting {
            return waiting.read(&*self.0.file, offset, out);
        }
        drop(waiting);
        self.0.file.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.pass(|file| file.set_len(length), || FileOperation::Length(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pass(|file| file.sync_data(), || FileOperation::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.pass(|file| file.write(offset, data), || FileOperation::Write { at: offset, bytes: data.to_vec() })
    }

    fn close(&self) -> io::Result<()> {
        self.0.file.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;

    #[test]
    fn what_waits_is_read_but_not_there() {
        let file = InMemoryBackend::new();
        file.set_len(6).unwrap();
        file.write(0, b"abcdef").unwrap();
        let held = DeferredWrites::new(file).unwrap();
        let read = |held: &DeferredWrites| {
            let mut bytes = vec![b'?'; held.len().unwrap() as usize];
            held.read(0, &mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).replace('\0', "_")
        };
        held.write(1, b"BC").unwrap();
        held.set_len(4).unwrap();
        held.set_len(8).unwrap();
        held.write(2, b"xx").unwrap();
        held.sync_data().unwrap();
        assert_eq!(read(&held), "aBxx____");
        assert_eq!(held.0.file.len().unwrap(), 6, "nothing was written");
        let mut middle = [0; 3];
        held.read(1, &mut middle).unwrap();
        assert_eq!(&middle, b"Bxx");
        assert!(held.read(7, &mut [0; 2]).is_err());
        held.release().unwrap();
        assert_eq!(read(&held), "aBxx____");
        held.write(0, b"A").unwrap();
        assert_eq!(held.0.file.len().unwrap(), 8);
        assert_eq!(read(&held), "ABxx____");
    }
}
