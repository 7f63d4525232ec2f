//! Reads the files of `--node-template`: documents separated by `---`, and lists.

use crate::documents;
use crate::template::NodeTemplate;
use component_base::options::OptionsError;
use serde_json::Value;
use std::path::PathBuf;

const FLAG: &str = "node-template";
/// Limit on the templates of a fleet.
const MAX_TEMPLATES: usize = 1_000;
/// Most nodes of a fleet, as of `--nodes`.
const MAX_NODES: u64 = 60_000;

/// Reads the templates of files. The error names every mistake, each on a line of its own.
pub fn read(paths: &[PathBuf]) -> Result<Vec<NodeTemplate>, OptionsError> {
    let mut templates = Vec::new();
    let mut problems = documents::read_files(FLAG, paths, |document, place| add(document, place, &mut templates))?;
    if problems.is_empty() {
        problems.extend(conflicts(&templates));
    }
    match problems.is_empty() {
        true => Ok(templates),
        false => Err(OptionsError::Invalid { flag: FLAG, message: problems.join("\n") }),
    }
}

/// Reads the templates of one file, and its mistakes.
pub fn parse(text: &str) -> (Vec<NodeTemplate>, Vec<String>) {
    let mut templates = Vec::new();
    let problems = documents::parse(text, |document, place| add(document, place, &mut templates));
    (templates, problems)
}

fn add(document: &Value, place: &str, templates: &mut Vec<NodeTemplate>) -> Vec<String> {
    match NodeTemplate::read(document) {
        Ok(template) => {
            templates.push(template);
            Vec::new()
        }
        Err(found) => {
            let of = match document["name"].as_str() {
                Some(name) => format!("template {name:?}"),
                None => place.to_owned(),
            };
            found.into_iter().map(|problem| format!("{of}: {problem}")).collect()
        }
    }
}

/// Returns why templates, each of them right, cannot be in one fleet.
fn conflicts(templates: &[NodeTemplate]) -> Vec<String> {
    let mut problems = Vec::new();
    if templates.len() > MAX_TEMPLATES {
        problems.push(format!("a fleet has at most {MAX_TEMPLATES} templates"));
    }
    for (index, template) in templates.iter().enumerate() {
        if templates[..index].iter().any(|other| other.name == template.name) {
            problems.push(format!("template {:?}: name: another template has it too", template.name));
        }
    }
    let nodes: u64 = templates.iter().map(|template| u64::from(template.count)).sum();
    if nodes > MAX_NODES {
        problems.push(format!("a fleet has at most {MAX_NODES} nodes, and the templates have {nodes}"));
        return problems;
    }
    let of_template = |template: &NodeTemplate| {
        let named = |place| (template.name_of(place), template.name.clone());
        (0..template.count).map(named).collect::<Vec<_>>()
    };
    let mut names: Vec<(String, String)> = templates.iter().flat_map(of_template).collect();
    names.sort();
    for pair in names.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let [(name, _), (_, template)] = pair else { continue };
        problems.push(format!("template {template:?}: nodeName: another node is named {name:?}"));
    }
    problems
}
