//! Tests of the etcd engine under failures of etcd: over a modelled cluster in virtual time, and over a real one.

mod misbehaving;
mod real;

use super::testing::model::{Model, ModelMember};
use super::testing::{options, over, over_with};
use super::*;
use component_base::env::Env;
