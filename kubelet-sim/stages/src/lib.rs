//! Stages of KWOK: rules that say what happens next to a pod or node, and when.
//!
//! A `Stage` (`kwok.x-k8s.io/v1alpha1`) selects objects, waits for a delay, and then takes steps: it sends an event,
//! changes finalizers, deletes the object, or patches it with a rendered template. `document` reads files of stages,
//! `Stages::choose` picks the stage of an object, and `Stage::actions` says what to send to the API server. Corresponds
//! to sigs.k8s.io/kwok/pkg/utils/lifecycle. The crate does no IO, reads no clock and draws no random number.
//!
//! Both small languages of stages are written here instead of taken from libraries, so that every stage ends. A query
//! has jq's paths, filters, comparisons and the functions of `query::functions`, but no loops and no definitions.
//! A template is Go's `text/template` with the functions of `template::functions`; it renders within a `Budget`.
//! The jq libraries of the registry evaluate lazily and cannot be stopped in a recursion; no library renders Go's
//! templates with Go's rules of truth, variables and trimming.

// Reading with paths: every mistake of a file is reported at once.
pub mod problem;
pub mod reader;

// The languages.
pub mod query;
pub mod template;

// One stage.
mod expression;
mod selector;
mod delay;
mod step;
pub mod stage;

// Many stages.
pub mod choice;
pub mod document;
pub mod current;

// Objects on their way through stages.
pub mod runs;

// Fuzzing and tests.
pub mod fuzz;
#[cfg(test)]
mod tests;
