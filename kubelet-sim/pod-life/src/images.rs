//! Container images on a node: full names, digests, sizes.
//!
//! Corresponds to pkg/kubelet/images and to what containerd reports. Nothing is downloaded: digest and size are
//! functions of the name, so they are the same on every node and in every run.

use sha2::{Digest, Sha256};

/// The size of the smallest simulated image.
const SMALLEST_IMAGE_BYTES: u64 = 5_000_000;
/// The largest simulated image is larger than the smallest by this much.
const IMAGE_SPREAD_BYTES: u64 = 195_000_000;

/// Returns the SHA-256 of the parts in hexadecimal. It replaces every identifier that a runtime draws at random.
pub fn fingerprint(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the full name: that of `nginx` is `docker.io/library/nginx:latest`.
pub fn canonical(image: &str) -> String {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (repository, tag) = match name.rsplit_once(':') {
        // A colon before a slash belongs to a registry's port.
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    };
    let first = repository.split('/').next().unwrap_or_default();
    let has_registry = repository.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    let repository = match (has_registry, repository.contains('/')) {
        (true, _) => repository.to_owned(),
        (false, true) => format!("docker.io/{repository}"),
        (false, false) => format!("docker.io/library/{repository}"),
    };
    match (tag, digest) {
        (Some(tag), _) => format!("{repository}:{tag}"),
        (None, Some(digest)) => format!("{repository}@{digest}"),
        (None, None) => format!("{repository}:latest"),
    }
}

/// Returns the `imageID` of a container status: `repository@sha256:…`.
pub fn id(image: &str) -> String {
    let full = canonical(image);
    if let Some((_, digest)) = image.split_once('@') {
        return format!("{}@{digest}", repository(&full));
    }
    format!("{}@sha256:{}", repository(&full), fingerprint(&["image", &full]))
}

fn repository(full: &str) -> &str {
    let name = full.split('@').next().unwrap_or(full);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

/// Returns the names under which a node reports an image: by digest, and by tag when it was pulled by tag.
pub fn reported_names(full: &str) -> Vec<String> {
    let mut names = vec![id(full)];
    if names[0] != full {
        names.push(full.to_owned());
    }
    names
}

/// Returns the full name from which `reported_names` made these names.
pub fn full_name_of(names: &[String]) -> Option<&String> {
    names.iter().find(|name| !name.contains('@')).or(names.first())
}

pub fn size_bytes(image: &str) -> i64 {
    let digest = fingerprint(&["size", &canonical(image)]);
    let draw = u64::from_str_radix(&digest[..12], 16).expect("a fingerprint is hexadecimal");
    i64::try_from(SMALLEST_IMAGE_BYTES + draw % IMAGE_SPREAD_BYTES).expect("sizes are far below the limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_a_runtime_does() {
        for (image, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.29", "docker.io/library/nginx:1.29"),
            ("grafana/loki", "docker.io/grafana/loki:latest"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("localhost:5000/web", "localhost:5000/web:latest"),
            ("localhost/web:v1", "localhost/web:v1"),
            ("nginx@sha256:abc", "docker.io/library/nginx@sha256:abc"),
        ] {
            assert_eq!(canonical(image), full, "{image}");
        }
    }

    #[test]
    fn the_same_name_is_the_same_image_everywhere() {
        assert_eq!(id("nginx"), id("docker.io/library/nginx:latest"));
        assert_ne!(id("nginx:1"), id("nginx:2"));
        assert_eq!(id("localhost:5000/web@sha256:abc"), "localhost:5000/web@sha256:abc");
        assert!(id("nginx").starts_with("docker.io/library/nginx@sha256:"));
        for name in ["docker.io/library/nginx:latest", "localhost:5000/web@sha256:abc"] {
            assert_eq!(full_name_of(&reported_names(name)), Some(&name.to_owned()));
        }
        assert_eq!(reported_names("docker.io/library/nginx:1").len(), 2);
        assert!((5_000_000..200_000_000).contains(&size_bytes("nginx")));
    }
}
