//! How deep the values of a body may nest.

/// Limit on the nesting of values that are kept.
///
/// Deviation: JSON nests 10,000 levels deep, as in Go, where what is deeper than this is pruned or ignored; where it
/// would be kept, and in YAML and protobuf, it is refused, so that no recursion over a tree can exhaust a stack.
pub const MAX_DEPTH: usize = 128;
/// The error for a body that nests deeper.
pub const TOO_DEEP: &str = "exceeded max depth";
