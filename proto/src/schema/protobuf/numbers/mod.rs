//! Which number each field of each type has in protobuf.
//!
//! Corresponds to the generated.proto files of k8s.io/api. The tables are text: a type, then its fields in the order of
//! their numbers, which begin at 1. `_` is a number that no field has, `19=env` skips to 19, and `+VolumeSource` is an
//! embedded struct: a message of its own in protobuf, whose fields stand in the outer object in JSON.

mod access;
mod core;
mod devices;
mod machinery;
mod workloads;

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Field(&'static str),
    /// A struct of the same package.
    Embedded(&'static str),
}

pub type Numbers = BTreeMap<u64, Member>;

/// The numbers of a type, by its full name.
pub fn of(type_name: &str) -> Option<&'static Numbers> {
    static ALL: OnceLock<BTreeMap<String, Numbers>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let tables = [core::NUMBERS, workloads::NUMBERS, access::NUMBERS, devices::NUMBERS, machinery::NUMBERS];
        tables.into_iter().flat_map(read).collect()
    });
    all.get(type_name)
}

fn read(text: &'static str) -> Vec<(String, Numbers)> {
    let mut types: Vec<(String, Numbers)> = Vec::new();
    let (mut package, mut next) = ("", 1);
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name;
            continue;
        }
        let words = match line.split_once(':') {
            Some((name, words)) => {
                types.push((format!("{package}.{name}"), Numbers::new()));
                next = 1;
                words
            }
            None => line,
        };
        let Some((_, numbers)) = types.last_mut() else { continue };
        for word in words.split_whitespace() {
            let name = match word.split_once('=') {
                Some((number, name)) => {
                    next = number.parse().expect("a number stands before the equals sign");
                    name
                }
                None => word,
            };
            match (name, name.strip_prefix('+')) {
                ("_", _) => {}
                (_, Some(embedded)) => drop(numbers.insert(next, Member::Embedded(embedded))),
                (field, None) => drop(numbers.insert(next, Member::Field(field))),
            }
            next += 1;
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Shape, builtin};

    #[test]
    fn words_become_numbers() {
        let types = read("package p\nA: x _ y\n  9=z +B\n");
        let expected: Numbers =
            [(1, Member::Field("x")), (3, Member::Field("y")), (9, Member::Field("z")), (10, Member::Embedded("B"))]
                .into();
        assert_eq!(types, [("p.A".to_owned(), expected)]);
    }

    #[test]
    fn every_field_of_the_tables_exists_and_every_kind_has_a_table() {
        for (name, target) in builtin::all() {
            let (Some(numbers), Shape::Object(properties)) = (of(name), &target.schema().shape) else { continue };
            for member in numbers.values() {
                match member {
                    Member::Field(field) => assert!(properties.fields.contains_key(*field), "{name} has no {field}"),
                    Member::Embedded(embedded) => {
                        let package = name.rsplit_once('.').unwrap().0;
                        assert!(of(&format!("{package}.{embedded}")).is_some(), "{embedded} has no numbers");
                    }
                }
            }
        }
        for target in crate::resources::builtin().iter().flat_map(|row| &row.served) {
            assert!(of(&target.schema.name).is_some(), "{} has no numbers", target.schema.name);
        }
    }
}
