//! `PolicySource`: the policies that have a binding, compiled again when they change.
//!
//! Corresponds to policy_source.go of k8s.io/apiserver/pkg/admission/plugin/policy/generic.

use super::binding::Binding;
use arc_swap::ArcSwap;
use cacher::lookup::Lookup;
use proto::{Object, Status};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const GROUP: &str = "admissionregistration.k8s.io";

/// A compiled policy of one kind.
pub trait Definition: Send + Sync + 'static {
    const POLICIES: &'static str;
    const BINDINGS: &'static str;
    fn compile(spec: &Value) -> Self;
}

/// A policy with its bindings.
#[derive(Debug)]
pub struct PolicyHook<D> {
    pub name: String,
    pub definition: Arc<D>,
    pub bindings: Vec<Binding>,
}

pub struct PolicySource<D> {
    compiled: ArcSwap<CompiledPolicies<D>>,
}

struct CompiledPolicies<D> {
    policies: Vec<Arc<Object>>,
    bindings: Vec<Arc<Object>>,
    hooks: Arc<Vec<PolicyHook<D>>>,
}

impl<D> Default for PolicySource<D> {
    fn default() -> Self {
        let nothing = CompiledPolicies { policies: Vec::new(), bindings: Vec::new(), hooks: Arc::default() };
        Self { compiled: ArcSwap::from_pointee(nothing) }
    }
}

fn are_same(now: &[Arc<Object>], then: &[Arc<Object>]) -> bool {
    now.len() == then.len() && now.iter().zip(then).all(|(now, then)| Arc::ptr_eq(now, then))
}

impl<D: Definition> PolicySource<D> {
    /// Returns the current policies, sorted by name.
    pub fn hooks(&self, lookup: &dyn Lookup) -> Result<Arc<Vec<PolicyHook<D>>>, Status> {
        let policies = lookup.list(GROUP, D::POLICIES, "")?;
        let bindings = lookup.list(GROUP, D::BINDINGS, "")?;
        let known = self.compiled.load();
        if are_same(&policies, &known.policies) && are_same(&bindings, &known.bindings) {
            return Ok(known.hooks.clone());
        }
        let hooks = Arc::new(known.next(&policies, &bindings));
        self.compiled.store(Arc::new(CompiledPolicies { policies, bindings, hooks: hooks.clone() }));
        Ok(hooks)
    }
}

impl<D: Definition> CompiledPolicies<D> {
    /// Compiles changed policies. An unchanged one keeps its expressions, and one without a binding is skipped.
    fn next(&self, policies: &[Arc<Object>], bindings: &[Arc<Object>]) -> Vec<PolicyHook<D>> {
        let mut by_policy: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
        for binding in bindings {
            let binding = Binding::read(&binding.peek());
            by_policy.entry(binding.policy.clone()).or_default().push(binding);
        }
        let mut hooks = Vec::new();
        for policy in policies {
            let Some(bindings) = by_policy.remove(&policy.index.name) else { continue };
            let is_same = self.policies.iter().any(|known| Arc::ptr_eq(known, policy));
            let before = self.hooks.iter().find(|hook| is_same && hook.name == policy.index.name);
            let definition = match before {
                Some(hook) => hook.definition.clone(),
                None => Arc::new(D::compile(&policy.peek()["spec"])),
            };
            hooks.push(PolicyHook { name: policy.index.name.to_string(), definition, bindings });
        }
        hooks
    }
}
