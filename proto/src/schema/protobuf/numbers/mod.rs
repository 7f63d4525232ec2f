//! The numbers of fields in protobuf, by type.
//!
//! Corresponds to the generated.proto files of k8s.io/api. The tables are text: a type, or several with the same
//! fields, then the fields in the order of their numbers, which begin at 1. `_` is a number without a field, and
//! `19=env` skips to 19. `+VolumeSource` is an embedded struct: a message of its own in protobuf, but part of the outer
//! object in JSON.

mod access;
mod core;
mod devices;
mod machinery;
mod workloads;

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Field(&'static str),
    /// An embedded struct of the same package.
    Embedded(&'static str),
}

pub type Numbers = BTreeMap<u64, Member>;

/// Returns the numbers of a type by its full name.
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
    // The types of the last line that names any begin at `first`.
    let (mut package, mut first, mut next) = ("", 0, 1);
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name;
            continue;
        }
        let words = match line.split_once(':') {
            Some((names, words)) => {
                first = types.len();
                types.extend(names.split_whitespace().map(|name| (format!("{package}.{name}"), Numbers::new())));
                next = 1;
                words
            }
            None => line,
        };
        for word in words.split_whitespace() {
            let name = match word.split_once('=') {
                Some((number, name)) => {
                    next = number.parse().expect("a number stands before the equals sign");
                    name
                }
                None => word,
            };
            let member = name.strip_prefix('+').map_or(Member::Field(name), Member::Embedded);
            for (_, numbers) in types[first..].iter_mut().filter(|_| name != "_") {
                numbers.insert(next, member);
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
        let types = read("package p\nA C: x _ y\n  9=z +B\nD: v\n");
        let expected: Numbers =
            [(1, Member::Field("x")), (3, Member::Field("y")), (9, Member::Field("z")), (10, Member::Embedded("B"))]
                .into();
        let last = Numbers::from([(1, Member::Field("v"))]);
        assert_eq!(
            types,
            [("p.A".to_owned(), expected.clone()), ("p.C".to_owned(), expected), ("p.D".to_owned(), last)]
        );
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
