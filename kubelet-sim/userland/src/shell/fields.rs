//! Makes fields of expanded pieces: splits them at IFS and expands globs.

use crate::pattern::glob::Glob;
use file_tree::actor::Actor;
use file_tree::mounts::FileTree;
use file_tree::place::join;

/// A piece of an expanded word.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Text {
        text: String,
        is_quoted: bool,
        /// True for the value of an unquoted expansion.
        is_split: bool,
    },
    /// Ends a field, as between the values of `"$@"`.
    Break,
}

/// A field: its characters, and whether each is quoted.
pub type Field = Vec<(char, bool)>;

const MAX_MATCHES: usize = 10_000;

/// Splits pieces into fields.
pub fn split(pieces: &[Piece], ifs: &str) -> Vec<Field> {
    let (mut fields, mut field, mut is_there) = (Vec::new(), Field::new(), false);
    // True behind a separator that is no blank: the next one makes an empty field.
    let mut end = |field: &mut Field, is_there: &mut bool| {
        if std::mem::take(is_there) {
            fields.push(std::mem::take(field));
        }
    };
    for piece in pieces {
        let (text, is_quoted, is_split) = match piece {
            Piece::Break => {
                end(&mut field, &mut is_there);
                continue;
            }
            Piece::Text { text, is_quoted, is_split } => (text, *is_quoted, *is_split),
        };
        is_there |= is_quoted;
        let mut after_blank = false;
        for next in text.chars() {
            if is_split && ifs.contains(next) {
                if next.is_whitespace() {
                    after_blank |= is_there;
                    end(&mut field, &mut is_there);
                } else {
                    // `a :b` has one separator, not two.
                    is_there |= !after_blank;
                    end(&mut field, &mut is_there);
                    after_blank = false;
                }
                continue;
            }
            after_blank = false;
            is_there = true;
            field.push((next, is_quoted));
        }
    }
    end(&mut field, &mut is_there);
    fields
}

/// Returns the characters of a field.
pub fn text(field: &Field) -> String {
    field.iter().map(|(next, _)| *next).collect()
}

/// Returns the names that a field's glob matches, sorted; the field itself when there are none.
pub fn matches(field: &Field, tree: &FileTree, actor: &Actor) -> Vec<String> {
    if Glob::of(field).is_literal() {
        return vec![text(field)];
    }
    let is_absolute = field.first().is_some_and(|(first, _)| *first == '/');
    let mut found = vec![if is_absolute { "/".to_owned() } else { String::new() }];
    let parts: Vec<&[(char, bool)]> = field.split(|(next, _)| *next == '/').filter(|part| !part.is_empty()).collect();
    let needs_folder = field.last().is_some_and(|(last, _)| *last == '/');
    for part in parts {
        let glob = Glob::of(part);
        let mut next = Vec::new();
        for folder in found {
            let below = |name: &str| match folder.is_empty() {
                true => name.to_owned(),
                false => join(&folder, name),
            };
            if glob.is_literal() {
                let path = below(&text(&part.to_vec()));
                if tree.metadata(actor, &path, false).is_ok() {
                    next.push(path);
                }
                continue;
            }
            let names = tree.read_folder(actor, if folder.is_empty() { "." } else { &folder }).unwrap_or_default();
            let is_visible = |name: &String| !name.starts_with('.') || glob.begins_with('.');
            let matched = names.iter().filter(|name| is_visible(name) && glob.matches(name));
            next.extend(matched.map(|name| below(name)));
        }
        next.truncate(MAX_MATCHES);
        found = next;
    }
    if needs_folder {
        found.retain(|path| tree.is_folder(actor, path));
        found.iter_mut().for_each(|path| path.push('/'));
    }
    if found.is_empty() { vec![text(field)] } else { found }
}
