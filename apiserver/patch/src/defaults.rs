//! `set_defaults`: fills in what a client left open, before and after whatever changes the object.
//!
//! Corresponds to the defaulting functions of pkg/apis and to structural defaulting of custom resources.

use proto::resources::Served;
use proto::schema::defaults::apply_defaults;
use serde_json::Value;

/// The documented defaults of a kind, in the request's version.
pub fn set_defaults(served: &Served, object: &mut Value) {
    if served.schema.is_builtin() {
        apply_defaults(&served.gvk(), object);
    } else {
        served.fill(object);
    }
}
