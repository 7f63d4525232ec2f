//! The tree of a query.

use crate::query::functions::Function;
use crate::query::values::Operator;
use serde_json::Value;

#[derive(Clone, Debug)]
pub enum Filter {
    Identity,
    /// `..`: the value and everything in it.
    Descend,
    Literal(Value),
    /// `BASE[KEY]`, which is also `BASE.key`.
    Index(Box<Filter>, Box<Filter>),
    /// `BASE[FROM:TO]`
    Slice(Box<Filter>, Option<Box<Filter>>, Option<Box<Filter>>),
    /// `BASE[]`
    Iterate(Box<Filter>),
    /// `BASE?`: no values instead of an error.
    Try(Box<Filter>),
    Pipe(Box<Filter>, Box<Filter>),
    Comma(Box<Filter>, Box<Filter>),
    Alternative(Box<Filter>, Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Compare(Comparison, Box<Filter>, Box<Filter>),
    Arithmetic(Operator, Box<Filter>, Box<Filter>),
    /// `[ITEMS]`
    Collect(Option<Box<Filter>>),
    /// `if A then B elif C then D else E end`
    If(Vec<(Filter, Filter)>, Box<Filter>),
    Call(Function, Vec<Filter>),
}

#[derive(Clone, Copy, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
