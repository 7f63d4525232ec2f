//! Parses a template.
//!
//! Corresponds to text/template/parse.

use crate::template::functions;
use crate::template::syntax::{Branch, Command, Node, Operand, Pipeline, Program, Term};
use crate::template::token::{Part, Token, parts};
use crate::template::value::Value;
use std::collections::BTreeMap;

/// Limit on nested blocks and brackets.
const MAX_DEPTH: usize = 60;
const KEYWORDS: &[&str] = &["if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"];

pub fn parse(text: &str) -> Result<Program, String> {
    let parts = parts(text)?;
    let mut parser =
        Parser { parts: &parts, at: 0, variables: vec![String::new()], loops: 0, depth: 0, defined: BTreeMap::new() };
    let (body, end) = parser.nodes()?;
    match end {
        End::OfText => {}
        End::Closed => return Err("unexpected {{end}}".to_owned()),
        End::Else(_) => return Err("unexpected {{else}}".to_owned()),
    }
    let program = Program { body, defined: parser.defined };
    let all = program.defined.values().chain([&program.body]);
    for name in all.flat_map(|nodes| calls(nodes)) {
        if !program.defined.contains_key(name) {
            return Err(format!("template {name:?} not defined"));
        }
    }
    Ok(program)
}

/// Returns the names of the templates that nodes call.
fn calls(nodes: &[Node]) -> Vec<&str> {
    let mut names = Vec::new();
    for node in nodes {
        match node {
            Node::Call { name, .. } => names.push(name.as_str()),
            Node::If(branches, otherwise) => {
                names.extend(branches.iter().flat_map(|branch| calls(&branch.body)));
                names.extend(calls(otherwise));
            }
            Node::Range { body, otherwise, .. } => {
                names.extend(calls(body));
                names.extend(calls(otherwise));
            }
            Node::Text(_) | Node::Print(_) | Node::Break | Node::Continue => {}
        }
    }
    names
}

struct Parser<'p> {
    parts: &'p [Part],
    at: usize,
    /// The variables in scope; the empty name is `$`.
    variables: Vec<String>,
    loops: usize,
    depth: usize,
    defined: BTreeMap<String, Vec<Node>>,
}

/// How a list of nodes ends.
enum End<'p> {
    OfText,
    Closed,
    /// The tokens behind `else`.
    Else(&'p [Token]),
}

impl<'p> Parser<'p> {
    fn nodes(&mut self) -> Result<(Vec<Node>, End<'p>), String> {
        let mut nodes = Vec::new();
        while let Some(part) = self.parts.get(self.at) {
            self.at += 1;
            let tokens = match part {
                Part::Text(text) => {
                    nodes.push(Node::Text(text.clone()));
                    continue;
                }
                Part::Action(tokens) => tokens,
            };
            let word = match tokens.first() {
                Some(Token::Word(word)) => word.as_str(),
                _ => "",
            };
            match word {
                "end" if tokens.len() == 1 => return Ok((nodes, End::Closed)),
                "else" => return Ok((nodes, End::Else(&tokens[1..]))),
                "if" | "with" => nodes.push(self.choice(word == "with", &tokens[1..])?),
                "range" => nodes.push(self.range(&tokens[1..])?),
                "define" => {
                    let (name, rest) = name_of("define", &tokens[1..])?;
                    if !rest.is_empty() || self.depth > 0 {
                        return Err(format!("unexpected {{{{define {name:?}}}}}"));
                    }
                    self.define(name)?;
                }
                "block" => {
                    let (name, rest) = name_of("block", &tokens[1..])?;
                    let argument = Some(self.whole_pipeline("block", rest)?);
                    self.define(name)?;
                    nodes.push(Node::Call { name: name.to_owned(), argument });
                }
                "template" => {
                    let (name, rest) = name_of("template", &tokens[1..])?;
                    let argument = if rest.is_empty() { None } else { Some(self.whole_pipeline("template", rest)?) };
                    nodes.push(Node::Call { name: name.to_owned(), argument });
                }
                "break" | "continue" if tokens.len() == 1 => {
                    if self.loops == 0 {
                        return Err(format!("{{{{{word}}}}} outside {{{{range}}}}"));
                    }
                    nodes.push(if word == "break" { Node::Break } else { Node::Continue });
                }
                _ => nodes.push(Node::Print(self.whole_pipeline("command", tokens)?)),
            }
        }
        Ok((nodes, End::OfText))
    }

