//! The limit on the nesting of values in a body.

/// Limit on the nesting of values that are kept.
///
/// Deviation: Go accepts JSON that nests 10,000 levels deep. Here, JSON values below this limit are accepted only if
/// they are pruned or ignored. If they would be kept, and in YAML and protobuf, the body is refused, so that no
/// recursion over a tree can exhaust a stack.
pub const MAX_DEPTH: usize = 128;
/// The error for a body that nests deeper.
pub const TOO_DEEP: &str = "exceeded max depth";
