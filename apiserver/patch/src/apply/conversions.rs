//! `Conversions`: the results of conversion webhooks, for pure code that cannot call them.
//!
//! Pure code that lacks a conversion notes it here and is run again once the webhook has converted the object. So it
//! stays a pure function of an object, its managers and these results.

use parking_lot::Mutex;
use proto::wire::json::to_canonical;
use serde_json::Value;
use std::collections::BTreeMap;

/// The conversions of one attempt to write one object.
#[derive(Debug, Default)]
pub struct Conversions {
    /// Keyed by the object and the version.
    known: Mutex<BTreeMap<(Vec<u8>, String), Value>>,
    missing: Mutex<Vec<(Value, String)>>,
}

impl Conversions {
    /// Returns the converted object, or `None` and notes that it is missing.
    pub fn converted(&self, value: &Value, to: &str) -> Option<Value> {
        let found = self.known.lock().get(&(to_canonical(value), to.to_owned())).cloned();
        if found.is_none() {
            self.missing.lock().push((value.clone(), to.to_owned()));
        }
        found
    }

    pub fn take_missing(&self) -> Vec<(Value, String)> {
        std::mem::take(&mut self.missing.lock())
    }

    pub fn record(&self, value: &Value, to: &str, converted: Value) {
        self.known.lock().insert((to_canonical(value), to.to_owned()), converted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_is_asked_for() {
        let conversions = Conversions::default();
        let object = json!({"a": 1});
        assert_eq!(conversions.converted(&object, "g/v2"), None);
        assert_eq!(conversions.take_missing(), [(object.clone(), "g/v2".to_owned())]);
        conversions.record(&object, "g/v2", json!({"b": 1}));
        assert_eq!(conversions.converted(&object, "g/v2"), Some(json!({"b": 1})));
        assert_eq!(conversions.take_missing(), []);
    }
}
