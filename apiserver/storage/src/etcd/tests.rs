//! The etcd engine where etcd misbehaves: over a modelled cluster in virtual time, and over a real one.

mod misbehaving;
mod real;

use super::testing::model::{Model, ModelMember};
use super::testing::{options, over, over_with};
use super::*;
use component_base::env::Env;
