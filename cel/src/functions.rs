//! The table of all functions and operators with their overloads.
//!
//! Each library declares its functions in lines like `string.contains(string) bool`. Before the dot is the type of a
//! method's target, unless the line begins with `fn`. Corresponds to the declarations of cel-go and of
//! k8s.io/apiserver/pkg/cel/library.

use super::library::{self, Run};
use super::types::{self, Type};
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Clone, Debug)]
pub struct Overload {
    pub name: &'static str,
    pub is_member: bool,
    /// Types of the arguments, the target first.
    pub arguments: Vec<Type>,
    pub result: Type,
    /// Number of type parameters.
    pub params: usize,
    pub run: Run,
}

/// Returns the overloads of a function; none if it is unknown.
pub fn overloads(name: &str) -> &'static [Overload] {
    static TABLE: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| read_all(library::ALL, &[]));
    TABLE.get(name).map_or(&[], Vec::as_slice)
}

/// Reads the declarations of libraries; `words` are type names besides those of the language.
pub fn read_all(
    libraries: &[(Run, &'static str)],
    words: &[(&str, &'static str)],
) -> BTreeMap<&'static str, Vec<Overload>> {
    let mut table: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for (run, lines) in libraries {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let overload =
                overload(line, *run, words).unwrap_or_else(|| panic!("a declaration that nobody can read: {line}"));
            // One line declares all four comparisons.
            let names: &[&'static str] = match overload.name {
                "_#_" => &["_<_", "_<=_", "_>_", "_>=_"],
                _ => &[overload.name],
            };
            for name in names {
                table.entry(name).or_default().push(Overload { name, ..overload.clone() });
            }
        }
    }
    table
}

/// Reads a line such as `list(A).indexOf(A) int`, `quantity(string) quantity`, `_+_(int, int) int`.
fn overload(line: &'static str, run: Run, words: &[(&str, &'static str)]) -> Option<Overload> {
    let (signature, result) = halves(line)?;
    // The arguments are in the last brackets of the outermost level.
    let mut depth = 0;
    let mut opening = None;
    for (at, c) in signature.char_indices() {
        match c {
            '(' if depth == 0 => opening = Some(at),
            _ => {}
        }
        depth += i32::from(c == '(') - i32::from(c == ')');
    }
    let (head, arguments) = signature.split_at(opening?);
    let arguments = arguments.strip_prefix('(')?.strip_suffix(')')?;
    let (head, is_function) = head.strip_prefix("fn ").map_or((head, false), |head| (head, true));
    let split = head.rsplit_once('.').filter(|_| !is_function);
    let mut params = Vec::new();
    let mut types = Vec::new();
    let name = match split {
        Some((target, name)) => {
            types.push(read(target, words, &mut params)?);
            name
        }
        None => head,
    };
    for argument in split_arguments(arguments) {
        types.push(read(argument, words, &mut params)?);
    }
    let result = read(result, words, &mut params)?;
    Some(Overload { name, is_member: split.is_some(), arguments: types, result, params: params.len(), run })
}

/// Splits a line at the first space after a closing bracket.
fn halves(line: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (at, c) in line.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == ')' && depth == 0 && line[at + 1..].starts_with(' ') {
            return Some((&line[..=at], line[at + 1..].trim()));
        }
    }
    None
}

/// Splits at the commas outside brackets.
fn split_arguments(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut from) = (0, 0);
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == ',' && depth == 0 {
            parts.push(text[from..at].trim());
            from = at + 1;
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn read<'t>(text: &'t str, words: &[(&str, &'static str)], params: &mut Vec<&'t str>) -> Option<Type> {
    if let Some((name, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let inner: Option<Vec<Type>> =
            split_arguments(inner).into_iter().map(|part| read(part, words, params)).collect();
        return match (name, inner?.as_slice()) {
            ("list", [items]) => Some(Type::list(items.clone())),
            ("map", [keys, values]) => Some(Type::map(keys.clone(), values.clone())),
            ("optional", [inner]) => Some(Type::optional(inner.clone())),
            _ => None,
        };
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Type,
        "quantity" => Type::Opaque(types::QUANTITY),
        "url" => Type::Opaque(types::URL),
        "ip" => Type::Opaque(types::IP),
        "cidr" => Type::Opaque(types::CIDR),
        "format" => Type::Opaque(types::FORMAT),
        "semver" => Type::Opaque(types::SEMVER),
        "A" | "B" => {
            let known = params.iter().position(|known| *known == text);
            Type::Param(known.unwrap_or_else(|| {
                params.push(text);
                params.len() - 1
            }))
        }
        word => Type::Opaque(words.iter().find(|(known, _)| *known == word)?.1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_read() {
        let shown = |name: &str| -> Vec<String> {
            overloads(name)
                .iter()
                .map(|o| {
                    let arguments: Vec<String> = o.arguments.iter().map(Type::to_string).collect();
                    format!("{}({}) {}", if o.is_member { "." } else { "" }, arguments.join(", "), o.result)
                })
                .collect()
        };
        assert_eq!(shown("contains"), [".(string, string) bool"]);
        assert_eq!(shown("sets.contains"), ["(list(dyn), list(dyn)) bool"]);
        assert_eq!(shown("_?_:_"), ["(bool, dyn, dyn) dyn"]);
        assert_eq!(overloads("_?_:_")[0].params, 1);
        assert!(shown("nothing").is_empty());
    }
}
