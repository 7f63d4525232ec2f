//! `Unifier`: infers the types that are not written in an expression.

use super::types::Type;

/// Most parts of a type; a larger one becomes `Dyn`. This bounds types that double at every step.
const MAX_PARTS: usize = 200;

/// The type parameters and their inferred types.
#[derive(Default)]
pub struct Unifier {
    found: Vec<Option<Type>>,
    /// Changed parameters with their earlier types, to undo an overload that does not fit.
    trail: Vec<(usize, Option<Type>)>,
}

impl Unifier {
    pub fn fresh(&mut self) -> Type {
        Type::Param(self.fresh_block(1))
    }

    /// Adds `count` parameters, and returns the first one's index.
    pub fn fresh_block(&mut self, count: usize) -> usize {
        let first = self.found.len();
        self.found.resize(first + count, None);
        first
    }

    /// Replaces all parameters by their inferred types.
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

    /// Returns true if a value of one type is allowed where another is expected. Keeps the types inferred for that.
    pub fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        self.all_assignable(&[a], std::slice::from_ref(b))
    }

    pub fn all_assignable(&mut self, given: &[&Type], wanted: &[Type]) -> bool {
        let before = self.trail.len();
        let given: Vec<Type> = given.iter().map(|kind| self.resolve(kind)).collect();
        let fits = given.iter().zip(wanted).all(|(given, wanted)| {
            let wanted = self.resolve(wanted);
            // Uses the types that earlier arguments determined.
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

    /// Compares resolved types, in which a parameter has no type yet, unless this comparison infers it.
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
