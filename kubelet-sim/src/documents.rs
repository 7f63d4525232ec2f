//! Reads files of YAML documents, separated by `---`, each of which may be a list, and ConfigMaps whose members are
//! documents.

use component_base::duration::parse_duration;
use component_base::options::{self, OptionsError};
use proto::kinds::api::core::v1::ConfigMap;
use proto::serializer::yaml;
use serde_json::Value;
use stages::document::documents;
use stages::problem::Problem;
use stages::reader::{Fields, Reader};
use std::path::PathBuf;
use std::time::Duration;

/// Calls `read` with every item of the text and its place, and returns all mistakes: those of YAML, and those of items.
pub fn parse(text: &str, mut read: impl FnMut(&Value, &str) -> Vec<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, document) in documents(text).into_iter().enumerate() {
        let place = format!("document {}", index + 1);
        match yaml::parse(document.as_bytes()) {
            Err(why) => problems.push(format!("{place}: {why}")),
            Ok(parsed) => {
                problems.extend(parsed.duplicates.into_iter().map(|why| format!("{place}: {why}")));
                match &parsed.value {
                    Value::Null => {}
                    Value::Array(items) => {
                        for (index, item) in items.iter().enumerate() {
                            problems.extend(read(item, &format!("{place}[{index}]")));
                        }
                    }
                    one => problems.extend(read(one, &place)),
                }
            }
        }
    }
    problems
}

/// A member of a ConfigMap's data.
pub struct Member<'a> {
    pub key: &'a str,
    pub path: String,
    pub document: Value,
}

/// Parses the members of a ConfigMap's data. Those that are no YAML are left out and reported; `path` names a member.
pub fn members<'a>(map: &'a ConfigMap, path: impl Fn(&str) -> String, problems: &mut Vec<Problem>) -> Vec<Member<'a>> {
    let mut members = Vec::new();
    for (key, text) in map.data.iter().flatten() {
        let path = path(key);
        match yaml::parse(text.as_bytes()) {
            Err(why) => problems.push(Problem::new(path, why)),
            Ok(parsed) => {
                problems.extend(parsed.duplicates.into_iter().map(|why| Problem::new(path.as_str(), why)));
                members.push(Member { key, path, document: parsed.value });
            }
        }
    }
    members
}

/// Parses the files of a flag. The mistakes begin with the path of their file; a file that cannot be read is an error.
pub fn read_files(
    flag: &'static str,
    paths: &[PathBuf],
    mut read: impl FnMut(&Value, &str) -> Vec<String>,
) -> Result<Vec<String>, OptionsError> {
    let mut problems = Vec::new();
    for path in paths {
        let text = options::read_file(flag, path)?;
        let found = parse(&text, &mut read);
        problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", path.display())));
    }
    Ok(problems)
}

/// Reads a duration such as `1m30s`.
pub fn duration(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<Duration> {
    let parsed = parse_duration(reader.text(fields, name)?);
    if parsed.is_err() {
        reader.report(fields.path_of(name), "must be a duration, such as 1m30s");
    }
    parsed.ok()
}
