//! Parses the query syntax of label selectors: `app=web,tier in (a,b),!old,size>3`.
//!
//! Corresponds to the lexer and parser of k8s.io/apimachinery/pkg/labels.

use super::{Operator, Requirement, Selector};
use crate::meta::names;
use crate::meta::status::FieldError;
use serde_json::json;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    End,
    Open,
    Close,
    Comma,
    Bang,
    /// A key or value. `in` and `notin` are identifiers, too, where no operator is expected.
    Identifier,
    Binary(Operator),
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn tokens(text: &str) -> Vec<(Token, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else { return found };
        let length = match first {
            '=' | '!' if rest[1..].starts_with('=') => 2,
            c if is_special(c) => 1,
            _ => rest.find(|c: char| is_special(c) || matches!(c, ' ' | '\t' | '\r' | '\n')).unwrap_or(rest.len()),
        };
        let (literal, after) = rest.split_at(length);
        rest = after;
        let token = match literal {
            "(" => Token::Open,
            ")" => Token::Close,
            "," => Token::Comma,
            "!" => Token::Bang,
            "=" => Token::Binary(Operator::Equals),
            "==" => Token::Binary(Operator::DoubleEquals),
            "!=" => Token::Binary(Operator::NotEquals),
            ">" => Token::Binary(Operator::GreaterThan),
            "<" => Token::Binary(Operator::LessThan),
            "in" => Token::Binary(Operator::In),
            "notin" => Token::Binary(Operator::NotIn),
            _ => Token::Identifier,
        };
        found.push((token, literal));
    }
}

/// Parses a whole selector. The error is worded as Kubernetes words it.
pub(super) fn selector(text: &str) -> Result<Selector, String> {
    Parser { tokens: tokens(text), at: 0 }.parse()
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    at: usize,
}

impl<'a> Parser<'a> {
    /// Returns the next token where a key or value is expected. There `in` is an ordinary name.
    fn peek(&self) -> (Token, &'a str) {
        match self.peek_operator() {
            (Token::Binary(Operator::In | Operator::NotIn), literal) => (Token::Identifier, literal),
            other => other,
        }
    }

    fn peek_operator(&self) -> (Token, &'a str) {
        self.tokens.get(self.at).copied().unwrap_or((Token::End, ""))
    }

    fn next(&mut self) -> (Token, &'a str) {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn parse(mut self) -> Result<Selector, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::Bang, _) => {
                    let requirement = self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
                    requirements.push(requirement);
                }
                (Token::End, _) => return Ok(Selector::new(requirements)),
                (_, literal) => {
                    return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'"));
                }
            }
            match self.next() {
                (Token::End, _) => return Ok(Selector::new(requirements)),
                (Token::Comma, _) => {
                    let (token, literal) = self.peek();
                    if !matches!(token, Token::Identifier | Token::Bang) {
                        return Err(format!("found '{literal}', expected: identifier after ','"));
                    }
                }
                (_, literal) => return Err(format!("found '{literal}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token.0 == Token::Bang;
        if negated {
            token = self.next();
        }
        let (Token::Identifier, key) = token else { return Err(format!("found '{}', expected: identifier", token.1)) };
        let complaints = names::label_key(key);
        if !complaints.is_empty() {
            return Err(FieldError::invalid("<nil>", &json!(key), complaints.join("; ")).to_string());
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, BTreeSet::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(key, Operator::Exists, BTreeSet::new());
        }
        let (token, literal) = self.peek_operator();
        self.at += 1;
        let Token::Binary(operator) = token else {
            return Err(format!("found '{literal}', expected: in, notin, =, ==, !=, gt, lt"));
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.value_set()?,
            _ => self.single_value()?,
        };
        Requirement::new(key, operator, values)
    }

    /// Parses `(a, b)`. Nothing between two commas is the empty value.
    fn value_set(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, literal) = self.next();
        if token != Token::Open {
            return Err(format!("found '{literal}' expected: '('"));
        }
        match self.peek() {
            (Token::Identifier | Token::Comma, _) => {}
            (Token::Close, _) => {
                self.at += 1;
                return Ok(BTreeSet::from([String::new()]));
            }
            (_, literal) => return Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Identifier, literal) => {
                    values.insert(literal.to_owned());
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => break,
                        (_, literal) => return Err(format!("found '{literal}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    let (next, _) = self.peek();
                    if values.is_empty() || matches!(next, Token::Close | Token::Comma) {
                        values.insert(String::new());
                    }
                    match next {
                        Token::Close => break,
                        Token::Comma => self.at += 1,
                        _ => {}
                    }
                }
                (_, literal) => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
        }
        // Skip the closing parenthesis, which alone ends the loop.
        self.at += 1;
        Ok(values)
    }

    fn single_value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            (Token::Identifier, literal) => Ok(BTreeSet::from([literal.to_owned()])),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_worded_as_kubernetes_words_them() {
        let cases = [
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("a=b,", "found '', expected: identifier after ','"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a=b)", "found ')', expected: ',' or 'end of string'"),
        ];
        for (text, expected) in cases {
            assert_eq!(Selector::parse(text).unwrap_err(), expected, "{text}");
        }
        let key = Selector::parse("-bad=1").unwrap_err();
        assert!(key.starts_with("unable to parse requirement: <nil>: Invalid value: \"-bad\": name part must consist"));
        let value = Selector::parse("a=-b").unwrap_err();
        assert!(value.starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be an empty string"
        ));
    }
}
