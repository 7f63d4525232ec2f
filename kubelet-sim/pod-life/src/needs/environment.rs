//! The variables of a container, and what is expanded by them.
//!
//! Corresponds to makeEnvironmentVariables of pkg/kubelet/kubelet_pods.go and to
//! k8s.io/kubernetes/third_party/forked/golang/expansion.

use crate::needs::downward::PodFields;
use crate::needs::references::{Objects, Source};
use proto::Kind;
use proto::kinds::api::core::v1::{Container, EnvVarSource, VolumeMount};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The variables of a container by name.
pub type Environment = BTreeMap<String, String>;

/// Returns the variables that the container's spec asks for. The error is the message of `CreateContainerConfigError`.
pub fn environment(fields: PodFields<'_>, container: &Container, objects: &Objects) -> Result<Environment, String> {
    environment_over(Environment::new(), fields, container, objects)
}

/// Returns the variables of the container over those that it has anyway, which its own may refer to.
pub fn environment_over(
    mut env: Environment,
    fields: PodFields<'_>,
    container: &Container,
    objects: &Objects,
) -> Result<Environment, String> {
    for from in container.env_from.iter().flatten() {
        let sources = [
            from.config_map_ref.as_ref().map(|source| (Source::ConfigMap, &source.name, source.optional)),
            from.secret_ref.as_ref().map(|source| (Source::Secret, &source.name, source.optional)),
        ];
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (source, name, optional) in sources.into_iter().flatten() {
            let entries = objects.entries(source, name, optional)?.unwrap_or_default();
            env.extend(entries.iter().map(|(key, value)| (format!("{prefix}{key}"), text(value))));
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) if !value.is_empty() => Some(expand(value, &env)),
            (_, Some(from)) => value_from(fields, container, objects, from)?,
            _ => Some(String::new()),
        };
        if let Some(value) = value {
            env.insert(variable.name.clone(), value);
        }
    }
    Ok(env)
}

/// Returns the value of a variable with a source; `None` if it is left out.
fn value_from(
    fields: PodFields<'_>,
    container: &Container,
    objects: &Objects,
    from: &EnvVarSource,
) -> Result<Option<String>, String> {
    if let Some(selector) = &from.field_ref {
        return fields.field(selector).map(Some);
    }
    if let Some(selector) = &from.resource_field_ref {
        return fields.resource(selector, Some(container)).map(Some);
    }
    let (source, kind, name, key, optional) = match (&from.config_map_key_ref, &from.secret_key_ref) {
        (Some(selector), _) => (Source::ConfigMap, "ConfigMap", &selector.name, &selector.key, selector.optional),
        (None, Some(selector)) => (Source::Secret, "Secret", &selector.name, &selector.key, selector.optional),
        (None, None) => return Ok(None),
    };
    let Some(entries) = objects.entries(source, name, optional)? else { return Ok(None) };
    match entries.get(key) {
        Some(value) => Ok(Some(text(value))),
        None if optional == Some(true) => Ok(None),
        None => Err(format!("couldn't find key {key} in {kind} {}/{name}", fields.pod.namespace())),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Replaces each `$(NAME)` by the variable. An unknown one stays as it is, and `$$` stands for one `$`.
pub fn expand(text: &str, env: &Environment) -> String {
    expand_by(text, |name| env.get(name).cloned().unwrap_or_else(|| format!("$({name})")))
}

fn expand_by(text: &str, mut value: impl FnMut(&str) -> String) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        expanded += &rest[..at];
        rest = &rest[at + 1..];
        match rest.chars().next() {
            Some('$') => {
                expanded.push('$');
                rest = &rest[1..];
            }
            Some('(') => match rest.find(')') {
                Some(end) => {
                    expanded += &value(&rest[1..end]);
                    rest = &rest[end + 1..];
                }
                None => expanded.push('$'),
            },
            _ => expanded.push('$'),
        }
    }
    expanded + rest
}

/// Returns the path within its volume that a mount shows; empty for all of it. The error is the message of
/// `CreateContainerConfigError`.
pub fn sub_path(mount: &VolumeMount, env: &Environment) -> Result<String, String> {
    let path = match mount.sub_path_expr.as_deref().filter(|expression| !expression.is_empty()) {
        Some(expression) => {
            let mut missing = None;
            let expanded = expand_by(expression, |name| match env.get(name) {
                Some(value) => value.clone(),
                None => {
                    missing.get_or_insert_with(|| name.to_owned());
                    String::new()
                }
            });
            if let Some(name) = missing {
                return Err(format!("missing value for {name:?}"));
            }
            expanded
        }
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if path.starts_with('/') {
        return Err(format!("error SubPath `{path}` must not be an absolute path"));
    }
    if Path::new(&path).components().any(|part| part == Component::ParentDir) {
        return Err(format!("unable to provision SubPath `{path}`: must not contain '..'"));
    }
    Ok(path)
}
