//! `Place`: the path from the top of an object to the value being decoded, kept on the stack.

use super::super::go_type;
use crate::serializer::path::Segment;

/// One segment of the path, linked to the segments above it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    above: Option<&'a Place<'a>>,
    segment: GoSegment<'a>,
    pub depth: usize,
}

#[derive(Clone, Copy)]
enum GoSegment<'a> {
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
        Self { above: None, segment: GoSegment::Root, depth: 0 }
    }

    fn below(&'a self, segment: GoSegment<'a>) -> Self {
        Self { above: Some(self), segment, depth: self.depth + 1 }
    }

    pub fn field(&'a self, owner: &'a str, name: &'a str) -> Self {
        self.below(GoSegment::Field { owner, name })
    }

    pub fn key(&'a self, key: &'a str) -> Self {
        self.below(GoSegment::Key(key))
    }

    pub fn index(&'a self, index: usize) -> Self {
        self.below(GoSegment::Index(index))
    }

    fn segments(&self) -> Vec<GoSegment<'a>> {
        let mut segments = Vec::with_capacity(self.depth);
        let mut place = *self;
        while let Some(above) = place.above {
            segments.push(place.segment);
            place = *above;
        }
        segments.reverse();
        segments
    }

    /// Returns the path as messages write it: `spec.containers[0].image`.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.segments() {
            match segment {
                GoSegment::Field { name, .. } | GoSegment::Key(name) => Segment::Key(name).push_to(&mut path),
                GoSegment::Index(index) => Segment::Index(index).push_to(&mut path),
                GoSegment::Root => {}
            }
        }
        path
    }

    /// Returns the path as Go's errors write it: `PodSpec.spec.template.spec.containers`. The struct of the innermost
    /// field comes first, then all fields and embedded structs, without list positions and map keys.
    pub fn go_path(&self) -> String {
        let (mut owner_name, mut path) = ("", String::new());
        for segment in self.segments() {
            if let GoSegment::Field { owner, name } = segment {
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

    /// Returns the owner and the name of the field, unless this place is an element inside a field.
    pub fn as_field(&self) -> Option<(&'a str, &'a str)> {
        match self.segment {
            GoSegment::Field { owner, name } => Some((owner, name)),
            _ => None,
        }
    }

    /// Returns whether Kubernetes stores the type around this field as protobuf. Extensions are stored as JSON, and
    /// reviews are not stored.
    pub fn is_stored_as_protobuf(&self) -> bool {
        let Some((owner, _)) = self.as_field() else { return false };
        owner.starts_with("io.k8s.api.")
            && !owner.starts_with("io.k8s.api.authentication.")
            && !owner.starts_with("io.k8s.api.authorization.")
    }
}
