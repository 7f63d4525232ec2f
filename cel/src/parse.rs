//! The parser: turns tokens into a tree, within limits. Errors are worded as by the original's generated parser.
//!
//! The registry's crate `cel` has two parsers, and neither fits: one takes more than a hundred kilobytes of stack for a
//! bracket, and the other drops the places of nodes, which the type checker's errors need. Corresponds to the grammar of
//! github.com/google/cel-go/parser.

use super::macros;
use super::source::SyntaxError;
use super::syntax::{Expr, Syntax};
use super::token::{PlacedToken, Token, tokens};
use super::value::Value;

/// Most characters of an expression, as in Kubernetes.
const MAX_CHARACTERS: usize = 100_000;
// Deviation: brackets nest this deep in an expression, where Kubernetes goes on to 250: a bracket takes more stack than any
// other node.
const MAX_BRACKETS: usize = 100;

const STARTS: &str =
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";
const STARTS_OR_CLOSE: &str = "'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

/// Reserved words.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Literals, and the operator `in`.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Returns true if no variable can have this name.
pub fn is_reserved(word: &str) -> bool {
    KEYWORDS.contains(&word) || RESERVED.contains(&word)
}

/// Parses an expression; `has_bindings` enables `cel.bind`.
pub fn parse(text: &str, has_bindings: bool) -> Result<Expr, SyntaxError> {
    let size = text.chars().count();
    if size > MAX_CHARACTERS {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MAX_CHARACTERS}");
        return Err(SyntaxError { at: 0, message });
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, brackets: 0, has_bindings };
    let expression = parser.expression()?;
    if *parser.token() != Token::End {
        return parser.unexpected("<EOF>", |token| *token == Token::End);
    }
    Ok(expression)
}

type Parsed = Result<Expr, SyntaxError>;

struct Parser<'t> {
    tokens: &'t [PlacedToken],
    at: usize,
    brackets: usize,
    has_bindings: bool,
}

fn call(at: usize, name: &str, arguments: Vec<Expr>) -> Parsed {
    Expr::new(at, Syntax::Call(name.to_owned(), None, arguments))
}

