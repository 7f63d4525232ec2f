//! The project's own automation: hygiene as a test (what the house style asks of every file, checked by reading the
//! tree), the benchmark, and the simulation under many seeds.

pub mod bench;
pub mod circles;
pub mod crates;
pub mod deviations;
pub mod files;
pub mod laws;
pub mod paths;
pub mod release;
pub mod soak;
pub mod source;

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies directly below the root").to_owned()
}

/// Every complaint about the tree, each naming its file; empty when all is well.
pub fn tidy(root: &Path) -> Vec<String> {
    let sources = source::read_all(root);
    let mut complaints = files::check(&sources);
    complaints.extend(files::orphans(&sources));
    complaints.extend(circles::check(&sources));
    complaints.extend(crates::check(root, &sources));
    complaints.extend(crates::sizes(&sources));
    complaints.extend(laws::check(&sources));
    complaints.extend(crates::documented(root));
    complaints.extend(paths::check(root, &sources));
    complaints.extend(deviations::check(root, &sources));
    complaints
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let complaints = super::tidy(&super::root());
        assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    }
}
