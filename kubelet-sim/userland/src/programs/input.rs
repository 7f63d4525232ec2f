//! The input of a filter: the files that its operands name, or standard input.

use crate::process::descriptor::Descriptor;
use crate::process::proc::{CHUNK_BYTES, Proc, Stop};
use file_tree::actor::OpenOptions;
use std::collections::VecDeque;

/// The descriptor on which a filter opens its files.
const OWN: u8 = 100;

/// Reads file after file. A file that cannot be read is reported and left out.
#[derive(Debug)]
pub struct Input {
    program: String,
    rest: VecDeque<String>,
    open: Option<u8>,
    /// The file that is being read; `-` is standard input.
    pub path: String,
    /// True once a file could not be read.
    pub has_failed: bool,
    /// True when missing files are not reported.
    pub is_silent: bool,
}

impl Input {
    pub fn new(program: &str, operands: &[String]) -> Self {
        let mut rest: VecDeque<String> = operands.iter().cloned().collect();
        if rest.is_empty() {
            rest.push_back("-".to_owned());
        }
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        Self { program, rest, open: None, path: String::new(), has_failed: false, is_silent: false }
    }

    /// Opens the next file; false when there is none.
    pub async fn next_file(&mut self, proc: &mut Proc) -> Result<bool, Stop> {
        proc.descriptors.remove(&OWN);
        self.open = None;
        while let Some(path) = self.rest.pop_front() {
            self.path = path;
            if self.path == "-" {
                self.open = Some(0);
                return Ok(true);
            }
            let opened = match proc.open(&self.path, OpenOptions::READ) {
                Ok(Descriptor::File(file)) if file.node.is_folder() => Err("Is a directory".to_owned()),
                Ok(descriptor) => Ok(descriptor),
                Err(error) => Err(error.to_string()),
            };
            match opened {
                Ok(descriptor) => {
                    proc.descriptors.insert(OWN, descriptor);
                    self.open = Some(OWN);
                    return Ok(true);
                }
                Err(why) => {
                    self.has_failed = true;
                    if !self.is_silent {
                        let message = match self.program.as_str() {
                            "cat" if why != "Is a directory" => format!("cat: can't open '{}': {why}\n", self.path),
                            program => format!("{program}: {}: {why}\n", self.path),
                        };
                        proc.error(&message).await?;
                    }
                }
            }
        }
        Ok(false)
    }

    /// Reads a part of the present file; `None` at its end.
    pub async fn chunk(&mut self, proc: &mut Proc) -> Option<Vec<u8>> {
        let bytes = proc.read(self.open?, CHUNK_BYTES).await.unwrap_or_default();
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Reads a line of the present file, with its line break.
    pub async fn file_line(&mut self, proc: &mut Proc) -> Option<Vec<u8>> {
        proc.read_line(self.open?).await.ok().flatten()
    }

    /// Reads a line of all files.
    pub async fn line(&mut self, proc: &mut Proc) -> Result<Option<Vec<u8>>, Stop> {
        loop {
            if self.open.is_some()
                && let Some(line) = self.file_line(proc).await
            {
                return Ok(Some(line));
            }
            if !self.next_file(proc).await? {
                return Ok(None);
            }
        }
    }

    /// Reads the rest of the present file.
    pub async fn rest_of_file(&mut self, proc: &mut Proc) -> Vec<u8> {
        match self.open {
            Some(number) => proc.read_all(number).await.unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// Reads the lines of all files, without their line breaks.
    pub async fn all_lines(&mut self, proc: &mut Proc) -> Result<Vec<Vec<u8>>, Stop> {
        let mut lines = Vec::new();
        while let Some(mut line) = self.line(proc).await? {
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            lines.push(line);
        }
        Ok(lines)
    }

    /// Returns the exit code of a filter that did its work.
    pub fn code(&self) -> i32 {
        i32::from(self.has_failed)
    }
}