    /// Parses the body of a template that others call: it sees no variables but its own `$`.
    fn define(&mut self, name: &str) -> Result<(), String> {
        let (outer, loops) = (std::mem::replace(&mut self.variables, vec![String::new()]), self.loops);
        self.loops = 0;
        let (nodes, end) = self.deeper(Self::nodes)?;
        (self.variables, self.loops) = (outer, loops);
        if !matches!(end, End::Closed) {
            return Err(format!("template {name:?} has no {{{{end}}}}"));
        }
        if self.defined.insert(name.to_owned(), nodes).is_some() {
            return Err(format!("template: multiple definition of template {name:?}"));
        }
        Ok(())
    }

    fn choice(&mut self, sets_dot: bool, tokens: &'p [Token]) -> Result<Node, String> {
        let outer = self.variables.len();
        let (mut branches, mut sets_dot, mut tokens) = (Vec::new(), sets_dot, tokens);
        loop {
            let condition = self.whole_pipeline(if sets_dot { "with" } else { "if" }, tokens)?;
            let (body, end) = self.block()?;
            branches.push(Branch { sets_dot, condition, body });
            let otherwise = match end {
                End::Closed => Vec::new(),
                End::OfText => return Err("unexpected EOF".to_owned()),
                End::Else([Token::Word(word), rest @ ..]) if word == "if" || word == "with" => {
                    (sets_dot, tokens) = (word == "with", rest);
                    continue;
                }
                End::Else([]) => self.last_block()?,
                End::Else(_) => return Err("unexpected text behind {{else".to_owned()),
            };
            self.variables.truncate(outer);
            return Ok(Node::If(branches, otherwise));
        }
    }

    fn range(&mut self, tokens: &'p [Token]) -> Result<Node, String> {
        let outer = self.variables.len();
        let over = self.pipeline_with("range", tokens, 2)?;
        self.loops += 1;
        let (body, end) = self.block()?;
        self.loops -= 1;
        let otherwise = match end {
            End::Closed => Vec::new(),
            End::Else([]) => self.last_block()?,
            _ => return Err("a range has no {{end}}".to_owned()),
        };
        self.variables.truncate(outer);
        Ok(Node::Range { over, body, otherwise })
    }

    /// Parses nodes with variables of their own.
    fn block(&mut self) -> Result<(Vec<Node>, End<'p>), String> {
        let outer = self.variables.len();
        let found = self.deeper(Self::nodes)?;
        self.variables.truncate(outer);
        Ok(found)
    }

    fn last_block(&mut self) -> Result<Vec<Node>, String> {
        match self.block()? {
            (nodes, End::Closed) => Ok(nodes),
            (_, End::OfText) => Err("unexpected EOF".to_owned()),
            (_, End::Else(_)) => Err("unexpected {{else}}".to_owned()),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("blocks nest at most {MAX_DEPTH} deep"));
        }
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    fn whole_pipeline(&mut self, context: &str, tokens: &[Token]) -> Result<Pipeline, String> {
        self.pipeline_with(context, tokens, 1)
    }

    fn pipeline_with(&mut self, context: &str, tokens: &[Token], max_variables: usize) -> Result<Pipeline, String> {
        let mut words = Words { tokens, at: 0 };
        let pipeline = self.pipeline(context, &mut words, max_variables)?;
        match words.peek() {
            None => Ok(pipeline),
            Some(token) => Err(format!("unexpected {} in {context}", shown(token))),
        }
    }

    fn pipeline(&mut self, context: &str, words: &mut Words<'_>, max_variables: usize) -> Result<Pipeline, String> {
        let (variables, declares) = words.declaration(max_variables)?;
        if !declares {
            variables.iter().try_for_each(|name| self.known(name))?;
        }
        let mut commands = vec![self.command(context, words)?];
        while words.take("|") {
            commands.push(self.command(context, words)?);
        }
        for command in commands.iter().skip(1) {
            if !matches!(command.head.term, Term::Function(_)) || !command.head.fields.is_empty() {
                return Err("non executable command in pipeline".to_owned());
            }
        }
        if declares {
            self.variables.extend(variables.iter().cloned());
        }
        Ok(Pipeline { variables, declares, commands })
    }

