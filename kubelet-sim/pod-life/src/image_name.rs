//! The grammar of image names: `registry:port/path/name:tag@digest`.
//!
//! Corresponds to ParseDockerRef of github.com/distribution/reference, by which the kubelet parses a container's image.

/// Returns why a name cannot be parsed; `None` for a name that can.
pub fn error(image: &str) -> Option<String> {
    let is_valid = |image: &str| parts(image).is_some_and(|parts| parts.are_valid());
    if is_valid(image) {
        return None;
    }
    let lower = image.to_lowercase();
    let reason = match parts(image) {
        Some(Parts { repository, .. }) if lower != image && is_valid(&lower) => {
            let library = if repository.contains('/') { "" } else { "library/" };
            format!(": repository name ({library}{repository}) must be lowercase")
        }
        _ => String::new(),
    };
    Some(format!("couldn't parse image name {image:?}: invalid reference format{reason}"))
}

/// The parts of a name, not yet checked.
struct Parts<'a> {
    registry: Option<&'a str>,
    repository: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

fn parts(image: &str) -> Option<Parts<'_>> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (name, tag) = match name.rsplit_once(':') {
        // A colon before a slash belongs to a registry's port.
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (name, None),
    };
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (Some(first), rest),
        _ => (None, name),
    };
    (!repository.is_empty()).then_some(Parts { registry, repository, tag, digest })
}

/// True when the first component of a name is a host, as opposed to a folder of Docker Hub.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.chars().any(|c| c.is_ascii_uppercase())
}

impl Parts<'_> {
    fn are_valid(&self) -> bool {
        self.registry.is_none_or(is_host)
            && self.repository.split('/').all(is_component)
            && self.tag.is_none_or(is_tag)
            && self.digest.is_none_or(is_digest)
    }
}

/// A host name or address with an optional port.
fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_label = |label: &str| {
        let inner = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(is_label)
        && port.is_none_or(|port| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()))
}

/// Lower-case letters and digits, separated by one dot, one or two underscores, or hyphens.
fn is_component(component: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_separator =
        |separator: &str| matches!(separator, "." | "_" | "__") || separator.trim_matches('-').is_empty();
    let ends_are_words = component.starts_with(is_word) && component.ends_with(is_word);
    ends_are_words && component.split(is_word).filter(|separator| !separator.is_empty()).all(is_separator)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= 128 && tag.starts_with(is_word) && tag.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        let length = match algorithm {
            "sha256" => 64,
            "sha384" => 96,
            "sha512" => 128,
            _ => return false,
        };
        hex.len() == length && hex.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_a_registry_does() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        for image in [
            "nginx",
            "nginx:1.29-alpine",
            "library/nginx",
            "registry.k8s.io/e2e-test-images/agnhost:2.53",
            "localhost:5000/a/b__c/d--e:T_1",
            "127.0.0.1:5000/x",
            &digest,
        ] {
            assert_eq!(error(image), None, "{image}");
        }
        for (image, reason) in [
            ("Nginx", ": repository name (library/Nginx) must be lowercase"),
            ("docker.io/Team/Web:1", ": repository name (Team/Web) must be lowercase"),
            ("nginx:", ""),
            ("nginx latest", ""),
            ("nginx:-1", ""),
            ("a//b", ""),
            ("https://example.com/web", ""),
            ("web@sha256:abc", ""),
            ("-web", ""),
            ("a...b", ""),
        ] {
            let expected = format!("couldn't parse image name {image:?}: invalid reference format{reason}");
            assert_eq!(error(image), Some(expected));
        }
    }
}
