//! `LogFile`: writes events as lines of JSON into a file, and rotates the file when it is large.
//!
//! Corresponds to k8s.io/apiserver/plugin/pkg/audit/log, and the rotation of gopkg.in/natefinch/lumberjack.

use super::event::Event;
use component_base::env::Env;
use component_base::private_file;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const MEGABYTE: u64 = 1024 * 1024;
/// Size at which a file is rotated if the flag is 0.
const DEFAULT_MAX_SIZE_MB: u64 = 100;
const BACKUP_TIME: &str = "%Y-%m-%dT%H-%M-%S.%3f";

/// The size at which a file is rotated, and the rotated files that are kept. 0 means no limit of age and number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rotation {
    pub max_size_mb: u64,
    pub max_age_days: u64,
    pub max_backups: usize,
    pub compress: bool,
}

/// The log. Clones write into the same file.
#[derive(Clone, Debug)]
pub struct LogFile {
    env: Env,
    open: Arc<Mutex<Open>>,
}

/// The open destination of the log.
#[derive(Debug)]
enum Open {
    Stdout,
    File { path: PathBuf, file: File, size: u64, rotation: Rotation },
}

impl LogFile {
    /// Opens a file, or the standard output for `-`.
    pub fn open(env: &Env, path: &Path, rotation: Rotation) -> io::Result<Self> {
        let open = if path == Path::new("-") {
            Open::Stdout
        } else {
            let (file, size) = open(path)?;
            Open::File { path: path.to_owned(), file, size, rotation }
        };
        Ok(Self { env: env.clone(), open: Arc::new(Mutex::new(open)) })
    }

    /// Appends one line for each event.
    pub async fn append(&self, events: &[Arc<Event>]) -> io::Result<()> {
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event.as_ref()).map_err(io::Error::other)?;
            lines.push(b'\n');
        }
        let (shared, now) = (self.open.clone(), self.env.wall());
        self.env.blocking(move || shared.lock().write(&lines, now)).await
    }
}

/// Opens a file for appending, and creates it and its folder if needed. Returns its size too.
fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_file::create_folder(folder)?;
    }
    let file = private_file::options().create(true).append(true).open(path)?;
    if file.metadata()?.is_file() {
        private_file::narrow(path);
    }
    let size = file.metadata()?.len();
    Ok((file, size))
}

impl Open {
    fn write(&mut self, lines: &[u8], now: Timestamp) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
            Self::File { path, file, size, rotation } => {
                let limit =
                    if rotation.max_size_mb == 0 { DEFAULT_MAX_SIZE_MB } else { rotation.max_size_mb } * MEGABYTE;
                if *size > 0 && *size + lines.len() as u64 > limit {
                    rotate(path, now, *rotation)?;
                    (*file, *size) = open(path)?;
                }
                file.write_all(lines)?;
                *size += lines.len() as u64;
                Ok(())
            }
        }
    }
}

/// Renames `audit.log` to `audit-2026-01-01T00-00-00.000.log`, compresses it if wanted, and deletes surplus backups.
fn rotate(path: &Path, now: Timestamp, rotation: Rotation) -> io::Result<()> {
    let name = Name::of(path);
    let backup = path.with_file_name(name.backup(&now.strftime(BACKUP_TIME).to_string()));
    fs::rename(path, &backup)?;
    if rotation.compress {
        let compressed = PathBuf::from(format!("{}.gz", backup.display()));
        let file = private_file::options().write(true).create(true).truncate(true).open(&compressed)?;
        let mut encoder = GzEncoder::new(file, Compression::default());
        io::copy(&mut File::open(&backup)?, &mut encoder)?;
        encoder.finish()?.sync_all()?;
        fs::remove_file(&backup)?;
    }
    let mut backups = Vec::new();
    for entry in fs::read_dir(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))? {
        let entry = entry?;
        if let Some(time) = entry.file_name().to_str().and_then(|file| name.time_of(file)) {
            backups.push((time, entry.path()));
        }
    }
    backups.sort();
    let days = Duration::from_secs(rotation.max_age_days * 24 * 3600);
    let oldest = (now - days).strftime(BACKUP_TIME).to_string();
    let too_many = if rotation.max_backups == 0 { 0 } else { backups.len().saturating_sub(rotation.max_backups) };
    for (index, (time, path)) in backups.iter().enumerate() {
        if index < too_many || rotation.max_age_days > 0 && *time < oldest {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The name of the log file, of which the names of its backups are made.
struct Name {
    stem: String,
    extension: String,
}

impl Name {
    fn of(path: &Path) -> Self {
        let part = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        Self {
            stem: part(path.file_stem()).unwrap_or_default(),
            extension: part(path.extension()).map(|extension| format!(".{extension}")).unwrap_or_default(),
        }
    }

    fn backup(&self, time: &str) -> String {
        format!("{}-{time}{}", self.stem, self.extension)
    }

    /// Returns the time in the name of a backup, which sorts as text; `None` if it is not a backup of this file.
    fn time_of(&self, file: &str) -> Option<String> {
        let file = file.strip_suffix(".gz").unwrap_or(file);
        let time = file.strip_prefix(&self.stem)?.strip_prefix('-')?.strip_suffix(&self.extension)?;
        let is_time = time.len() == "2026-01-01T00-00-00.000".len() && time.starts_with(|c: char| c.is_ascii_digit());
        is_time.then(|| time.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_large_file_is_put_aside_and_few_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/audit.log");
        let rotation = Rotation { max_size_mb: 1, max_backups: 2, compress: true, ..Rotation::default() };
        let env_start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (file, size) = open(&path).unwrap();
        let mut log = Open::File { path: path.clone(), file, size, rotation };
        let line = vec![b'x'; MEGABYTE as usize - 1];
        fs::write(path.with_file_name("audit-of-somebody-else.log"), "").unwrap();
        for hour in 0..5 {
            log.write(&line, env_start + Duration::from_secs(hour * 3600)).unwrap();
        }
        let expected = [
            "audit-2026-01-01T03-00-00.000.log.gz",
            "audit-2026-01-01T04-00-00.000.log.gz",
            "audit-of-somebody-else.log",
            "audit.log",
        ];
        assert_eq!(files(path.parent().unwrap()), expected);
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for name in [expected[0], expected[1], expected[3]] {
            assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
        }
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let backup = File::open(path.with_file_name(expected[0])).unwrap();
        let mut whole = Vec::new();
        io::Read::read_to_end(&mut flate2::read::GzDecoder::new(backup), &mut whole).unwrap();
        assert_eq!(whole, line);
    }

    #[test]
    fn what_is_too_old_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let rotation = Rotation { max_age_days: 2, ..Rotation::default() };
        for day in ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T12:00:00Z"] {
            fs::write(&path, "x").unwrap();
            rotate(&path, at(day), rotation).unwrap();
        }
        assert_eq!(files(folder.path()), ["audit-2026-01-02T00-00-00.000", "audit-2026-01-03T12-00-00.000"]);
    }
}
