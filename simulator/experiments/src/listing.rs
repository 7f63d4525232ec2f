//! Objects in the output of `kubectl get … -o yaml` or `-o json`: a List, or one object.

use crate::files::{self, Files};
use crate::problem::Problem;
use proto::Kind;
use proto::serializer::yaml;
use serde_json::Value;

/// Reads the objects of one kind from a file. `place` is the path of the field that names the file.
pub fn read<K: Kind>(file: &str, files: &dyn Files, place: &str) -> Result<Vec<K>, Vec<Problem>> {
    let text = files::read(files, file, place)?;
    let parsed = yaml::parse(text.as_bytes()).map_err(|why| vec![Problem::new(file, why)])?;
    let items = match parsed.value {
        Value::Object(mut list) if list.contains_key("items") => match list.remove("items") {
            Some(Value::Array(items)) => items,
            _ => return Err(vec![Problem::new(format!("{file}: items"), "must be of type array")]),
        },
        one => vec![one],
    };
    let (mut objects, mut problems) = (Vec::with_capacity(items.len()), Vec::new());
    for (index, item) in items.into_iter().enumerate() {
        let place = format!("{file}: items[{index}]");
        if item["kind"] != K::KIND {
            problems.push(Problem::new(place, format!("is a {}, want a {}", item["kind"], K::KIND)));
            continue;
        }
        match K::decode_value(item) {
            Ok(object) => objects.push(object),
            Err(error) => problems.push(Problem::new(place, error.to_string())),
        }
    }
    if problems.is_empty() { Ok(objects) } else { Err(problems) }
}
