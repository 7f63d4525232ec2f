//! `Place`: identifies a cluster by its name or its data directory.

use clap::Args;
use component_base::claim::{self, ClaimError};
use std::path::{Path, PathBuf};

/// Name of the default cluster.
pub const DEFAULT_NAME: &str = "orrery";
const DEFAULT_DIRECTORY: &str = "./orrery-data";

#[derive(Args, Clone, Debug)]
pub struct Place {
    /// Name of the cluster; clusters of different names run side by side
    #[arg(long, default_value = DEFAULT_NAME, value_name = "NAME", value_parser = parse_name)]
    pub name: String,
    /// Where the cluster's state, certificates and logs are kept [default: ./orrery-data, or ./orrery-data-NAME]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl Place {
    pub fn at(data_dir: PathBuf) -> Self {
        Self { name: DEFAULT_NAME.to_owned(), data_dir: Some(data_dir) }
    }

    pub fn root(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| match self.name.as_str() {
            DEFAULT_NAME => PathBuf::from(DEFAULT_DIRECTORY),
            name => PathBuf::from(format!("{DEFAULT_DIRECTORY}-{name}")),
        })
    }

    pub fn has_default_name(&self) -> bool {
        self.name == DEFAULT_NAME
    }

    /// Returns true if an `up` runs there.
    pub fn is_running(&self) -> Result<bool, ClaimError> {
        claim::is_taken(&self.root())
    }

    pub fn kubeconfig(&self) -> PathBuf {
        Path::join(&self.root(), "kubeconfig")
    }
}

/// Checks a cluster's name, which is used in paths and kubeconfigs.
fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=40).contains(&text.len()) && text.chars().all(is_plain) && !text.starts_with('-');
    if is_name { Ok(text.to_owned()) } else { Err("want up to 40 lower-case letters, digits and '-'".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        place: Place,
    }

    #[test]
    fn a_name_has_a_directory_of_its_own() {
        for (flags, expected) in [
            (&[][..], "./orrery-data"),
            (&["--name=orrery"], "./orrery-data"),
            (&["--name=lab-2"], "./orrery-data-lab-2"),
            (&["--name=lab-2", "--data-dir=there"], "there"),
        ] {
            let place = Command::parse_from([&["up"], flags].concat()).place;
            assert_eq!(place.root(), Path::new(expected));
        }
        for wrong in ["--name=", "--name=a/b", "--name=..", "--name=Lab", "--name=-a"] {
            assert!(Command::try_parse_from(["up", wrong]).is_err(), "{wrong}");
        }
    }
}
