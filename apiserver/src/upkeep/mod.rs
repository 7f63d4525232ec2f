//! Background loops of the server: the reload of the authentication configuration, and labels of legacy tokens.

pub mod authentication_reload;
pub mod legacy_token_use;
