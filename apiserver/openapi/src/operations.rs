//! The operations of a resource: which path has which method, with which parameters, body and responses.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/installer. The same operations are written as version 2 and 3.

use super::parameters::{self as parameters, Parameter};
use super::type_names;
use proto::gvk::Gvk;
use proto::resources::{Scope, Served, Subresource, Target, Verb};

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
/// The media type of a body without a schema.
pub const ANYTHING: &str = "*/*";

const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// Custom resources do not support strategic merge patches.
const CUSTOM_PATCHES: &[&str] =
    &["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

/// One path with its operations.
#[derive(Debug)]
pub struct Path {
    pub path: String,
    pub parameters: Vec<Parameter>,
    pub operations: Vec<Operation>,
}

#[derive(Debug)]
pub struct Operation {
    /// `get`, `post`, …
    pub method: &'static str,
    /// `x-kubernetes-action`
    pub action: &'static str,
    pub id: String,
    pub about: String,
    pub tag: String,
    pub gvk: Gvk,
    pub parameters: &'static [Parameter],
    /// The definition of the body, and its media types.
    pub body: Option<(String, &'static [&'static str])>,
    /// The definition of the response; `None` for streams and text.
    pub answer: Option<String>,
    pub codes: &'static [u16],
    /// The operation can also watch.
    pub watches: bool,
}

/// Returns every path of one resource in one version.
pub fn paths(target: &Target) -> Vec<Path> {
    let served = target.served();
    let writer = Writer { served, scope: target.row.scope };
    let mut paths = Vec::new();
    if target.row.scope == Scope::Namespaced && served.verbs.contains(&Verb::List) {
        let mut everywhere = writer.list();
        everywhere.id = format!("list{}{}ForAllNamespaces", writer.group_version(), served.kind);
        paths.push(Path {
            path: writer.collection(""),
            parameters: vec![parameters::PRETTY],
            operations: vec![everywhere],
        });
    }
    writer.add(&mut paths, "", vec![], writer.on_collection());
    writer.add(&mut paths, "/{name}", vec![parameters::NAME], writer.on_object());
    for part in &served.subresources {
        writer.subresource(part, &mut paths);
    }
    paths
}

struct Writer<'a> {
    served: &'a Served,
    scope: Scope,
}

