//! Renders a template.
//!
//! Corresponds to text/template/exec.go.

use crate::template::budget::{Budget, MAX_BYTES};
use crate::template::facts::Facts;
use crate::template::functions::Body;
use crate::template::syntax::{Command, Node, Operand, Pipeline, Program, Term};
use crate::template::value::Value;

pub struct Evaluation<'t> {
    program: &'t Program,
    facts: &'t Facts,
    budget: Budget,
    /// The variables in scope, the newest last.
    variables: Vec<(&'t str, Value)>,
    pub written: String,
}

/// What follows after a list of nodes.
enum Flow {
    Next,
    Break,
    Continue,
}

impl<'t> Evaluation<'t> {
    pub fn new(program: &'t Program, facts: &'t Facts, budget: Budget) -> Self {
        Self { program, facts, budget, variables: Vec::new(), written: String::new() }
    }

    pub fn render(&mut self, dot: Value) -> Result<(), String> {
        let program = self.program;
        self.body(&program.body, dot)
    }

    /// Renders the body of a template, which sees no variable but `$`.
    fn body(&mut self, nodes: &'t [Node], dot: Value) -> Result<(), String> {
        let outer = std::mem::replace(&mut self.variables, vec![("", dot.clone())]);
        self.nodes(nodes, &dot)?;
        self.variables = outer;
        Ok(())
    }

    fn nodes(&mut self, nodes: &'t [Node], dot: &Value) -> Result<Flow, String> {
        self.budget.enter()?;
        let flow = self.each_node(nodes, dot)?;
        self.budget.leave();
        Ok(flow)
    }

    fn each_node(&mut self, nodes: &'t [Node], dot: &Value) -> Result<Flow, String> {
        for node in nodes {
            self.budget.step()?;
            match node {
                Node::Text(text) => self.write(text)?,
                Node::Print(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.variables.is_empty() {
                        let text = if let Value::Nil = value { "<no value>".to_owned() } else { value.shown() };
                        self.write(&text)?;
                    }
                }
                Node::Call { name, argument } => self.call(name, argument.as_ref(), dot)?,
                Node::Break => return Ok(Flow::Break),
                Node::Continue => return Ok(Flow::Continue),
                Node::If(branches, otherwise) => {
                    let outer = self.variables.len();
                    let mut chosen = (otherwise, None);
                    for branch in branches {
                        let value = self.pipeline(&branch.condition, dot)?;
                        if value.is_true() {
                            chosen = (&branch.body, branch.sets_dot.then_some(value));
                            break;
                        }
                    }
                    let flow = self.nodes(chosen.0, chosen.1.as_ref().unwrap_or(dot))?;
                    self.variables.truncate(outer);
                    if !matches!(flow, Flow::Next) {
                        return Ok(flow);
                    }
                }
                Node::Range { over, body, otherwise } => {
                    let flow = self.range(over, body, otherwise, dot)?;
                    if !matches!(flow, Flow::Next) {
                        return Ok(flow);
                    }
                }
            }
        }
        Ok(Flow::Next)
    }

    fn call(&mut self, name: &str, argument: Option<&'t Pipeline>, dot: &Value) -> Result<(), String> {
        let argument = argument.map_or(Ok(Value::Nil), |argument| self.pipeline(argument, dot))?;
        let nodes = self.program.defined.get(name).ok_or_else(|| format!("template {name:?} not defined"))?;
        self.body(nodes, argument)
    }

    fn range(
        &mut self,
        over: &'t Pipeline,
        body: &'t [Node],
        otherwise: &'t [Node],
        dot: &Value,
    ) -> Result<Flow, String> {
        let outer = self.variables.len();
        let value = self.value(over, dot)?;
        let rounds: Vec<(Value, Value)> = match &value {
            Value::Nil => Vec::new(),
            Value::List(items) => {
                items.iter().enumerate().map(|(index, item)| (Value::Int(index as i64), item.clone())).collect()
            }
            Value::Map(members) => members.iter().map(|(key, value)| (Value::text(key), value.clone())).collect(),
            Value::Int(count) => {
                let count = (*count).clamp(0, MAX_BYTES as i64);
                (0..count).map(|index| (Value::Int(index), Value::Int(index))).collect()
            }
            other => return Err(format!("range can't iterate over {}", other.shown())),
        };
        if rounds.is_empty() {
            let flow = self.nodes(otherwise, dot)?;
            self.variables.truncate(outer);
            return Ok(flow);
        }
        for (index, element) in rounds {
            self.budget.step()?;
            let values = match over.variables.len() {
                2 => vec![index, element.clone()],
                _ => vec![element.clone()],
            };
            for (name, value) in over.variables.iter().zip(values) {
                self.give(name, value, over.declares);
            }
            let flow = self.nodes(body, &element)?;
            self.variables.truncate(outer);
            if let Flow::Break = flow {
                break;
            }
        }
        Ok(Flow::Next)
    }

