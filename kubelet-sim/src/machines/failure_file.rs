//! Reads the files of `--failure-model`: documents separated by `---`, and lists.

use crate::documents;
use crate::machines::failure_model::FailureModel;
use component_base::options::OptionsError;
use serde_json::Value;
use std::path::PathBuf;

const FLAG: &str = "failure-model";

/// Reads the models of files. The error names every mistake, each on a line of its own.
pub fn read(paths: &[PathBuf]) -> Result<Vec<FailureModel>, OptionsError> {
    let mut models: Vec<FailureModel> = Vec::new();
    let add = |value: &Value, place: &str| match FailureModel::read(value, place) {
        Ok(model) if models.iter().any(|other| other.name == model.name) => {
            vec![format!("{place}.name: another model has it too")]
        }
        Ok(model) => {
            models.push(model);
            Vec::new()
        }
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    };
    let problems = documents::read_files(FLAG, paths, add)?;
    match problems.is_empty() {
        true => Ok(models),
        false => Err(OptionsError::Invalid { flag: FLAG, message: problems.join("\n") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_a_file_have_names_of_their_own_and_every_mistake_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("failures.yaml");
        let read_text = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(std::slice::from_ref(&path)).map_err(|error| error.to_string())
        };
        let two =
            "name: a\nfailure: crash\nmtbf: 1h\nmttr: 1m\n---\n- {name: b, failure: partition, after: 1m, for: 1m}\n";
        assert_eq!(read_text(two).unwrap().len(), 2);
        let refused = read_text(
            "{name: a, failure: crash, mtbf: 1h, mttr: 1m}\n---\n[{name: a, failure: crash, mtbf: 1h, mttr: 1m}, {}]",
        )
        .unwrap_err();
        for expected in ["document 2[0].name: another model has it too", "document 2[1].name: required"] {
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
