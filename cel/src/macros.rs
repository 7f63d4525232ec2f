//! Expands macros while parsing: `has`, the comprehensions, and those of optional values.
//!
//! Corresponds to the macros of github.com/google/cel-go/parser, and to its extensions for optional values, for
//! comprehensions with two variables, and for bindings.

use super::source::SyntaxError;
use super::syntax::{Comprehension, Expr, Syntax};
use super::value::Value;

/// Name of a macro's accumulator, which no expression can contain.
const RESULT: &str = "@result";
/// Variable of a comprehension over an empty list, which only binds a name.
pub const UNUSED: &str = "#unused";
/// Name of a value that is bound so that it is evaluated once.
const TARGET: &str = "@target";
/// Name of the list that `sortBy` sorts.
const SORT_INPUT: &str = "@__sortBy_input__";
/// Function that inserts an entry, or the entries of a map, into the accumulator.
const MAP_INSERT: &str = "cel.@mapInsert";

type Parsed = Result<Expr, SyntaxError>;

/// Expands `name(arguments)`, if it is a macro.
pub fn function(at: usize, name: &str, mut arguments: Vec<Expr>) -> Parsed {
    if name == "has" && arguments.len() == 1 {
        let argument = arguments.remove(0);
        return match argument.kind {
            Syntax::Select(operand, field) => Expr::new(at, Syntax::Test(operand, field)),
            _ => Err(SyntaxError { at: argument.at, message: "invalid argument to has() macro".to_owned() }),
        };
    }
    Expr::new(at, Syntax::Call(name.to_owned(), None, arguments))
}

/// Expands `target.name(arguments)`, if it is a macro.
pub fn method(at: usize, name: &str, target: Expr, arguments: Vec<Expr>) -> Parsed {
    let w = Writer { at };
    match (name, arguments.len()) {
        ("all", 2 | 3) => w.all(Parts::of(target, arguments, 1)?),
        ("exists", 2 | 3) => w.exists(Parts::of(target, arguments, 1)?),
        ("exists_one" | "existsOne", 2 | 3) => w.exists_one(Parts::of(target, arguments, 1)?),
        ("filter", 2) => w.filter(Parts::of(target, arguments, 1)?),
        ("map", 2) => w.transform_list(Parts::of(target, arguments, 1)?),
        ("map", 3) => w.transform_list(Parts::of(target, arguments, 2)?),
        ("transformList", 3) => w.transform_list(Parts::of(target, arguments, 1)?),
        ("transformList", 4) => w.transform_list(Parts::of(target, arguments, 2)?),
        ("transformMap", 3) => w.transform_map(Parts::of(target, arguments, 1)?),
        ("transformMap", 4) => w.transform_map(Parts::of(target, arguments, 2)?),
        ("transformMapEntry", 3) => w.transform_entry(Parts::of(target, arguments, 1)?),
        ("transformMapEntry", 4) => w.transform_entry(Parts::of(target, arguments, 2)?),
        ("sortBy", 2) => w.sort_by(target, arguments),
        ("optMap", 2) => w.opt_map(target, arguments, true),
        ("optFlatMap", 2) => w.opt_map(target, arguments, false),
        _ => Expr::new(at, Syntax::Call(name.to_owned(), Some(Box::new(target)), arguments)),
    }
}

/// Returns true for `cel.bind(name, value, expression)`.
pub fn is_binding(target: &Expr, name: &str, arguments: &[Expr]) -> bool {
    name == "bind" && arguments.len() == 3 && matches!(&target.kind, Syntax::Ident(namespace) if namespace == "cel")
}

/// Expands `cel.bind`.
pub fn binding(at: usize, mut arguments: Vec<Expr>) -> Parsed {
    let (expression, value) = (arguments.remove(2), arguments.remove(1));
    let Syntax::Ident(name) = &arguments[0].kind else {
        let message = "cel.bind() variable names must be simple identifiers".to_owned();
        return Err(SyntaxError { at: arguments[0].at, message });
    };
    Writer { at }.bind(name, value, expression)
}

