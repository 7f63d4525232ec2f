//! Reads files of stages: documents separated by `---`, and lists.

use crate::problem::Problem;
use crate::reader::Reader;
use crate::stage::Stage;
use proto::serializer::yaml;
use serde_json::Value;

/// Limit on the stages of one file.
const MAX_STAGES: usize = 1_000;

/// A mistake, and the stage that it is in: its name, or its place in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{stage}: {problem}")]
pub struct FileProblem {
    pub stage: String,
    pub problem: Problem,
}

/// Reads the stages of a file, or every mistake in it.
pub fn parse(text: &str) -> Result<Vec<Stage>, Vec<FileProblem>> {
    let (mut stages, mut problems) = (Vec::new(), Vec::new());
    for (index, document) in documents(text).into_iter().enumerate() {
        let place = format!("document {}", index + 1);
        let refused = |problem| FileProblem { stage: place.clone(), problem };
        match yaml::parse(document.as_bytes()) {
            Err(why) => problems.push(refused(Problem::new("", why))),
            Ok(parsed) => {
                problems.extend(parsed.duplicates.into_iter().map(|why| refused(Problem::new("", why))));
                if !parsed.value.is_null() {
                    read(&parsed.value, &place, &mut stages, &mut problems);
                }
            }
        }
    }
    let mut names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    names.sort_unstable();
    for pair in names.windows(2).filter(|pair| pair[0] == pair[1]) {
        let problem = Problem::new("metadata.name", "another stage of the file has this name");
        problems.push(FileProblem { stage: format!("stage {:?}", pair[0]), problem });
    }
    if stages.len() > MAX_STAGES {
        let problem = Problem::new("", format!("a file has at most {MAX_STAGES} stages"));
        problems.push(FileProblem { stage: "file".to_owned(), problem });
    }
    if problems.is_empty() { Ok(stages) } else { Err(problems) }
}

/// Reads a stage or a list of stages.
fn read(document: &Value, place: &str, stages: &mut Vec<Stage>, problems: &mut Vec<FileProblem>) {
    if matches!(document["kind"].as_str(), Some("List" | "StageList")) {
        let mut reader = Reader::default();
        if let Some(list) = reader.object(document, "", &["apiVersion", "kind", "metadata", "items"]) {
            for (item, path) in reader.items(&list, "items") {
                read(item, &format!("{place}, {path}"), stages, problems);
            }
        }
        let refused = |problem| FileProblem { stage: place.to_owned(), problem };
        problems.extend(reader.problems.into_iter().map(refused));
        return;
    }
    match Stage::read(document) {
        Ok(stage) => stages.push(stage),
        Err(found) => {
            let stage = match document["metadata"]["name"].as_str() {
                Some(name) => format!("stage {name:?}"),
                None => place.to_owned(),
            };
            problems.extend(found.into_iter().map(|problem| FileProblem { stage: stage.clone(), problem }));
        }
    }
}

/// Splits a stream of YAML at the lines that begin a document.
pub fn documents(text: &str) -> Vec<&str> {
    let (mut documents, mut start, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            documents.push(&text[start..at]);
            start = at;
        }
        at += line.len();
    }
    documents.push(&text[start..]);
    documents.retain(|document| {
        document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#') && line.trim_end() != "---")
    });
    documents
}
