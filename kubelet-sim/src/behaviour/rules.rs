//! Rules: the words of stories for the pods of namespaces, with labels, or with images.
//!
//! They come from the ConfigMap `orrery-behaviour` in `kube-system`. Each member of its data is a list of rules. A rule
//! acts as annotations do that the pods do not have: a word of the pod itself goes before, and so does an earlier rule.

use crate::documents::members;
use pod_life::story::errors;
use proto::kinds::api::core::v1::{ConfigMap, Container, Pod, PodSpec};
use serde_json::{Map, Value};
use stages::problem::Problem;
use std::collections::BTreeMap;
use std::sync::Arc;
use userland::pattern::glob::Glob;

pub const NAMESPACE: &str = "kube-system";
pub const NAME: &str = "orrery-behaviour";

/// Limit on the rules of the ConfigMap: each is compared with each pod.
const MAX_RULES: usize = 500;
const FIELDS: [&str; 4] = ["namespaces", "labels", "images", "words"];

/// All rules, the first one first.
#[derive(Debug, Default)]
pub struct Rules(Vec<Rule>);

/// Words for the pods, or the containers, that match all of its selectors. A selector that is absent matches.
#[derive(Debug)]
struct Rule {
    namespaces: Option<Vec<Glob>>,
    labels: BTreeMap<String, Glob>,
    images: Option<Vec<Glob>>,
    words: BTreeMap<String, String>,
}

impl Rules {
    /// Reads the ConfigMap. A rule with a mistake is left out, and every mistake is returned with its path.
    pub fn read(map: &ConfigMap) -> (Self, Vec<Problem>) {
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        for member in members(map, |key| format!("data.{key}"), &mut problems) {
            let path = member.path;
            match member.document {
                Value::Null => {}
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        match Rule::read(item, &format!("{path}[{index}]")) {
                            Ok(rule) => rules.push(rule),
                            Err(found) => problems.extend(found),
                        }
                    }
                }
                _ => problems.push(Problem::new(path, "must be a list of rules")),
            }
        }
        if map.binary_data.iter().flatten().next().is_some() {
            problems.push(Problem::new("binaryData", "must be empty: rules are text"));
        }
        if rules.len() > MAX_RULES {
            problems.push(Problem::new("data", format!("has {} rules, of which {MAX_RULES} count", rules.len())));
            rules.truncate(MAX_RULES);
        }
        (Self(rules), problems)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pod with the words that the rules give it, as annotations.
    pub fn applied(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let Some(spec) = &pod.spec else { return pod.clone() };
        let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let own = annotations.len();
        for rule in self.0.iter().filter(|rule| rule.matches(pod)) {
            rule.add_to(&mut annotations, spec);
        }
        if annotations.len() == own {
            return pod.clone();
        }
        let mut pod = Pod::clone(pod);
        pod.metadata.annotations = Some(annotations);
        Arc::new(pod)
    }
}

