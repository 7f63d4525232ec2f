//! Checks paths of files in volumes and on nodes.
//!
//! Corresponds to validateLocalDescendingPath and ValidateLocalNonReservedPath.

use super::at::{At, Errors};

/// Checks that a path is relative and does not contain `..`.
pub fn descending(at: &At<'_>, errors: &mut Errors) {
    if at.text().starts_with('/') {
        errors.push(at.invalid("must be a relative path"));
    }
    no_backsteps(at, errors);
}

/// Checks a path as `descending` does, and that it does not begin with `..`: the kubelet reserves such names.
pub fn unreserved(at: &At<'_>, errors: &mut Errors) {
    descending(at, errors);
    if at.text().starts_with("..") && !at.text().starts_with("../") {
        errors.push(at.invalid("must not start with '..'"));
    }
}

pub fn steps_back(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

pub fn no_backsteps(at: &At<'_>, errors: &mut Errors) {
    if steps_back(at.text()) {
        errors.push(at.invalid("must not contain '..'"));
    }
}

/// Returns whether Go's `path.Clean` turns the path into `/`.
pub fn leads_to_root(path: &str) -> bool {
    let depth = path.split('/').fold(0_usize, |depth, part| match part {
        "" | "." => depth,
        ".." => depth.saturating_sub(1),
        _ => depth + 1,
    });
    path.starts_with('/') && depth == 0
}
