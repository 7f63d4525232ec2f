//! `Selectors`: the compiled expressions of classes and requests.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/cel.Cache.

use crate::device::Device;
use crate::selector_verdicts::Compiled;
use cel::device::DeviceExpression;
use parking_lot::Mutex;
use proto::kinds::api::resource::v1::DeviceSelector;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of compiled expressions that are kept. A cluster has a few classes, and its claims are made from templates.
const MAX_EXPRESSIONS: usize = 256;

#[derive(Debug, Default)]
pub struct Selectors(Mutex<BTreeMap<String, Compiled>>);

impl Selectors {
    fn compiled(&self, expression: &str) -> Compiled {
        let mut kept = self.0.lock();
        if let Some(compiled) = kept.get(expression) {
            return compiled.clone();
        }
        if kept.len() >= MAX_EXPRESSIONS {
            kept.clear();
        }
        let compiled = Arc::new(DeviceExpression::compile(expression));
        kept.insert(expression.to_owned(), compiled.clone());
        compiled
    }

    /// Returns true if all selectors match a device. `owner` is the class or claim that has them, for the error.
    pub fn match_all(
        &self,
        selectors: &[DeviceSelector],
        device: &Device,
        owner: &dyn Fn() -> String,
    ) -> Result<bool, String> {
        for (number, selector) in selectors.iter().enumerate() {
            let Some(cel) = &selector.cel else {
                return Err(format!(
                    "{}: selector #{number}: CEL expression empty (unsupported selector type?)",
                    owner()
                ));
            };
            let compiled = self.compiled(&cel.expression);
            let expression = compiled
                .as_ref()
                .as_ref()
                .map_err(|why| format!("{}: selector #{number}: CEL compile error: {why}", owner()))?;
            let matches = device.verdicts.of(&compiled, || expression.matches(&device.value)).map_err(|why| {
                format!("{}: selector #{number} on device {}: CEL runtime error: {why}", owner(), device.id)
            })?;
            if !matches {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
