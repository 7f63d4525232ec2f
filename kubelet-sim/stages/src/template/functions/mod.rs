//! The functions of templates, in one table: Go's own, KWOK's, and the pure ones of Sprig.

mod logic;
mod kwok;
mod numbers;
mod texts;
mod collections;

use crate::template::facts::Facts;
use crate::template::value::Value;

/// Limit on what a function makes from nothing: the items of `until`, the characters of `repeat` and `indent`.
const MAX_MADE: usize = 100_000;

/// A function: its name, how many arguments it takes, and what it computes.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub name: &'static str,
    min_arguments: usize,
    /// `None` for any number.
    max_arguments: Option<usize>,
    pub body: Body,
}

pub type Compute = fn(&[Value], &Facts) -> Result<Value, String>;

#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// `and` and `or` compute no argument behind the one that decides.
    And,
    Or,
    Plain(Compute),
}

impl Function {
    /// Checks the number of arguments.
    pub fn check(&self, given: usize) -> Result<(), String> {
        let (min, max) = (self.min_arguments, self.max_arguments);
        let wanted = match max {
            Some(max) if min == max => min.to_string(),
            _ => format!("at least {min}"),
        };
        if given < min || max.is_some_and(|max| given > max) {
            return Err(format!("wrong number of args for {}: want {wanted} got {given}", self.name));
        }
        Ok(())
    }
}

/// A function with a fixed number of arguments.
const fn fixed(name: &'static str, arguments: usize, compute: Compute) -> Function {
    Function { name, min_arguments: arguments, max_arguments: Some(arguments), body: Body::Plain(compute) }
}

/// A function with any number of arguments from a minimum.
const fn many(name: &'static str, min_arguments: usize, compute: Compute) -> Function {
    Function { name, min_arguments, max_arguments: None, body: Body::Plain(compute) }
}

const DECIDING: &[Function] = &[
    Function { name: "and", min_arguments: 1, max_arguments: None, body: Body::And },
    Function { name: "or", min_arguments: 1, max_arguments: None, body: Body::Or },
];

pub fn find(name: &str) -> Option<Function> {
    let tables =
        [DECIDING, logic::FUNCTIONS, kwok::FUNCTIONS, numbers::FUNCTIONS, texts::FUNCTIONS, collections::FUNCTIONS];
    tables.into_iter().flatten().find(|function| function.name == name).copied()
}