/// The parts of `range.name(first, [second,] [filter,] last)`.
struct Parts {
    range: Expr,
    first: String,
    second: Option<String>,
    filter: Option<Expr>,
    last: Expr,
}

fn simple_name(argument: &Expr) -> Result<String, SyntaxError> {
    match &argument.kind {
        Syntax::Ident(name) => Ok(name.clone()),
        _ => Err(SyntaxError { at: argument.at, message: "argument must be a simple name".to_owned() }),
    }
}

impl Parts {
    /// Takes a macro's arguments apart. The last `bodies` are no names: the body, and the filter before it.
    fn of(range: Expr, mut arguments: Vec<Expr>, bodies: usize) -> Result<Self, SyntaxError> {
        let mut rest = arguments.split_off(arguments.len() - bodies);
        let first = simple_name(&arguments[0])?;
        let second = arguments.get(1).map(simple_name).transpose()?;
        if second.as_ref() == Some(&first) {
            let message = format!("duplicate variable name: {first}");
            return Err(SyntaxError { at: arguments[1].at, message });
        }
        let last = rest.remove(bodies - 1);
        Ok(Self { range, first, second, filter: rest.pop(), last })
    }
}

/// Makes nodes at the macro's place.
struct Writer {
    at: usize,
}

impl Writer {
    fn node(&self, kind: Syntax) -> Parsed {
        Expr::new(self.at, kind)
    }

    fn name(&self, name: &str) -> Parsed {
        self.node(Syntax::Ident(name.to_owned()))
    }

    fn literal(&self, value: Value) -> Parsed {
        self.node(Syntax::Literal(value))
    }

    fn call(&self, name: &str, arguments: Vec<Expr>) -> Parsed {
        self.node(Syntax::Call(name.to_owned(), None, arguments))
    }

    /// Makes a comprehension over the range, with the accumulator's first value `start` and next value `step`.
    fn comprehension(
        &self,
        (range, first, second): (Expr, String, Option<String>),
        [start, goes_on, step, result]: [Expr; 4],
    ) -> Parsed {
        let accumulator = RESULT.to_owned();
        self.node(Syntax::Comprehension(Box::new(Comprehension {
            range,
            first,
            second,
            accumulator,
            start,
            goes_on,
            step,
            result,
        })))
    }

    /// Makes `step` conditional: if the filter does not hold, the accumulator stays unchanged.
    fn filtered(&self, filter: Option<Expr>, step: Expr) -> Parsed {
        match filter {
            None => Ok(step),
            Some(filter) => self.call("_?_:_", vec![filter, step, self.name(RESULT)?]),
        }
    }

    fn all(&self, p: Parts) -> Parsed {
        let goes_on = self.call("@not_strictly_false", vec![self.name(RESULT)?])?;
        let step = self.call("_&&_", vec![self.name(RESULT)?, p.last])?;
        let start = self.literal(Value::Bool(true))?;
        self.comprehension((p.range, p.first, p.second), [start, goes_on, step, self.name(RESULT)?])
    }

    fn exists(&self, p: Parts) -> Parsed {
        let not_yet = self.call("!_", vec![self.name(RESULT)?])?;
        let goes_on = self.call("@not_strictly_false", vec![not_yet])?;
        let step = self.call("_||_", vec![self.name(RESULT)?, p.last])?;
        let start = self.literal(Value::Bool(false))?;
        self.comprehension((p.range, p.first, p.second), [start, goes_on, step, self.name(RESULT)?])
    }

    fn exists_one(&self, p: Parts) -> Parsed {
        let one = || self.literal(Value::Int(1));
        let more = self.call("_+_", vec![self.name(RESULT)?, one()?])?;
        let step = self.filtered(Some(p.last), more)?;
        let result = self.call("_==_", vec![self.name(RESULT)?, one()?])?;
        let parts = [self.literal(Value::Int(0))?, self.literal(Value::Bool(true))?, step, result];
        self.comprehension((p.range, p.first, p.second), parts)
    }

