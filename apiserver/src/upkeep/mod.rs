//! Background loops that keep the server's own state and objects as they ought to be.

pub mod authentication_reload;
pub mod legacy_token_use;
