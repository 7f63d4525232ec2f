//! Connections that leave HTTP: many streams over one WebSocket or one SPDY connection.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/httpstream. Read from the bytes up: `wire` (a connection), `spdy` (its
//! frames), `event` (what happens on a stream), `channel_codec` (messages of numbered channels), `multiplex` (streams over a connection of either kind),
//! `upgrade` (how a client and the agent agree on one).

pub mod wire;
pub mod spdy;
pub mod event;
pub mod channel_codec;
pub mod multiplex;
pub mod fuzz;
pub mod upgrade;
