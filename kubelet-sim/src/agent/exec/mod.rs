//! `exec` and `attach`: a command in a container, connected to a client.
//!
//! Corresponds to k8s.io/kubelet/pkg/cri/streaming/remotecommand. Read `handler` first: it checks the request, opens
//! the channels that the options name, and runs the command in a terminal.

pub mod options;
pub mod channels;
pub mod terminal;
pub mod handler;
