//! Learning to schedule: what an agent observes at each decision (`layout`, `node_table`), and what it is rewarded for (`ledger`).

pub mod layout;
pub mod node_table;
pub mod ledger;
#[cfg(test)]
mod tests;
