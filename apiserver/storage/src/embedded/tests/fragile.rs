//! `Fragile`: a file in memory that fails on demand, and that loses what was not synced at a power loss.

use component_base::rng::Random;
use parking_lot::Mutex;
use redb::StorageBackend;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A disk writes this many bytes or none.
const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Fragile(Arc<Mutex<File>>);

#[derive(Debug, Default)]
struct File {
    /// The content that readers see.
    image: Vec<u8>,
    /// The content that survives a power loss.
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Number of changes and syncs that still succeed; None: all.
    left: Option<usize>,
    /// Failures are panics.
    panics: bool,
    /// A deliberate bug: a sync does nothing.
    skips_syncs: bool,
    observer: Option<Observer>,
}

/// Called before each change and sync, when the next content is not durable yet.
#[derive(Clone)]
struct Observer(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

#[derive(Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Length(length) => image.resize(*length, 0),
            Self::Write { at, bytes } => {
                image.resize(image.len().max(at + bytes.len()), 0);
                image[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// Splits a write into sectors, each of which may be lost alone.
    fn sectors(&self) -> Vec<Self> {
        match self {
            Self::Length(length) => vec![Self::Length(*length)],
            Self::Write { at, bytes } => {
                let piece =
                    |(place, sector): (usize, &[u8])| Self::Write { at: at + place * SECTOR, bytes: sector.to_vec() };
                bytes.chunks(SECTOR).enumerate().map(piece).collect()
            }
        }
    }
}

impl File {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) if self.panics => panic!("a mistake in the disk's driver"),
            Some(0) => Err(io::Error::other("the device is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Fragile {
    /// Fails every operation after this many more changes and syncs.
    pub fn fail_after(&self, steps: usize) {
        self.0.lock().left = Some(steps);
    }

    /// Panics after this many more changes and syncs, and at every later one.
    pub fn panic_after(&self, steps: usize) {
        let mut file = self.0.lock();
        (file.left, file.panics) = (Some(steps), true);
    }

    /// Makes syncs do nothing and report success from now on.
    pub fn skip_syncs(&self) {
        self.0.lock().skips_syncs = true;
    }

    pub fn observe(&self, observer: impl Fn() + Send + Sync + 'static) {
        self.0.lock().observer = Some(Observer(Arc::new(observer)));
    }

    fn notify_observer(&self) {
        let observer = self.0.lock().observer.clone();
        if let Some(observer) = observer {
            observer.0();
        }
    }

    pub fn has_failed(&self) -> bool {
        self.0.lock().left == Some(0)
    }

    /// Returns the content after a killed process: everything that it wrote.
    pub fn after_kill(&self) -> Self {
        let image = self.0.lock().image.clone();
        Self(Arc::new(Mutex::new(File { durable: image.clone(), image, ..File::default() })))
    }

    /// Returns the content after a power loss: all that was synced, and a random part of the rest.
    pub fn after_power_loss(&self, random: &Random) -> Self {
        let file = self.0.lock();
        let mut image = file.durable.clone();
        for sector in file.unsynced.iter().flat_map(Change::sectors) {
            if random.below(2) == 0 {
                sector.apply(&mut image);
            }
        }
        Self(Arc::new(Mutex::new(File { durable: image.clone(), image, ..File::default() })))
    }
}

impl StorageBackend for Fragile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().image.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let file = self.0.lock();
        let at = offset as usize;
        let bytes = file.image.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(Change::Length(length as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.notify_observer();
        let mut file = self.0.lock();
        file.step()?;
        if file.skips_syncs {
            return Ok(());
        }
        file.durable = file.image.clone();
        file.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write { at: offset as usize, bytes: data.to_vec() })
    }
}

impl Fragile {
    fn change(&self, change: Change) -> io::Result<()> {
        self.notify_observer();
        let mut file = self.0.lock();
        file.step()?;
        change.apply(&mut file.image);
        file.unsynced.push(change);
        Ok(())
    }
}
