//! `Place`: the way from the top of an object to the value being decoded, kept on the stack.

use super::super::go_type;
use std::fmt::Write;

/// One step down, linked to the steps above it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
    pub depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    /// A field of the named type.
    Field {
        owner: &'a str,
        name: &'a str,
    },
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    pub fn root() -> Self {
        Self { above: None, step: Step::Root, depth: 0 }
    }

    fn below(&'a self, step: Step<'a>) -> Self {
        Self { above: Some(self), step, depth: self.depth + 1 }
    }

    pub fn field(&'a self, owner: &'a str, name: &'a str) -> Self {
        self.below(Step::Field { owner, name })
    }

    pub fn key(&'a self, key: &'a str) -> Self {
        self.below(Step::Key(key))
    }

    pub fn index(&'a self, index: usize) -> Self {
        self.below(Step::Index(index))
    }

    fn steps(&self) -> Vec<Step<'a>> {
        let mut steps = Vec::with_capacity(self.depth);
        let mut place = *self;
        while let Some(above) = place.above {
            steps.push(place.step);
            place = *above;
        }
        steps.reverse();
        steps
    }

    /// `spec.containers[0].image`
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps() {
            match step {
                Step::Field { name, .. } | Step::Key(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
                Step::Index(index) => write!(path, "[{index}]").expect("writing to a string cannot fail"),
                Step::Root => {}
            }
        }
        path
    }

    /// `PodSpec.spec.template.spec.containers`: the struct of the innermost field, then the fields on the way, through
    /// embedded structs; list positions and map keys go unsaid.
    pub fn go_path(&self) -> String {
        let (mut owner_name, mut path) = ("", String::new());
        for step in self.steps() {
            if let Step::Field { owner, name } = step {
                owner_name = go_type::short(owner);
                if let Some(embedded) = go_type::embedded(owner, name) {
                    path.push('.');
                    path.push_str(embedded);
                }
                path.push('.');
                path.push_str(name);
            }
        }
        format!("{owner_name}{path}")
    }

    /// The field itself, if this place is one and not an element of it: its owner and its name.
    pub fn as_field(&self) -> Option<(&'a str, &'a str)> {
        match self.step {
            Step::Field { owner, name } => Some((owner, name)),
            _ => None,
        }
    }

    /// Whether Kubernetes keeps the type around this field as protobuf: extensions are JSON, reviews are not kept.
    pub fn is_stored_as_protobuf(&self) -> bool {
        let Some((owner, _)) = self.as_field() else { return false };
        owner.starts_with("io.k8s.api.")
            && !owner.starts_with("io.k8s.api.authentication.")
            && !owner.starts_with("io.k8s.api.authorization.")
    }
}
