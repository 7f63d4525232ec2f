//! `Dialect`: how the versions of OpenAPI differ in writing types.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    V2,
    V3,
}
