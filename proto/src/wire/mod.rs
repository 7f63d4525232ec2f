//! The wire forms: strict JSON, YAML, watch frames, tables.

pub mod json;