    fn command(&mut self, context: &str, words: &mut Words<'_>) -> Result<Command, String> {
        let mut operands = Vec::new();
        while words.peek().is_some_and(|token| !matches!(token, Token::Sign("|" | ")"))) {
            operands.push(self.operand(words)?);
        }
        let mut operands = operands.into_iter();
        let head = operands.next().ok_or_else(|| format!("missing value for {context}"))?;
        let arguments: Vec<Operand> = operands.collect();
        if !arguments.is_empty() && (!matches!(head.term, Term::Function(_)) || !head.fields.is_empty()) {
            return Err("can't give argument to non-function".to_owned());
        }
        Ok(Command { head, arguments })
    }

    fn operand(&mut self, words: &mut Words<'_>) -> Result<Operand, String> {
        let mut fields = Vec::new();
        let term = match words.next() {
            Some(Token::Dot) => Term::Dot,
            Some(Token::Field { name, .. }) => {
                fields.push(name.clone());
                Term::Dot
            }
            Some(Token::Variable(name)) => {
                self.known(name)?;
                Term::Variable(name.clone())
            }
            Some(Token::Text(text)) => Term::Literal(Value::text(text)),
            Some(Token::Int(value)) => Term::Literal(Value::Int(*value)),
            Some(Token::Float(value)) => Term::Literal(Value::Float(*value)),
            Some(Token::Word(word)) => match word.as_str() {
                "true" | "false" => Term::Literal(Value::Bool(word == "true")),
                "nil" => Term::Literal(Value::Nil),
                word if KEYWORDS.contains(&word) => return Err(format!("unexpected {{{{{word}}}}}")),
                word => Term::Function(functions::find(word).ok_or_else(|| format!("function {word:?} not defined"))?),
            },
            Some(Token::Sign("(")) => {
                let pipeline = self.deeper(|parser| parser.pipeline("parenthesized pipeline", words, 0))?;
                if !words.take(")") {
                    return Err("unclosed left paren".to_owned());
                }
                Term::Pipeline(Box::new(pipeline))
            }
            Some(token) => return Err(format!("unexpected {} in operand", shown(token))),
            None => return Err("unexpected end of an action".to_owned()),
        };
        while let Some(Token::Field { name, follows: true }) = words.peek() {
            fields.push(name.clone());
            words.at += 1;
        }
        Ok(Operand { term, fields })
    }

    fn known(&self, name: &str) -> Result<(), String> {
        let is_known = self.variables.iter().any(|known| known == name);
        if is_known { Ok(()) } else { Err(format!("undefined variable \"${name}\"")) }
    }
}

/// The tokens of one action.
struct Words<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl<'t> Words<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<&'t Token> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        self.at += usize::from(is_next);
        is_next
    }

    /// Reads `$a :=`, `$a =` or, in a range, `$index, $element :=`.
    fn declaration(&mut self, max_variables: usize) -> Result<(Vec<String>, bool), String> {
        let mut variables = Vec::new();
        let mut rest = &self.tokens[self.at..];
        while let [Token::Variable(name), Token::Sign(sign), after @ ..] = rest {
            variables.push(name.clone());
            rest = after;
            if *sign == "," {
                continue;
            }
            if !matches!(*sign, ":=" | "=") {
                break;
            }
            if variables.len() > max_variables {
                return Err("too many declarations".to_owned());
            }
            self.at = self.tokens.len() - rest.len();
            return Ok((variables, *sign == ":="));
        }
        Ok((Vec::new(), false))
    }
}

fn name_of<'t>(keyword: &str, tokens: &'t [Token]) -> Result<(&'t str, &'t [Token]), String> {
    match tokens {
        [Token::Text(name), rest @ ..] => Ok((name, rest)),
        _ => Err(format!("{{{{{keyword}}}}} needs a name in quotes")),
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("{word:?}"),
        Token::Field { name, .. } => format!("<.{name}>"),
        Token::Dot => "<.>".to_owned(),
        Token::Variable(name) => format!("variable \"${name}\""),
        Token::Text(text) => format!("string {text:?}"),
        Token::Int(value) => value.to_string(),
        Token::Float(value) => value.to_string(),
        Token::Sign(sign) => format!("{sign:?}"),
    }
}