impl Writer<'_> {
    /// Returns the path of the collection; `below` is `/namespaces/{namespace}` or nothing.
    fn collection(&self, below: &str) -> String {
        let prefix = super::group_path(&self.served.group, &self.served.version);
        format!("/{prefix}{below}/{}", self.served.resource)
    }

    fn add(&self, paths: &mut Vec<Path>, end: &str, more: Vec<Parameter>, operations: Vec<Operation>) {
        if operations.is_empty() {
            return;
        }
        let (below, namespace) = match self.scope {
            Scope::Namespaced => ("/namespaces/{namespace}", Some(parameters::NAMESPACE)),
            Scope::Cluster => ("", None),
        };
        let parameters = more.into_iter().chain(namespace).chain([parameters::PRETTY]).collect();
        paths.push(Path { path: self.collection(below) + end, parameters, operations });
    }

    fn on_collection(&self) -> Vec<Operation> {
        let verbs = self.served.verbs;
        let mut operations = Vec::new();
        if verbs.contains(&Verb::List) {
            operations.push(self.list());
        }
        if verbs.contains(&Verb::Create) {
            operations.push(self.create());
        }
        if verbs.contains(&Verb::DeleteCollection) {
            operations.push(self.delete_collection());
        }
        operations
    }

    fn on_object(&self) -> Vec<Operation> {
        let own = self.served.schema.name.to_string();
        let verbs = self.served.verbs;
        let mut operations = Vec::new();
        if verbs.contains(&Verb::Get) {
            operations.push(self.read("", &own, self.served.gvk()));
        }
        if verbs.contains(&Verb::Update) {
            operations.push(self.replace("", &own, self.served.gvk()));
        }
        if verbs.contains(&Verb::Patch) {
            operations.push(self.patch("", &own, self.served.gvk()));
        }
        if verbs.contains(&Verb::Delete) {
            operations.push(self.delete());
        }
        operations
    }

    fn subresource(&self, part: &Subresource, paths: &mut Vec<Path>) {
        let end = format!("/{{name}}/{}", part.name);
        let gvk = type_names::gvk_of_subresource(self.served, part);
        let suffix = title(&part.name);
        let Some(carried) = type_names::of_subresource(self.served, part) else {
            let operations = self.connect(part, &gvk, &suffix);
            self.add(paths, &end, vec![parameters::NAME], operations);
            if part.name == "proxy" {
                let operations = self.connect(part, &gvk, &format!("{suffix}WithPath"));
                self.add(paths, &(end + "/{path}"), vec![parameters::NAME, parameters::PATH], operations);
            }
            return;
        };
        let name = carried.name.to_string();
        let mut operations = Vec::new();
        for verb in part.verbs {
            match verb {
                Verb::Get => operations.push(self.read(&suffix, &name, gvk.clone())),
                Verb::Update => operations.push(self.replace(&suffix, &name, gvk.clone())),
                Verb::Patch => operations.push(self.patch(&suffix, &name, gvk.clone())),
                Verb::Create => operations.push(self.post(&suffix, &name, gvk.clone())),
                _ => {}
            }
        }
        self.add(paths, &end, vec![parameters::NAME], operations);
    }

    /// Returns the operations of a stream, a log or a proxy, which carry no JSON.
    fn connect(&self, part: &Subresource, gvk: &Gvk, suffix: &str) -> Vec<Operation> {
        let methods = part.verbs.iter().filter_map(|verb| match verb {
            Verb::Get => Some("get"),
            Verb::Create => Some("post"),
            Verb::Update => Some("put"),
            Verb::Patch => Some("patch"),
            Verb::Delete => Some("delete"),
            _ => None,
        });
        let is_log = part.name == "log";
        methods
            .map(|method| {
                let (action, verb) =
                    if is_log { ("get", "read".to_owned()) } else { ("connect", format!("connect{}", title(method))) };
                Operation {
                    method,
                    action,
                    id: self.id(&verb, suffix),
                    about: format!(
                        "{action} {} requests to {} of {}",
                        method.to_uppercase(),
                        part.name,
                        self.served.kind
                    ),
                    parameters: &[],
                    body: None,
                    answer: None,
                    codes: &[200, 401],
                    ..self.operation(gvk.clone())
                }
            })
            .collect()
    }

    fn list(&self) -> Operation {
        Operation {
            method: "get",
            action: "list",
            id: self.id("list", ""),
            about: format!("list or watch objects of kind {}", self.served.kind),
            parameters: parameters::LIST,
            answer: Some(type_names::list_of(&self.served.schema.name)),
            watches: true,
            ..self.operation(self.served.gvk())
        }
    }

    fn create(&self) -> Operation {
        let name = self.served.schema.name.to_string();
        Operation { about: format!("create {}", article(&self.served.kind)), ..self.post("", &name, self.served.gvk()) }
    }

    fn post(&self, suffix: &str, name: &str, gvk: Gvk) -> Operation {
        Operation {
            method: "post",
            action: "post",
            id: self.id("create", suffix),
            about: self.about("create", suffix),
            parameters: parameters::WRITE,
            body: Some((name.to_owned(), &[ANYTHING])),
            answer: Some(name.to_owned()),
            codes: &[200, 201, 202, 401],
            ..self.operation(gvk)
        }
    }

    fn read(&self, suffix: &str, name: &str, gvk: Gvk) -> Operation {
        Operation {
            method: "get",
            action: "get",
            id: self.id("read", suffix),
            about: self.about("read", suffix),
            answer: Some(name.to_owned()),
            ..self.operation(gvk)
        }
    }

    fn replace(&self, suffix: &str, name: &str, gvk: Gvk) -> Operation {
        Operation {
            method: "put",
            action: "put",
            id: self.id("replace", suffix),
            about: self.about("replace", suffix),
            parameters: parameters::WRITE,
            body: Some((name.to_owned(), &[ANYTHING])),
            answer: Some(name.to_owned()),
            codes: &[200, 201, 401],
            ..self.operation(gvk)
        }
    }

    fn patch(&self, suffix: &str, name: &str, gvk: Gvk) -> Operation {
        let is_custom = !self.served.schema.is_builtin();
        let media = if is_custom { CUSTOM_PATCHES } else { PATCHES };
        Operation {
            method: "patch",
            action: "patch",
            id: self.id("patch", suffix),
            about: self.about("partially update", suffix),
            parameters: parameters::PATCH,
            body: Some((type_names::PATCH.to_owned(), media)),
            answer: Some(name.to_owned()),
            codes: &[200, 201, 401],
            ..self.operation(gvk)
        }
    }

    fn delete(&self) -> Operation {
        Operation {
            method: "delete",
            action: "delete",
            id: self.id("delete", ""),
            about: format!("delete {}", article(&self.served.kind)),
            parameters: parameters::DELETE,
            body: Some((type_names::DELETE_OPTIONS.to_owned(), &[ANYTHING])),
            answer: Some(type_names::STATUS.to_owned()),
            codes: &[200, 202, 401],
            ..self.operation(self.served.gvk())
        }
    }

    fn delete_collection(&self) -> Operation {
        Operation {
            method: "delete",
            action: "deletecollection",
            id: self.id("deleteCollection", ""),
            about: format!("delete a collection of {}", self.served.kind),
            parameters: parameters::DELETE_COLLECTION,
            body: Some((type_names::DELETE_OPTIONS.to_owned(), &[ANYTHING])),
            answer: Some(type_names::STATUS.to_owned()),
            ..self.operation(self.served.gvk())
        }
    }

    /// Returns the parts that most operations have in common.
    fn operation(&self, gvk: Gvk) -> Operation {
        Operation {
            method: "",
            action: "",
            id: String::new(),
            about: String::new(),
            tag: tag(&self.served.group, &self.served.version),
            gvk,
            parameters: &[],
            body: None,
            answer: None,
            codes: &[200, 401],
            watches: false,
        }
    }

    fn about(&self, verb: &str, suffix: &str) -> String {
        if suffix.is_empty() {
            format!("{verb} the specified {}", self.served.kind)
        } else {
            format!("{verb} {} of the specified {}", suffix.to_lowercase(), self.served.kind)
        }
    }

    /// Returns the group and version as in `AppsV1`.
    fn group_version(&self) -> String {
        format!("{}{}", group_words(&self.served.group).concat(), title(&self.served.version))
    }

    /// Returns an id such as `readAppsV1NamespacedDeploymentScale`. That of `deletecollection` names the collection
    /// before the scope.
    fn id(&self, verb: &str, suffix: &str) -> String {
        let scope = if self.scope == Scope::Namespaced { "Namespaced" } else { "" };
        let (verb, collection) = match verb {
            "deleteCollection" => ("delete", "Collection"),
            verb => (verb, ""),
        };
        format!("{verb}{}{collection}{scope}{}{suffix}", self.group_version(), self.served.kind)
    }
}

/// Returns a tag such as `core_v1` or `rbacAuthorization_v1`.
fn tag(group: &str, version: &str) -> String {
    let words = group_words(group).concat();
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{}_{version}", letters.as_str())
}

/// Returns the words of a group's name, without Kubernetes' own domain: `Rbac`, `Authorization`.
fn group_words(group: &str) -> Vec<String> {
    match group.strip_suffix(".k8s.io").unwrap_or(group) {
        "" => vec!["Core".to_owned()],
        name => name.split(['.', '-']).map(title).collect(),
    }
}

fn title(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn article(kind: &str) -> String {
    format!("{} {kind}", if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" })
}
