//! Parses a query: from the loosest operator, the pipe, to the tightest, the path.

use crate::query::functions;
use crate::query::syntax::{Comparison, Filter};
use crate::query::token::{Token, tokens};
use crate::query::values::{self, Operator};
use serde_json::{Value, json};

/// Limit on nested brackets and chained operators, so that neither parsing nor evaluation exhausts the stack.
const MAX_DEPTH: usize = 60;
const MAX_TOKENS: usize = 250;

pub fn parse(text: &str) -> Result<Filter, String> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err("a query must not be empty".to_owned());
    }
    if tokens.len() > MAX_TOKENS {
        return Err(format!("a query has at most {MAX_TOKENS} words"));
    }
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let filter = parser.pipe()?;
    if parser.at < tokens.len() { Err(parser.unexpected()) } else { Ok(filter) }
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
}

const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];
const SUMS: &[(&str, Operator)] = &[("+", Operator::Add), ("-", Operator::Subtract)];
const PRODUCTS: &[(&str, Operator)] = &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];

impl Parser<'_> {
    fn pipe(&mut self) -> Result<Filter, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("a query nests at most {MAX_DEPTH} deep"));
        }
        let left = self.comma()?;
        let filter = if self.take("|") { Filter::Pipe(Box::new(left), Box::new(self.pipe()?)) } else { left };
        self.depth -= 1;
        Ok(filter)
    }

    fn comma(&mut self) -> Result<Filter, String> {
        let mut left = self.alternative()?;
        while self.take(",") {
            left = Filter::Comma(Box::new(left), Box::new(self.alternative()?));
        }
        Ok(left)
    }

    fn alternative(&mut self) -> Result<Filter, String> {
        let mut choices = vec![self.or()?];
        while self.take("//") {
            choices.push(self.or()?);
        }
        let last = choices.pop().ok_or_else(|| self.unexpected())?;
        let join = |right, left| Filter::Alternative(Box::new(left), Box::new(right));
        Ok(choices.into_iter().rev().fold(last, join))
    }

    fn or(&mut self) -> Result<Filter, String> {
        let mut left = self.and()?;
        while self.take_word("or") {
            left = Filter::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Filter, String> {
        let mut left = self.comparison()?;
        while self.take_word("and") {
            left = Filter::And(Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Filter, String> {
        let left = self.sum()?;
        match self.take_one_of(COMPARISONS) {
            Some(comparison) => Ok(Filter::Compare(comparison, Box::new(left), Box::new(self.sum()?))),
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Filter, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take_one_of(SUMS) {
            left = Filter::Arithmetic(operator, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Filter, String> {
        let mut left = self.postfix()?;
        while let Some(operator) = self.take_one_of(PRODUCTS) {
            left = Filter::Arithmetic(operator, Box::new(left), Box::new(self.postfix()?));
        }
        Ok(left)
    }

    fn postfix(&mut self) -> Result<Filter, String> {
        let mut base = self.term()?;
        loop {
            if self.take("?") {
                base = Filter::Try(Box::new(base));
            } else if self.take("[") {
                base = self.bracket(base)?;
            } else if self.take(".") {
                self.expect("[")?;
                base = self.bracket(base)?;
            } else if let Some(Token::Field(name)) = self.tokens.get(self.at) {
                self.at += 1;
                base = field(base, name);
            } else {
                return Ok(base);
            }
        }
    }

    /// Parses what follows `BASE[`.
    fn bracket(&mut self, base: Filter) -> Result<Filter, String> {
        let base = Box::new(base);
        if self.take("]") {
            return Ok(Filter::Iterate(base));
        }
        if self.take(":") {
            let to = self.pipe()?;
            self.expect("]")?;
            return Ok(Filter::Slice(base, None, Some(Box::new(to))));
        }
        let key = Box::new(self.pipe()?);
        if self.take(":") {
            let to = if self.is_next("]") { None } else { Some(Box::new(self.pipe()?)) };
            self.expect("]")?;
            return Ok(Filter::Slice(base, Some(key), to));
        }
        self.expect("]")?;
        Ok(Filter::Index(base, key))
    }

    fn term(&mut self) -> Result<Filter, String> {
        match self.next().cloned() {
            Some(Token::Number(number)) => Ok(Filter::Literal(values::number(number))),
            Some(Token::Text(text)) => Ok(Filter::Literal(Value::String(text))),
            Some(Token::Name(name)) => self.named(&name),
            Some(Token::Sign("..")) => Ok(Filter::Descend),
            Some(Token::Sign(".")) => Ok(Filter::Identity),
            Some(Token::Field(name)) => Ok(field(Filter::Identity, &name)),
            Some(Token::Sign("-")) => {
                let zero = Box::new(Filter::Literal(json!(0)));
                self.nested(|parser| Ok(Filter::Arithmetic(Operator::Subtract, zero, Box::new(parser.postfix()?))))
            }
            Some(Token::Sign("(")) => {
                let inner = self.pipe()?;
                self.expect(")")?;
                Ok(inner)
            }
            Some(Token::Sign("[")) if self.take("]") => Ok(Filter::Collect(None)),
            Some(Token::Sign("[")) => {
                let items = self.pipe()?;
                self.expect("]")?;
                Ok(Filter::Collect(Some(Box::new(items))))
            }
            _ => Err(self.before()),
        }
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Result<Filter, String>) -> Result<Filter, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("a query nests at most {MAX_DEPTH} deep"));
        }
        let filter = parse(self);
        self.depth -= 1;
        filter
    }

    fn named(&mut self, name: &str) -> Result<Filter, String> {
        match name {
            "true" => return Ok(Filter::Literal(json!(true))),
            "false" => return Ok(Filter::Literal(json!(false))),
            "null" => return Ok(Filter::Literal(Value::Null)),
            "if" => return self.condition(),
            _ => {}
        }
        let mut arguments = Vec::new();
        if self.take("(") {
            loop {
                arguments.push(self.pipe()?);
                if !self.take(";") {
                    break;
                }
            }
            self.expect(")")?;
        }
        match functions::find(name, arguments.len()) {
            Some(function) => Ok(Filter::Call(function, arguments)),
            None => Err(format!("function not defined: {name}/{}", arguments.len())),
        }
    }

    fn condition(&mut self) -> Result<Filter, String> {
        let mut branches = Vec::new();
        loop {
            let condition = self.pipe()?;
            self.expect_word("then")?;
            branches.push((condition, self.pipe()?));
            if self.take_word("elif") {
                continue;
            }
            let otherwise = if self.take_word("else") { self.pipe()? } else { Filter::Identity };
            self.expect_word("end")?;
            return Ok(Filter::If(branches, Box::new(otherwise)));
        }
    }

    fn next(&mut self) -> Option<&Token> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    fn is_next(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Sign(next)) if *next == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_next = self.is_next(sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.tokens.get(self.at), Some(Token::Name(next)) if next == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn take_one_of<T: Copy>(&mut self, signs: &[(&str, T)]) -> Option<T> {
        signs.iter().find(|(sign, _)| self.take(sign)).map(|(_, meaning)| *meaning)
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(format!("{}: {sign:?} is missing", self.unexpected())) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), String> {
        if self.take_word(word) { Ok(()) } else { Err(format!("{}: {word:?} is missing", self.unexpected())) }
    }

    /// Reports the token that comes next.
    fn unexpected(&self) -> String {
        match self.tokens.get(self.at) {
            None => "unexpected end".to_owned(),
            Some(Token::Name(name)) => format!("unexpected {name:?}"),
            Some(Token::Field(name)) => format!("unexpected .{name}"),
            Some(Token::Text(text)) => format!("unexpected text {text:?}"),
            Some(Token::Number(number)) => format!("unexpected {number}"),
            Some(Token::Sign(sign)) => format!("unexpected {sign:?}"),
        }
    }

    /// Reports the token that was taken last.
    fn before(&mut self) -> String {
        self.at -= 1;
        self.unexpected()
    }
}

fn field(base: Filter, name: &str) -> Filter {
    Filter::Index(Box::new(base), Box::new(Filter::Literal(json!(name))))
}