impl Rule {
    fn read(item: &Value, path: &str) -> Result<Self, Vec<Problem>> {
        let Value::Object(members) = item else { return Err(vec![Problem::new(path, "must be an object")]) };
        let mut problems = Vec::new();
        for name in members.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
            problems.push(Problem::new(format!("{path}.{name}"), "unknown field"));
        }
        let rule = Self {
            namespaces: globs(members, "namespaces", path, &mut problems),
            labels: texts(members, "labels", path, &mut problems)
                .into_iter()
                .map(|(key, value)| (key, Glob::parse(&value)))
                .collect(),
            images: globs(members, "images", path, &mut problems),
            words: texts(members, "words", path, &mut problems),
        };
        if !members.contains_key("words") {
            problems.push(Problem::new(format!("{path}.words"), "required"));
        }
        for (word, text) in &rule.words {
            if let Err(why) = errors::check(word, text) {
                problems.push(Problem::new(format!("{path}.words.{word}"), why));
            }
        }
        if problems.is_empty() { Ok(rule) } else { Err(problems) }
    }

    fn matches(&self, pod: &Pod) -> bool {
        let metadata = &pod.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key));
        is_one_of(self.namespaces.as_deref(), namespace)
            && self.labels.iter().all(|(key, wanted)| label(key).is_some_and(|value| wanted.matches(value)))
    }

    fn add_to(&self, annotations: &mut BTreeMap<String, String>, spec: &PodSpec) {
        let all = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let has_image =
            |container: &&Container| is_one_of(self.images.as_deref(), container.image.as_deref().unwrap_or_default());
        for (word, text) in &self.words {
            let of_pod = format!("orrery.dev/{word}");
            let mut keys = Vec::new();
            // Images are pulled for the pod, so a rule about the image of one container is about all of them.
            if self.images.is_none() || (word.starts_with("pull-") && all().any(|container| has_image(&container))) {
                keys.push(of_pod);
            } else {
                let is_said = |container: &Container| {
                    let is_app = spec.containers.iter().any(|app| app.name == container.name);
                    is_app && annotations.contains_key(&of_pod)
                };
                let containers = all().filter(has_image).filter(|container| !is_said(container));
                keys.extend(containers.map(|container| format!("{word}.orrery.dev/{}", container.name)));
            }
            // A word about a probe that no container has is no mistake of the pod.
            keys.retain(|key| errors::find(spec, &BTreeMap::from([(key.clone(), text.clone())])).is_empty());
            for key in keys {
                annotations.entry(key).or_insert_with(|| text.clone());
            }
        }
    }
}

fn is_one_of(globs: Option<&[Glob]>, text: &str) -> bool {
    globs.is_none_or(|globs| globs.iter().any(|glob| glob.matches(text)))
}

/// Reads a list of globs; `None` if the field is absent.
fn globs(members: &Map<String, Value>, name: &str, path: &str, problems: &mut Vec<Problem>) -> Option<Vec<Glob>> {
    let path = format!("{path}.{name}");
    let items = match members.get(name)? {
        Value::Array(items) if !items.is_empty() => items,
        _ => {
            problems.push(Problem::new(path, "must be a list that is not empty"));
            return None;
        }
    };
    let mut globs = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match item.as_str() {
            Some(text) => globs.push(Glob::parse(text)),
            None => problems.push(Problem::new(format!("{path}[{index}]"), "must be a string")),
        }
    }
    Some(globs)
}

