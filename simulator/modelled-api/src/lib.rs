//! A model of what a scheduler meets besides itself: the API server, the nodes, and what becomes of pods.
//!
//! Nothing is stored, encoded or authorized, and no controller runs. A scheduler runs on it as in a cluster: its informers get
//! every change, and its requests are answered. Times are those of a simulated cluster whose requests take equally long.
//! Read in order: `pod` (what each write does to a pod), `life` (when a node does what with a pod), `objects` (what nodes read
//! for pods), `fleet` (nodes, their images and failures), `world` (all of it together, by virtual time), `world::kubelet` (what
//! kubelets do and when they report it), `requests` (what the scheduler sends), `answered` (how much).

pub mod pod;
pub mod life;
mod objects;
pub mod fleet;
pub mod world;
mod requests;
pub mod answered;

pub use fleet::unmodelled;
pub use world::{Change, ModelledApi, Settings};
