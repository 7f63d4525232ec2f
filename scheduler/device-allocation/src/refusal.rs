//! `Refusal`: why the devices of some claims cannot be allocated on a node, in Kubernetes' words.
//!
//! Corresponds to the errors of the structured allocator, and to their use in Filter of
//! pkg/scheduler/framework/plugins/dynamicresources.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node has not the devices.
    NotEnough,
    /// The node has not the devices, and some of its pools are invalid.
    InvalidPools,
    /// The search was given up.
    TooManySteps,
    /// Something is wrong with a claim or a class, so that no node will do.
    Broken(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotEnough => "cannot allocate all claims",
            Self::InvalidPools => "invalid resource pools were encountered",
            Self::TooManySteps => "timed out trying to allocate devices",
            Self::Broken(why) => why,
        })
    }
}