    /// Computes a pipeline, and gives its value to the variable that it names.
    fn pipeline(&mut self, pipeline: &'t Pipeline, dot: &Value) -> Result<Value, String> {
        let value = self.value(pipeline, dot)?;
        for name in &pipeline.variables {
            self.give(name, value.clone(), pipeline.declares);
        }
        Ok(value)
    }

    fn give(&mut self, name: &'t str, value: Value, declares: bool) {
        let known = self.variables.iter_mut().rev().find(|(known, _)| *known == name);
        match known {
            Some((_, variable)) if !declares => *variable = value,
            _ => self.variables.push((name, value)),
        }
    }

    fn value(&mut self, pipeline: &'t Pipeline, dot: &Value) -> Result<Value, String> {
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, value, dot)?);
        }
        Ok(value.unwrap_or(Value::Nil))
    }

    fn command(&mut self, command: &'t Command, last: Option<Value>, dot: &Value) -> Result<Value, String> {
        match command.head.term {
            Term::Function(function) if command.head.fields.is_empty() => {
                self.budget.step()?;
                let computed = match function.body {
                    Body::And => self.decide(&command.arguments, last, dot, false)?,
                    Body::Or => self.decide(&command.arguments, last, dot, true)?,
                    Body::Plain(compute) => {
                        let mut arguments = Vec::with_capacity(command.arguments.len() + 1);
                        for argument in &command.arguments {
                            arguments.push(self.operand(argument, dot)?);
                        }
                        arguments.extend(last);
                        function
                            .check(arguments.len())
                            .and_then(|()| compute(&arguments, self.facts))
                            .map_err(|why| format!("error calling {}: {why}", function.name))?
                    }
                };
                self.budget.computed(&computed)?;
                Ok(computed)
            }
            _ => self.operand(&command.head, dot),
        }
    }

    /// Computes `and` and `or`, which stop at the first value that decides.
    fn decide(
        &mut self,
        arguments: &'t [Operand],
        last: Option<Value>,
        dot: &Value,
        decides: bool,
    ) -> Result<Value, String> {
        let mut value = None;
        for argument in arguments {
            let found = self.operand(argument, dot)?;
            if found.is_true() == decides {
                return Ok(found);
            }
            value = Some(found);
        }
        last.or(value).ok_or_else(|| "wrong number of args: want at least 1 got 0".to_owned())
    }

    fn operand(&mut self, operand: &'t Operand, dot: &Value) -> Result<Value, String> {
        let mut value = match &operand.term {
            Term::Dot => dot.clone(),
            Term::Literal(value) => value.clone(),
            Term::Variable(name) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                found.map(|(_, value)| value.clone()).ok_or_else(|| format!("undefined variable: ${name}"))?
            }
            Term::Function(function) => match function.body {
                Body::Plain(compute) => function
                    .check(0)
                    .and_then(|()| compute(&[], self.facts))
                    .map_err(|why| format!("error calling {}: {why}", function.name))?,
                Body::And | Body::Or => return Err(format!("wrong number of args for {}", function.name)),
            },
            Term::Pipeline(pipeline) => self.value(pipeline, dot)?,
        };
        for field in &operand.fields {
            value = match &value {
                Value::Nil => Value::Nil,
                Value::Map(members) => members.get(field).cloned().unwrap_or(Value::Nil),
                other => return Err(format!("can't evaluate field {field} in type {}", other.type_name())),
            };
        }
        Ok(value)
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        if self.written.len() + text.len() > MAX_BYTES {
            return Err(format!("the template writes more than {MAX_BYTES} bytes"));
        }
        self.written.push_str(text);
        Ok(())
    }
}
