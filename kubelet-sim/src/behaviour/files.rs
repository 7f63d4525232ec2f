//! Reads the files of `--stages`.

use component_base::options::{self, OptionsError};
use stages::document;
use stages::stage::Stage;
use std::fs;
use std::path::{Path, PathBuf};

const FLAG: &str = "stages";

/// Reads the stages of files, and of the `.yaml`, `.yml` and `.json` files of folders. The error names every mistake.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Stage>, OptionsError> {
    let (mut found, mut problems): (Vec<Stage>, Vec<String>) = (Vec::new(), Vec::new());
    for path in files(paths)? {
        let text = options::read_file(FLAG, &path)?;
        match document::parse(&text) {
            Ok(stages) => {
                for stage in stages {
                    if found.iter().any(|other| other.name == stage.name) {
                        problems.push(format!("{}: stage {:?}: another file has it too", path.display(), stage.name));
                    }
                    found.push(stage);
                }
            }
            Err(refused) => problems.extend(refused.iter().map(|problem| format!("{}: {problem}", path.display()))),
        }
    }
    match problems.is_empty() {
        true => Ok(found),
        false => Err(OptionsError::Invalid { flag: FLAG, message: problems.join("; ") }),
    }
}

/// Returns the files that are meant, those of a folder in the order of their names.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, OptionsError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let unreadable = |source| OptionsError::Unreadable { flag: FLAG, path: path.clone(), source };
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            inside.push(entry.map_err(unreadable)?.path());
        }
        inside.retain(|path| path.is_file() && has_known_ending(path));
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

fn has_known_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, next: &str) -> String {
        format!(
            "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: {name}}}\n\
             spec: {{resourceRef: {{kind: Pod}}, selector: {{}}, next: {next}}}\n"
        )
    }

    #[test]
    fn folders_are_read_in_order_and_mistakes_name_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("b.yaml"), stage("b", "{}")).unwrap();
        fs::write(path("a.yml"), stage("a", "{}")).unwrap();
        fs::write(path("README.md"), "no stage").unwrap();
        let names = |stages: Vec<Stage>| stages.into_iter().map(|stage| stage.name).collect::<Vec<_>>();
        let all = [folder.path().to_owned()];
        assert_eq!(names(read(&all).unwrap()), ["a", "b"]);

        fs::write(path("c.json"), stage("a", "{foo: 1}")).unwrap();
        fs::write(path("d.yaml"), stage("b", "{}")).unwrap();
        let place = format!("{}/", folder.path().display());
        let message = read(&all).unwrap_err().to_string().replace(&place, "");
        let expected = "--stages: c.json: stage \"a\": spec.next.foo: unknown field; \
                        d.yaml: stage \"b\": another file has it too";
        assert_eq!(message, expected);
        assert!(read(&[path("absent")]).unwrap_err().to_string().starts_with("--stages: "));
    }
}
