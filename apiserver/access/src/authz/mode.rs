//! `Mode`: the kinds of authorizers, as `--authorization-mode` names them.

use clap::ValueEnum;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Mode {
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    #[value(name = "AlwaysDeny")]
    AlwaysDeny,
    #[value(name = "ABAC")]
    Abac,
    #[value(name = "Webhook")]
    Webhook,
    #[value(name = "Node")]
    Node,
    #[value(name = "RBAC")]
    Rbac,
}

impl Mode {
    /// The names in the order in which error messages list them.
    pub const NAMES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];

    pub fn of_name(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}

/// Formats a mode as the command line spells it.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no mode is hidden").get_name())
    }
}