    fn filter(&self, p: Parts) -> Parsed {
        let item = self.name(&p.first)?;
        let parts = Parts { filter: Some(p.last), last: item, ..p };
        self.transform_list(parts)
    }

    fn transform_list(&self, p: Parts) -> Parsed {
        let item = self.node(Syntax::List(vec![(p.last, false)]))?;
        let more = self.call("_+_", vec![self.name(RESULT)?, item])?;
        self.gathered(Syntax::List(Vec::new()), (p.range, p.first, p.second), p.filter, more)
    }

    fn transform_map(&self, p: Parts) -> Parsed {
        let more = self.call(MAP_INSERT, vec![self.name(RESULT)?, self.name(&p.first)?, p.last])?;
        self.gathered(Syntax::Map(Vec::new()), (p.range, p.first, p.second), p.filter, more)
    }

    fn transform_entry(&self, p: Parts) -> Parsed {
        let more = self.call(MAP_INSERT, vec![self.name(RESULT)?, p.last])?;
        self.gathered(Syntax::Map(Vec::new()), (p.range, p.first, p.second), p.filter, more)
    }

    /// Makes a comprehension that starts empty and adds `more` for each item that passes the filter.
    fn gathered(
        &self,
        empty: Syntax,
        over: (Expr, String, Option<String>),
        filter: Option<Expr>,
        more: Expr,
    ) -> Parsed {
        let step = self.filtered(filter, more)?;
        self.comprehension(over, [self.node(empty)?, self.literal(Value::Bool(true))?, step, self.name(RESULT)?])
    }

    /// Expands `t.optMap(v, e)`: applies `e` to the value in `t`, if any.
    fn opt_map(&self, target: Expr, mut arguments: Vec<Expr>, wraps: bool) -> Parsed {
        let mapping = arguments.remove(1);
        let name = simple_name(&arguments[0])?;
        let method = |method: &str| -> Parsed {
            let target = Box::new(self.name(TARGET)?);
            self.node(Syntax::Call(method.to_owned(), Some(target), Vec::new()))
        };
        let mapped = self.bind(&name, method("value")?, mapping)?;
        let some = if wraps { self.call("optional.of", vec![mapped])? } else { mapped };
        let none = self.call("optional.none", Vec::new())?;
        let result = self.call("_?_:_", vec![method("hasValue")?, some, none])?;
        self.bind(TARGET, target, result)
    }

    /// Expands `t.sortBy(v, e)`: sorts `t` by the values of `e`.
    fn sort_by(&self, target: Expr, arguments: Vec<Expr>) -> Parsed {
        if !matches!(
            target.kind,
            Syntax::List(_)
                | Syntax::Ident(_)
                | Syntax::Comprehension(_)
                | Syntax::Call(..)
                | Syntax::Select(..)
                | Syntax::OptionalSelect(..)
        ) {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression".to_owned();
            return Err(SyntaxError { at: target.at, message });
        }
        let keys = self.transform_list(Parts::of(self.name(SORT_INPUT)?, arguments, 1)?)?;
        let input = Box::new(self.name(SORT_INPUT)?);
        let result = self.node(Syntax::Call("@sortByAssociatedKeys".to_owned(), Some(input), vec![keys]))?;
        self.bind(SORT_INPUT, target, result)
    }

    fn bind(&self, name: &str, value: Expr, result: Expr) -> Parsed {
        self.node(Syntax::Comprehension(Box::new(Comprehension {
            range: self.node(Syntax::List(Vec::new()))?,
            first: UNUSED.to_owned(),
            second: None,
            accumulator: name.to_owned(),
            start: value,
            goes_on: self.literal(Value::Bool(false))?,
            step: self.name(name)?,
            result,
        })))
    }
}
