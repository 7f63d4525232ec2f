//! Applies the redirections of a command.

use super::state::{Flow, Shell};
use super::syntax::{Redirection, Target, Word};
use crate::process::descriptor::Descriptor;
use crate::process::pipe::pipe;
use file_tree::actor::OpenOptions;
use file_tree::error::FileError;
use file_tree::node::FileType;

impl Shell<'_> {
    /// Opens what the redirections name. Returns false, with a message printed, when one of them fails.
    pub async fn redirect(&mut self, redirections: &[Redirection]) -> Result<bool, Flow> {
        for Redirection { descriptor, target } in redirections {
            let opened = match target {
                Target::Read(word) => self.open(word, OpenOptions::READ).await?,
                Target::Create(word) if self.state.options.keeps_files => self.open_new(word).await?,
                Target::Create(word) => self.open(word, OpenOptions::CREATE).await?,
                Target::Append(word) => self.open(word, OpenOptions::APPEND).await?,
                Target::Update(word) => self.open(word, OpenOptions::UPDATE).await?,
                Target::Copy(word) => {
                    let text = self.text(word).await?;
                    if text == "-" {
                        self.proc.descriptors.remove(descriptor);
                        continue;
                    }
                    let source = text.parse().ok().and_then(|number: u8| self.proc.descriptors.get(&number).cloned());
                    if source.is_none() {
                        let why = if text.parse::<u8>().is_ok() { "Bad file descriptor" } else { "bad fd number" };
                        self.complain(&format!("{text}: {why}")).await?;
                    }
                    source
                }
                Target::Document(word) => {
                    let text = match word.get() {
                        Some(word) => self.text(word).await?,
                        None => String::new(),
                    };
                    let (reader, writer) = pipe();
                    writer.push(text.as_bytes());
                    Some(Descriptor::Reader(reader))
                }
            };
            let Some(opened) = opened else { return Ok(false) };
            self.proc.descriptors.insert(*descriptor, opened);
        }
        Ok(true)
    }

    async fn open(&mut self, word: &Word, options: OpenOptions) -> Result<Option<Descriptor>, Flow> {
        let path = self.text(word).await?;
        match self.proc.open(&path, options) {
            Ok(descriptor) => Ok(Some(descriptor)),
            Err(error) => {
                let (failed, missing) = match options.creates {
                    true => ("create", "nonexistent directory".to_owned()),
                    false => ("open", "no such file".to_owned()),
                };
                let why = if error == FileError::NotFound { missing } else { error.to_string() };
                self.complain(&format!("can't {failed} {path}: {why}")).await?;
                Ok(None)
            }
        }
    }

    /// Opens a file under `set -C`: one that exists is kept.
    async fn open_new(&mut self, word: &Word) -> Result<Option<Descriptor>, Flow> {
        let path = self.text(word).await?;
        let found = self.proc.tree().metadata(&self.proc.actor(), &path, true);
        if found.is_ok_and(|metadata| metadata.file_type == FileType::File) {
            self.complain(&format!("can't create {path}: File exists")).await?;
            return Ok(None);
        }
        self.open(word, OpenOptions::CREATE).await
    }
}
