//! `set_defaults`: fills in the fields that a client did not set, before and after every step that changes the object.
//!
//! Corresponds to the defaulting functions of pkg/apis and to structural defaulting of custom resources.

use proto::resources::Served;
use proto::schema::defaults::apply_defaults;
use serde_json::Value;

/// Sets the documented defaults of a kind, in the request's version.
pub fn set_defaults(served: &Served, object: &mut Value) {
    if served.schema.is_builtin() {
        apply_defaults(&served.gvk(), object);
    } else {
        served.fill(object);
    }
}
