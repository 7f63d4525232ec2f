//! The registry of Kubernetes' own types by their OpenAPI names, so that rows of the resource table can name them.
//!
//! Corresponds to the definition names of k8s.io/kube-openapi.

use super::TypeRef;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

static TYPES: OnceLock<Mutex<BTreeMap<Arc<str>, TypeRef>>> = OnceLock::new();

/// The type of that name, declared at its first use: `io.k8s.api.core.v1.Pod`.
pub fn builtin_type(name: &str) -> TypeRef {
    let mut types = TYPES.get_or_init(Mutex::default).lock().expect("no holder of this lock panics");
    types.entry(name.into()).or_insert_with(|| TypeRef::declared(name)).clone()
}