/// Reads an object of texts.
fn texts(
    members: &Map<String, Value>,
    name: &str,
    path: &str,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, String> {
    let path = format!("{path}.{name}");
    let fields = match members.get(name) {
        None => return BTreeMap::new(),
        Some(Value::Object(fields)) if !fields.is_empty() => fields,
        Some(_) => {
            problems.push(Problem::new(path, "must be an object that is not empty"));
            return BTreeMap::new();
        }
    };
    let mut texts = BTreeMap::new();
    for (key, value) in fields {
        match value.as_str() {
            Some(text) => drop(texts.insert(key.clone(), text.to_owned())),
            None => problems.push(Problem::new(format!("{path}.{key}"), "must be a string: put it in quotes")),
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Kind;
    use serde_json::json;

    fn read(rules: &str) -> (Rules, Vec<String>) {
        let map = ConfigMap::decode_value(json!({"data": {"rules": rules}})).unwrap();
        let (rules, problems) = Rules::read(&map);
        (rules, problems.iter().map(ToString::to_string).collect())
    }

    fn pod(namespace: &str, annotations: Value) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"namespace": namespace, "labels": {"app": "shop", "tier": "web-1"}, "annotations": annotations},
            "spec": {
                "containers": [
                    {"name": "web", "image": "registry.example/nginx:1", "readinessProbe": {}},
                    {"name": "log", "image": "busybox"},
                ],
                "initContainers": [{"name": "init", "image": "busybox"}],
            },
        });
        Arc::new(Pod::decode_value(pod).unwrap())
    }

    fn words(rules: &str, namespace: &str, annotations: Value) -> Value {
        let (rules, problems) = read(rules);
        assert_eq!(problems, Vec::<String>::new());
        json!(rules.applied(&pod(namespace, annotations)).metadata.annotations)
    }

    #[test]
    fn rules_select_pods_and_containers() {
        let cases = [
            ("[{words: {run-for: 5s}}]", json!({"orrery.dev/run-for": "5s"})),
            ("[{namespaces: ['sh?p', x], words: {run-for: 5s}}]", json!({"orrery.dev/run-for": "5s"})),
            ("[{namespaces: ['team-*'], words: {run-for: 5s}}]", json!({})),
            ("[{labels: {app: shop, tier: 'web-*'}, words: {run-for: 5s}}]", json!({"orrery.dev/run-for": "5s"})),
            ("[{labels: {app: shop, none: '*'}, words: {run-for: 5s}}]", json!({})),
            (
                "[{images: [busybox*], words: {run-for: 5s}}]",
                json!({"run-for.orrery.dev/log": "5s", "run-for.orrery.dev/init": "5s"}),
            ),
            ("[{images: ['*/nginx:*'], words: {pull-error: gone}}]", json!({"orrery.dev/pull-error": "gone"})),
            ("[{images: [redis], words: {pull-error: gone, run-for: 5s}}]", json!({})),
            ("[{words: {readiness: fail, liveness: fail}}]", json!({"orrery.dev/readiness": "fail"})),
            ("[{images: ['*'], words: {readiness: fail}}]", json!({"readiness.orrery.dev/web": "fail"})),
        ];
        for (rules, expected) in cases {
            assert_eq!(words(rules, "shop", json!({})), expected, "{rules}");
        }
    }

    #[test]
    fn the_pods_own_word_goes_before_and_the_first_rule_before_the_second() {
        let two = "[{words: {run-for: 5s}}, {words: {run-for: 6s, exit-code: '1'}}]";
        assert_eq!(words(two, "shop", json!({})), json!({"orrery.dev/run-for": "5s", "orrery.dev/exit-code": "1"}));
        let own = json!({"orrery.dev/run-for": "9s"});
        let mut expected = own.clone();
        expected["orrery.dev/exit-code"] = json!("1");
        assert_eq!(words(two, "shop", own.clone()), expected);
        // A word for one container does not go before the pod's own, which is not about init containers.
        let by_image = "[{images: [busybox], words: {run-for: 5s}}]";
        assert_eq!(words(by_image, "shop", own), json!({"orrery.dev/run-for": "9s", "run-for.orrery.dev/init": "5s"}));
    }

    #[test]
    fn every_mistake_has_its_path_and_the_other_rules_count() {
        let (rules, problems) = read(
            "[{namespace: [a], words: {livenes: fail, run-for: 5, exit-code: one}}, 7, {images: [], labels: {a: 1}}, \
             {words: {run-for: 5s}}]",
        );
        let expected = [
            "data.rules[0].namespace: unknown field",
            "data.rules[0].words.run-for: must be a string: put it in quotes",
            "data.rules[0].words.exit-code: \"one\" is no list of exit codes such as \"1,1,0\"",
            "data.rules[0].words.livenes: no word of a story",
            "data.rules[1]: must be an object",
            "data.rules[2].labels.a: must be a string: put it in quotes",
            "data.rules[2].images: must be a list that is not empty",
            "data.rules[2].words: required",
        ];
        assert_eq!(problems, expected);
        let pod = rules.applied(&pod("shop", json!({})));
        assert_eq!(json!(pod.metadata.annotations), json!({"orrery.dev/run-for": "5s"}));
        assert_eq!(read("words: {}").1, ["data.rules: must be a list of rules"]);
        assert!(read("a: b: c").1[0].starts_with("data.rules: "));
        assert!(read("").0.is_empty());
    }
}
