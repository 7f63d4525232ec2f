//! `DrawnList`: what a run has drawn so far, faults or actions of the user, and the choice of what takes place.

use crate::plan::fault::Drawn;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Debug, Default)]
pub struct DrawnList {
    /// Numbers of what takes place; `None` for all.
    kept: Option<BTreeSet<u32>>,
    all: Mutex<Vec<Drawn>>,
}

impl DrawnList {
    pub fn keeping(kept: Option<BTreeSet<u32>>) -> Self {
        Self { kept, all: Mutex::default() }
    }

    pub fn all(&self) -> Vec<Drawn> {
        self.all.lock().clone()
    }

    /// Adds what is drawn now. Returns its number, and true if it is to take place.
    pub fn draw(&self, at: Duration) -> (u32, bool) {
        let mut all = self.all.lock();
        let number = u32::try_from(all.len() + 1).unwrap_or(u32::MAX);
        let at = format!("{}.{:03}s", at.as_secs(), at.subsec_millis());
        all.push(Drawn { number, at: Some(at), what: None });
        (number, self.kept.as_ref().is_none_or(|kept| kept.contains(&number)))
    }

    /// Says to a reader what something was.
    pub fn describe(&self, number: u32, what: String) {
        if let Some(drawn) = self.all.lock().get_mut(number as usize - 1) {
            drawn.what = Some(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_a_number_too() {
        let list = DrawnList::keeping(Some(BTreeSet::from([2])));
        let drawn = [1, 2, 3].map(|second| list.draw(Duration::from_secs(second)));
        list.describe(2, "a storm".to_owned());
        assert_eq!(drawn, [(1, false), (2, true), (3, false)]);
        let second = Drawn { number: 2, at: Some("2.000s".to_owned()), what: Some("a storm".to_owned()) };
        assert_eq!(list.all()[1], second);
    }
}
