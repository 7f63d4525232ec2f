//! `Dialect`: the version of OpenAPI in which types are written.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    V2,
    V3,
}
