//! `Reinvocation`: records the first round of mutating plugins, to decide which hooks the second round calls.
//!
//! A webhook or policy with `reinvocationPolicy: IfNeeded` is called at most once more, if another one changed the object
//! after it. Corresponds to the ReinvocationContext of k8s.io/apiserver/pkg/admission and webhookReinvokeContext of its
//! plugins.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// State of the mutating half of the chain for one write.
#[derive(Debug, Default)]
pub struct Reinvocation {
    is_second: bool,
    wanted: bool,
    plugins: BTreeMap<&'static str, Invoked>,
}

/// The webhooks or policies that one plugin called.
#[derive(Debug, Default)]
struct Invoked {
    /// The object as the plugin left it.
    output: Option<Value>,
    /// Called since the last change, with `reinvocationPolicy: IfNeeded`.
    interested: BTreeSet<String>,
    /// To be called in the second round.
    due: BTreeSet<String>,
}

impl Reinvocation {
    /// Ends the first round; tells whether there is a second one.
    pub fn begin_again(&mut self) -> bool {
        let wanted = self.wanted && !self.is_second;
        self.is_second |= wanted;
        wanted
    }

    pub fn is_second(&self) -> bool {
        self.is_second
    }

    /// Begins a plugin. In the second round, all its interested hooks are due if other plugins changed the object meanwhile.
    pub fn begin(&mut self, plugin: &'static str, object: &Value) {
        let is_second = self.is_second;
        let invoked = self.plugins.entry(plugin).or_default();
        if is_second && invoked.output.as_ref().is_some_and(|output| output != object) {
            invoked.due.append(&mut invoked.interested);
        }
    }

    /// Tells whether to call a webhook or policy in this round.
    pub fn is_due(&self, plugin: &'static str, hook: &str) -> bool {
        !self.is_second || self.plugins.get(plugin).is_some_and(|invoked| invoked.due.contains(hook))
    }

    /// Records a call of a webhook or policy.
    pub fn called(&mut self, plugin: &'static str, hook: &str, changed: bool, if_needed: bool) {
        let invoked = self.plugins.entry(plugin).or_default();
        if changed {
            invoked.due.append(&mut invoked.interested);
            self.wanted = true;
        }
        if if_needed {
            invoked.interested.insert(hook.to_owned());
        }
    }

    /// Ends a plugin. Its output is recorded only if one of its hooks is interested in later changes.
    pub fn end(&mut self, plugin: &'static str, object: &Value) {
        let Some(invoked) = self.plugins.get_mut(plugin) else { return };
        invoked.output = (!invoked.interested.is_empty()).then(|| object.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLUGIN: &str = "Webhooks";

    /// Runs one round over webhooks `(name, changes, if needed)` and returns those that were called.
    fn round(
        reinvocation: &mut Reinvocation,
        object: &Value,
        hooks: &[(&'static str, bool, bool)],
    ) -> Vec<&'static str> {
        reinvocation.begin(PLUGIN, object);
        let mut called = Vec::new();
        for (name, changes, if_needed) in hooks {
            if reinvocation.is_due(PLUGIN, name) {
                called.push(*name);
                reinvocation.called(PLUGIN, name, *changes, *if_needed);
            }
        }
        reinvocation.end(PLUGIN, object);
        called
    }

    #[test]
    fn whoever_came_before_a_change_is_called_again_if_he_asks_for_it() {
        type Hooks = &'static [(&'static str, bool, bool)];
        let cases: [(Hooks, bool, &[&str]); 6] = [
            (&[("a", false, true), ("b", false, true)], false, &[]),
            (&[("a", true, false), ("b", true, false)], true, &[]),
            (&[("a", false, true), ("b", true, false)], true, &["a"]),
            (&[("a", true, true), ("b", false, true)], true, &[]),
            (&[("a", true, true), ("b", true, true)], true, &["a", "b"]),
            (&[("a", true, true), ("b", false, true), ("c", true, false)], true, &["a", "b"]),
        ];
        for (hooks, again, second) in cases {
            let mut reinvocation = Reinvocation::default();
            assert_eq!(round(&mut reinvocation, &json!(1), hooks).len(), hooks.len());
            assert_eq!(reinvocation.begin_again(), again, "{hooks:?}");
            if again {
                assert_eq!(round(&mut reinvocation, &json!(1), hooks), second, "{hooks:?}");
                assert!(!reinvocation.begin_again(), "two rounds at most");
            }
        }
    }

    #[test]
    fn what_other_plugins_change_in_the_second_round_counts() {
        let mut reinvocation = Reinvocation::default();
        let hooks: [(&'static str, bool, bool); 1] = [("a", true, true)];
        round(&mut reinvocation, &json!(1), &hooks);
        assert!(reinvocation.begin_again());
        assert_eq!(round(&mut reinvocation, &json!(2), &hooks), ["a"]);
    }
}
