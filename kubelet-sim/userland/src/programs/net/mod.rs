//! Programs that use the network as clients.

pub mod curl;
pub mod curl_options;
pub mod curl_format;
pub mod wget;
pub mod nslookup;
pub mod dig;
pub mod nc;
pub mod ping;
