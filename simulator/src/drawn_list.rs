//! `DrawnList`: what a run has drawn so far, faults or actions of the user, and the choice of what takes place.

use crate::plan::fault::Drawn;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Something that a run has drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Draw {
    Fault(Drawn),
    Action(Drawn),
}

/// Learns of each draw when it happens, and again when it is known what it was. A run that never ends tells nobody afterwards.
#[derive(Clone)]
pub struct Listener(pub Arc<dyn Fn(Draw) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

#[derive(Debug)]
pub struct DrawnList {
    of: fn(Drawn) -> Draw,
    /// Numbers of what takes place; `None` for all.
    kept: Option<BTreeSet<u32>>,
    listener: Option<Listener>,
    all: Mutex<Vec<Drawn>>,
}

impl DrawnList {
    pub fn keeping(of: fn(Drawn) -> Draw, kept: Option<BTreeSet<u32>>, listener: Option<Listener>) -> Self {
        Self { of, kept, listener, all: Mutex::default() }
    }

    fn tell(&self, drawn: &Drawn) {
        if let Some(Listener(tell)) = &self.listener {
            tell((self.of)(drawn.clone()));
        }
    }

    pub fn all(&self) -> Vec<Drawn> {
        self.all.lock().clone()
    }

    /// Adds what is drawn now. Returns its number, and true if it is to take place.
    pub fn draw(&self, at: Duration) -> (u32, bool) {
        let mut all = self.all.lock();
        let number = u32::try_from(all.len() + 1).unwrap_or(u32::MAX);
        let at = format!("{}.{:03}s", at.as_secs(), at.subsec_millis());
        let drawn = Drawn { number, at: Some(at), what: None };
        self.tell(&drawn);
        all.push(drawn);
        (number, self.kept.as_ref().is_none_or(|kept| kept.contains(&number)))
    }

    /// Says to a reader what something was.
    pub fn describe(&self, number: u32, what: String) {
        if let Some(drawn) = self.all.lock().get_mut(number as usize - 1) {
            drawn.what = Some(what);
            self.tell(drawn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_a_number_too() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let listener = Listener(Arc::new(move |draw| heard.lock().push(draw)));
        let list = DrawnList::keeping(Draw::Action, Some(BTreeSet::from([2])), Some(listener));
        let drawn = [1, 2, 3].map(|second| list.draw(Duration::from_secs(second)));
        list.describe(2, "a storm".to_owned());
        assert_eq!(drawn, [(1, false), (2, true), (3, false)]);
        let second = Drawn { number: 2, at: Some("2.000s".to_owned()), what: Some("a storm".to_owned()) };
        assert_eq!(list.all()[1], second);
        assert_eq!(told.lock().len(), 4);
        assert_eq!(told.lock().last(), Some(&Draw::Action(second)));
    }
}