impl Parser<'_> {
    fn placed(&self) -> &PlacedToken {
        // The last token is the end.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn token(&self) -> &Token {
        &self.placed().token
    }

    fn place(&self) -> usize {
        self.placed().at
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token(), Token::Sign(found) if *found == sign)
    }

    /// Consumes a sign, if it is next.
    fn take(&mut self, sign: &str) -> bool {
        let is = self.is(sign);
        self.at += usize::from(is);
        is
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { at: self.place(), message: message.into() })
    }

    /// Returns the error of an unexpected token. If the next one would fit, this one is superfluous.
    fn unexpected<T>(&self, expected: &str, fits: impl Fn(&Token) -> bool) -> Result<T, SyntaxError> {
        let next = self.tokens.get(self.at + 1).is_some_and(|next| fits(&next.token));
        let how = if next { "extraneous" } else { "mismatched" };
        self.error(format!("Syntax error: {how} input '{}' expecting {expected}", self.placed().written))
    }

    fn close(&mut self, sign: &'static str, others: &str) -> Result<(), SyntaxError> {
        if self.take(sign) {
            return Ok(());
        }
        self.unexpected(others, |token| *token == Token::Sign(sign))
    }

    /// Parses `a ? b : c`, and everything that binds closer.
    fn expression(&mut self) -> Parsed {
        if self.brackets >= MAX_BRACKETS {
            return self.error(format!("expression recursion limit exceeded: {MAX_BRACKETS}"));
        }
        self.brackets += 1;
        let condition = self.either()?;
        let at = self.place();
        let found = if self.take("?") {
            let yes = self.either()?;
            let others = "{'==', '!=', 'in', '<', '<=', '>=', '>', '&&', '||', '[', '.', '-', ':', '+', '*', '/', '%'}";
            self.close(":", others)?;
            let no = self.expression()?;
            call(at, "_?_:_", vec![condition, yes, no])
        } else {
            Ok(condition)
        };
        self.brackets -= 1;
        found
    }

    fn either(&mut self) -> Parsed {
        self.balanced("||", "_||_", Self::both)
    }

    fn both(&mut self) -> Parsed {
        self.balanced("&&", "_&&_", Self::relation)
    }

    /// Parses a chain of `&&` or `||` into a balanced tree, so that long chains stay flat.
    fn balanced(&mut self, sign: &str, name: &str, part: fn(&mut Self) -> Parsed) -> Parsed {
        let mut terms = vec![part(self)?];
        let mut places = Vec::new();
        while self.is(sign) {
            places.push(self.place());
            self.at += 1;
            terms.push(part(self)?);
        }
        let mut terms: Vec<Option<Expr>> = terms.into_iter().map(Some).collect();
        fold(&mut terms, &places, name)
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let name = match self.token() {
                Token::Sign("in") => "@in",
                Token::Sign("==") => "_==_",
                Token::Sign("!=") => "_!=_",
                Token::Sign("<") => "_<_",
                Token::Sign("<=") => "_<=_",
                Token::Sign(">") => "_>_",
                Token::Sign(">=") => "_>=_",
                _ => return Ok(left),
            };
            left = self.binary(left, name, Self::sum)?;
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            let name = match self.token() {
                Token::Sign("+") => "_+_",
                Token::Sign("-") => "_-_",
                _ => return Ok(left),
            };
            left = self.binary(left, name, Self::product)?;
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let name = match self.token() {
                Token::Sign("*") => "_*_",
                Token::Sign("/") => "_/_",
                Token::Sign("%") => "_%_",
                _ => return Ok(left),
            };
            left = self.binary(left, name, Self::unary)?;
        }
    }

    fn binary(&mut self, left: Expr, name: &str, right: fn(&mut Self) -> Parsed) -> Parsed {
        let at = self.place();
        self.at += 1;
        let right = right(self)?;
        call(at, name, vec![left, right])
    }

    fn unary(&mut self) -> Parsed {
        let at = self.place();
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.take(sign) {
                count += 1;
            }
            if count == 0 {
                continue;
            }
            let follows = self.token().clone();
            let operand = self.member()?;
            return match (sign, follows) {
                // A minus before a number belongs to the number.
                ("-", Token::Int(number)) if count % 2 == 1 => negated(at, operand, &Token::Int(number.wrapping_neg())),
                ("-", Token::Double(number)) if count % 2 == 1 => negated(at, operand, &Token::Double(-number)),
                _ if count % 2 == 1 => call(at, name, vec![operand]),
                _ => Ok(operand),
            };
        }
        if matches!(self.token(), Token::Int(i64::MIN)) {
            return self.error("invalid int literal");
        }
        self.member()
    }

    /// Parses a primary with selections, calls and indexes.
    fn member(&mut self) -> Parsed {
        let mut whole = self.primary()?;
        loop {
            let at = self.place();
            if self.take(".") {
                let is_optional = self.take("?");
                let name = match self.token() {
                    Token::Ident(name) => name.clone(),
                    Token::Sign(word @ ("in" | "null")) => {
                        return self.error(format!("Syntax error: no viable alternative at input '.{word}'"));
                    }
                    _ => {
                        return Err(SyntaxError {
                            at,
                            message: "Syntax error: no viable alternative at input '.'".to_owned(),
                        });
                    }
                };
                self.at += 1;
                if is_optional {
                    whole = Expr::new(at, Syntax::OptionalSelect(Box::new(whole), name))?;
                    continue;
                }
                let opening = self.place();
                if self.take("(") {
                    let arguments = self.arguments()?;
                    whole = if self.has_bindings && macros::is_binding(&whole, &name, &arguments) {
                        macros::binding(opening, arguments)?
                    } else {
                        macros::method(opening, &name, whole, arguments)?
                    };
                    continue;
                }
                whole = Expr::new(at, Syntax::Select(Box::new(whole), name))?;
            } else if self.take("[") {
                let name = if self.take("?") { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.close("]", "{']', ','}")?;
                whole = call(at, name, vec![whole, index])?;
            } else if self.is("{") {
                let Some(name) = whole.qualified_name() else { return Ok(whole) };
                self.at += 1;
                whole = self.message(at, name)?;
            } else {
                return Ok(whole);
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, SyntaxError> {
        let mut arguments = Vec::new();
        if self.take(")") {
            return Ok(arguments);
        }
        if *self.token() == Token::End {
            return self.unexpected(&format!("{{{STARTS_OR_CLOSE}}}"), is_start);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.take(",") {
                self.close(")", "{')', ','}")?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.place();
        let has_dot = self.take(".");
        let token = self.token().clone();
        if has_dot && !matches!(token, Token::Ident(_)) {
            return self.error("Syntax error: no viable alternative at input '.'");
        }
        let literal = |value: Value| Expr::new(at, Syntax::Literal(value));
        let found = match token {
            Token::Int(number) => literal(Value::Int(number)),
            Token::Uint(number) => literal(Value::Uint(number)),
            Token::Double(number) => literal(Value::Double(number)),
            Token::Text(text) => literal(Value::string(text)),
            Token::Bytes(bytes) => literal(Value::Bytes(bytes.into())),
            Token::Sign("null") => literal(Value::Null),
            Token::Ident(name) => {
                self.at += 1;
                return self.named(at, &name);
            }
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.expression()?;
                let others =
                    "{'==', '!=', 'in', '<', '<=', '>=', '>', '&&', '||', '[', ')', '.', '-', '?', '+', '*', '/', '%'}";
                self.close(")", others)?;
                return Ok(inner);
            }
            Token::Sign("[") => {
                self.at += 1;
                return self.list(at);
            }
            Token::Sign("{") => {
                self.at += 1;
                return self.map(at);
            }
            _ => return self.unexpected(&format!("{{{STARTS}}}"), is_start),
        };
        self.at += 1;
        found
    }

    fn named(&mut self, at: usize, name: &str) -> Parsed {
        match name {
            "true" => return Expr::new(at, Syntax::Literal(Value::Bool(true))),
            "false" => return Expr::new(at, Syntax::Literal(Value::Bool(false))),
            _ if RESERVED.contains(&name) => {
                return Err(SyntaxError { at, message: format!("reserved identifier: {name}") });
            }
            _ => {}
        }
        let opening = self.place();
        if self.take("(") {
            let arguments = self.arguments()?;
            return macros::function(opening, name, arguments);
        }
        Expr::new(at, Syntax::Ident(name.to_owned()))
    }

    fn list(&mut self, at: usize) -> Parsed {
        let mut items = Vec::new();
        while !self.take("]") {
            let is_optional = self.take("?");
            items.push((self.expression()?, is_optional));
            if !self.take(",") {
                self.close("]", "{']', ','}")?;
                break;
            }
        }
        Expr::new(at, Syntax::List(items))
    }

    fn message(&mut self, at: usize, name: String) -> Parsed {
        let mut fields = Vec::new();
        while !self.take("}") {
            let is_optional = self.take("?");
            let field = match self.token() {
                Token::Ident(name) | Token::Escaped(name) => name.clone(),
                _ => return self.unexpected("{IDENTIFIER, ESC_IDENTIFIER}", |token| matches!(token, Token::Ident(_))),
            };
            self.at += 1;
            let colon = self.place();
            self.close(":", "':'")?;
            fields.push((field, colon, self.expression()?, is_optional));
            if !self.take(",") {
                self.close("}", "{'}', ','}")?;
                break;
            }
        }
        Expr::new(at, Syntax::Message(name, fields))
    }

    fn map(&mut self, at: usize) -> Parsed {
        let mut entries = Vec::new();
        while !self.take("}") {
            let is_optional = self.take("?");
            let key = self.expression()?;
            self.close(":", "':'")?;
            entries.push((key, self.expression()?, is_optional));
            if !self.take(",") {
                self.close("}", "{'}', ','}")?;
                break;
            }
        }
        Expr::new(at, Syntax::Map(entries))
    }
}

fn is_start(token: &Token) -> bool {
    match token {
        Token::Sign(sign) => ["[", "{", "(", ".", "-", "!", "null"].contains(sign),
        Token::End | Token::Escaped(_) => false,
        _ => true,
    }
}

/// Returns the negative number, unless the operand is more than a number.
fn negated(at: usize, operand: Expr, negative: &Token) -> Parsed {
    match (&operand.kind, negative) {
        (Syntax::Literal(_), Token::Int(number)) => Expr::new(at, Syntax::Literal(Value::Int(*number))),
        (Syntax::Literal(_), Token::Double(number)) => Expr::new(at, Syntax::Literal(Value::Double(*number))),
        _ => call(at, "-_", vec![operand]),
    }
}

/// Builds the balanced tree; `places[i]` is the operator between the terms `i` and `i + 1`.
fn fold(terms: &mut [Option<Expr>], places: &[usize], name: &str) -> Parsed {
    if let [only] = terms {
        return only.take().ok_or(SyntaxError { at: 0, message: "an operand is missing".to_owned() });
    }
    let middle = places.len() / 2;
    let (left, right) = terms.split_at_mut(middle + 1);
    let left = fold(left, &places[..middle], name)?;
    let right = fold(right, &places[middle + 1..], name)?;
    call(places[middle], name, vec![left, right])
}
