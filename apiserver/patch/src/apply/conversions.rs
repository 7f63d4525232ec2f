//! `Conversions`: what a webhook has converted, for pure code that cannot ask one.
//!
//! Whoever needs a conversion that is not here notes it and is run again when it is: a pure function of an object, its
//! managers and these.

use parking_lot::Mutex;
use proto::wire::json::to_canonical;
use serde_json::Value;
use std::collections::BTreeMap;

/// Of one attempt to write one object.
#[derive(Debug, Default)]
pub struct Conversions {
    /// By the object and the version.
    known: Mutex<BTreeMap<(Vec<u8>, String), Value>>,
    wanted: Mutex<Vec<(Value, String)>>,
}

impl Conversions {
    /// `None`: not yet.
    pub fn converted(&self, value: &Value, to: &str) -> Option<Value> {
        let found = self.known.lock().get(&(to_canonical(value), to.to_owned())).cloned();
        if found.is_none() {
            self.wanted.lock().push((value.clone(), to.to_owned()));
        }
        found
    }

    pub fn take_wanted(&self) -> Vec<(Value, String)> {
        std::mem::take(&mut self.wanted.lock())
    }

    pub fn learn(&self, value: &Value, to: &str, converted: Value) {
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
        assert_eq!(conversions.take_wanted(), [(object.clone(), "g/v2".to_owned())]);
        conversions.learn(&object, "g/v2", json!({"b": 1}));
        assert_eq!(conversions.converted(&object, "g/v2"), Some(json!({"b": 1})));
        assert_eq!(conversions.take_wanted(), []);
    }
}
