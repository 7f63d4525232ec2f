//! Which types the checker has found for those that nobody wrote.

use super::types::Type;

/// A type of more parts counts as any: no expression needs it, and types that double at every step stay small.
const MAX_PARTS: usize = 200;

/// The types that stand for others, and what they stand for.
#[derive(Default)]
pub struct Unifier {
    found: Vec<Option<Type>>,
    /// What to undo when an overload does not fit: which was changed, and what it was.
    trail: Vec<(usize, Option<Type>)>,
}

impl Unifier {
    pub fn fresh(&mut self) -> Type {
        Type::Param(self.fresh_block(1))
    }

    /// The first of so many.
    pub fn fresh_block(&mut self, count: usize) -> usize {
        let first = self.found.len();
        self.found.resize(first + count, None);
        first
    }

    /// With everything put in that has been found.
    pub fn resolve(&self, kind: &Type) -> Type {
        self.resolve_within(kind, &mut MAX_PARTS.clone()).unwrap_or(Type::Dyn)
    }

    fn resolve_within(&self, kind: &Type, parts: &mut usize) -> Option<Type> {
        *parts = parts.checked_sub(1)?;
        Some(match kind {
            Type::Param(index) => match &self.found[*index] {
                Some(found) => self.resolve_within(found, parts)?,
                None => kind.clone(),
            },
            Type::List(items) => Type::list(self.resolve_within(items, parts)?),
            Type::Map(keys, values) => {
                Type::map(self.resolve_within(keys, parts)?, self.resolve_within(values, parts)?)
            }
            Type::Optional(inner) => Type::optional(self.resolve_within(inner, parts)?),
            other => other.clone(),
        })
    }

    /// Whether a value of one type may stand where another is wanted; what had to be found for that stays found.
    pub fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        self.all_assignable(&[a], std::slice::from_ref(b))
    }

    pub fn all_assignable(&mut self, given: &[&Type], wanted: &[Type]) -> bool {
        let before = self.trail.len();
        let given: Vec<Type> = given.iter().map(|kind| self.resolve(kind)).collect();
        let fits = given.iter().zip(wanted).all(|(given, wanted)| {
            let wanted = self.resolve(wanted);
            // What an earlier argument told is put in.
            let given = self.resolve(given);
            self.fits(&given, &wanted)
        });
        while !fits && self.trail.len() > before {
            if let Some((index, old)) = self.trail.pop() {
                self.found[index] = old;
            }
        }
        if fits {
            self.trail.truncate(before);
        }
        fits
    }

    fn bind(&mut self, index: usize, kind: &Type) {
        self.trail.push((index, self.found[index].replace(kind.clone())));
    }

    /// Both are resolved, so that a parameter among them stands for nothing yet, unless this very comparison found it.
    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        match (a, b) {
            (Type::Param(a), Type::Param(b)) if a == b => true,
            (_, Type::Param(index)) => self.fits_param(a, *index),
            (Type::Param(index), _) => self.fits_param(b, *index),
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(a, x), Type::Map(b, y)) => self.fits(a, b) && self.fits(x, y),
            _ => a == b,
        }
    }

    fn fits_param(&mut self, kind: &Type, index: usize) -> bool {
        if let Some(known) = self.found[index].clone() {
            let fits = self.fits(kind, &known);
            if fits && *kind == Type::Dyn {
                self.bind(index, &Type::Dyn);
            }
            return fits;
        }
        if mentions(kind, index) {
            return false;
        }
        self.bind(index, kind);
        true
    }
}

fn mentions(kind: &Type, index: usize) -> bool {
    match kind {
        Type::Param(own) => *own == index,
        Type::List(inner) | Type::Optional(inner) => mentions(inner, index),
        Type::Map(keys, values) => mentions(keys, index) || mentions(values, index),
        _ => false,
    }
}
