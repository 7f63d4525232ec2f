//! Learning to schedule: what an agent observes at each decision (`layout`), and what it is rewarded for (`ledger`).

pub mod layout;
pub mod ledger;
#[cfg(test)]
mod tests;
