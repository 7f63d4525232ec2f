//! `History`: merges the events of all watches into the changes of a collection, and checks each watch against them.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Added,
    Modified,
    Deleted,
}

/// A watch event: the change of an object at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub revision: u64,
    pub kind: Kind,
    pub object: Object,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub name: String,
    pub uid: String,
    /// The label that selectors use.
    pub color: String,
    /// The content, different for each write.
    pub word: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Object { name, color, word, .. } = &self.object;
        write!(f, "{} {:?} {name} {color} {word}", self.revision, self.kind)
    }
}

/// One watch from its beginning to its end.
#[derive(Clone, Debug)]
pub struct Session {
    /// Description for error messages.
    pub about: String,
    /// Number of times that the store had lost its history before. A store inside the server loses it at a restart.
    pub epoch: usize,
    /// Color that the watch selects; `None` for all objects.
    pub color: Option<String>,
    /// The events of the watch are those after this revision.
    pub after: u64,
    /// The objects as of `after`, from the watch itself or from a list before it.
    pub initial: Option<Vec<Object>>,
    pub events: Vec<Event>,
    /// Revision of the last event or bookmark: all earlier changes were delivered.
    pub reached: u64,
}

/// All changes of a collection between two revisions.
#[derive(Debug)]
pub struct History {
    begin: u64,
    /// The objects as of `begin`.
    before: Vec<Object>,
    events: BTreeMap<u64, Event>,
    /// The last revision up to which an unfiltered watch has delivered all changes.
    end: u64,
}

impl History {
    /// Merges the unfiltered sessions. The history begins with the earliest session that has initial objects.
    pub fn merge(sessions: &[Session]) -> Result<Self, String> {
        let unfiltered = sessions.iter().filter(|session| session.color.is_none());
        let begun = unfiltered.clone().filter_map(|session| Some((session.after, session.initial.clone()?)));
        let (begin, before) = begun.min_by_key(|(after, _)| *after).ok_or("no session has initial objects")?;
        let end = unfiltered.clone().map(|session| session.reached).max().unwrap_or(begin);
        let mut history = Self { begin, before, events: BTreeMap::new(), end };
        for session in unfiltered {
            for event in session.events.iter().filter(|event| event.revision > begin) {
                let known = history.events.entry(event.revision).or_insert_with(|| event.clone());
                if known != event {
                    return Err(format!("{}: {event} and {known} cannot both be true", session.about));
                }
            }
        }
        history.check_order()?;
        Ok(history)
    }

    /// Checks that each object is created before it changes, and changes before it is deleted.
    fn check_order(&self) -> Result<(), String> {
        let mut there = self.state(None, self.begin);
        for event in self.events.values() {
            let object = &event.object;
            let before = match event.kind {
                Kind::Deleted => there.remove(object.name.as_str()),
                _ => there.insert(&object.name, object),
            };
            let fits = match (event.kind, before) {
                (Kind::Added, None) => true,
                (Kind::Modified, Some(before)) => before.uid == object.uid,
                (Kind::Deleted, Some(before)) => before == object,
                _ => false,
            };
            if !fits {
                return Err(format!("{event} after {before:?}"));
            }
        }
        Ok(())
    }

    pub fn revisions(&self) -> impl Iterator<Item = u64> + '_ {
        self.events.keys().copied()
    }

    pub fn at(&self, revision: u64) -> Option<&Event> {
        self.events.get(&revision)
    }

    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.values()
    }

    /// Returns the objects of a color as of a revision, by name.
    fn state(&self, color: Option<&str>, revision: u64) -> BTreeMap<&str, &Object> {
        let mut there: BTreeMap<&str, &Object> =
            self.before.iter().map(|object| (object.name.as_str(), object)).collect();
        for event in self.events.range(..=revision).map(|(_, event)| event) {
            match event.kind {
                Kind::Deleted => drop(there.remove(event.object.name.as_str())),
                _ => drop(there.insert(event.object.name.as_str(), &event.object)),
            }
        }
        there.retain(|_, object| color.is_none_or(|color| object.color == color));
        there
    }

    /// Returns the events that a watch for a color must deliver between two revisions. An object that starts to match
    /// is added for the watch. One that no longer matches is deleted, and its event has the last state that matched.
    fn due_events(&self, color: Option<&str>, after: u64, upto: u64) -> Vec<Event> {
        let mut matching: BTreeMap<&str, Object> =
            self.state(color, after).into_iter().map(|(name, object)| (name, object.clone())).collect();
        let mut due = Vec::new();
        for event in self.events.range(after + 1..upto.max(after) + 1).map(|(_, event)| event) {
            let name = event.object.name.as_str();
            let matches = event.kind != Kind::Deleted && color.is_none_or(|color| event.object.color == color);
            let before = if matches { matching.insert(name, event.object.clone()) } else { matching.remove(name) };
            let (kind, object) = match (before, matches) {
                (None, true) => (Kind::Added, event.object.clone()),
                (Some(_), true) => (Kind::Modified, event.object.clone()),
                (Some(before), false) => (Kind::Deleted, before),
                (None, false) => continue,
            };
            due.push(Event { revision: event.revision, kind, object });
        }
        due
    }

    /// Checks that a watch delivered exactly the due events between the history's beginning and its end.
    pub fn check(&self, session: &Session) -> Result<(), String> {
        let color = session.color.as_deref();
        if let Some(initial) = session.initial.as_ref().filter(|_| session.after >= self.begin) {
            let due = self.state(color, session.after);
            let mut shown: Vec<&Object> = initial.iter().collect();
            shown.sort_by(|a, b| a.name.cmp(&b.name));
            if !shown.iter().copied().eq(due.values().copied()) {
                return Err(format!("{}: began with {initial:?}, not {due:?}", session.about));
            }
        }
        let due = self.due_events(color, session.after.max(self.begin), session.reached.min(self.end));
        let is_known = |event: &&Event| event.revision > self.begin && event.revision <= self.end;
        let events: Vec<&Event> = session.events.iter().filter(is_known).collect();
        let wrong = (0..due.len().max(events.len())).find(|at| due.get(*at) != events.get(*at).copied());
        let Some(wrong) = wrong else { return Ok(()) };
        let shown = |event: Option<&Event>| event.map_or_else(|| "nothing".to_owned(), Event::to_string);
        let (due, delivered) = (shown(due.get(wrong)), shown(events.get(wrong).copied()));
        let Session { about, after, reached, .. } = session;
        Err(format!("{about}, from {after} to {reached}: delivered {delivered}, due was {due}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64, kind: Kind, name: &str, color: &str, word: &str) -> Event {
        let object = Object { name: name.into(), uid: format!("u-{name}"), color: color.into(), word: word.into() };
        Event { revision, kind, object }
    }

    fn session(color: Option<&str>, after: u64, events: &[Event], reached: u64) -> Session {
        let color = color.map(str::to_owned);
        let initial = (after == 0).then(Vec::new);
        Session { about: "it".into(), epoch: 0, color, after, initial, events: events.to_vec(), reached }
    }

    /// Returns a history: a is created, turns blue and is deleted; b is created.
    fn changes() -> Vec<Event> {
        vec![
            event(3, Kind::Added, "a", "red", "1"),
            event(5, Kind::Modified, "a", "blue", "2"),
            event(8, Kind::Added, "b", "red", "3"),
            event(9, Kind::Deleted, "a", "blue", "2"),
        ]
    }

    #[test]
    fn what_a_watch_may_tell() {
        let history = History::merge(&[session(None, 0, &changes(), 9)]).unwrap();
        history.check(&session(None, 4, &changes()[1..3], 8)).unwrap();
        let gone = event(5, Kind::Deleted, "a", "red", "1");
        let red = [event(3, Kind::Added, "a", "red", "1"), gone.clone(), changes()[2].clone()];
        history.check(&session(Some("red"), 0, &red, 9)).unwrap();
        history.check(&session(Some("red"), 3, &[gone], 7)).unwrap();
        let listed = Session { initial: Some(vec![changes()[1].object.clone()]), ..session(Some("blue"), 6, &[], 8) };
        history.check(&listed).unwrap();
    }

    #[test]
    fn what_a_watch_must_not_tell() {
        let history = History::merge(&[session(None, 0, &changes(), 9)]).unwrap();
        let all = changes();
        let refused = [
            ("a gap", vec![all[0].clone(), all[2].clone(), all[3].clone()]),
            ("a repeat", [&all[..2], &all[1..]].concat()),
            ("another order", vec![all[0].clone(), all[2].clone(), all[1].clone(), all[3].clone()]),
            ("too little before the last bookmark", all[..3].to_vec()),
            ("another word", [&all[..3], &[event(9, Kind::Deleted, "a", "blue", "1")]].concat()),
        ];
        for (what, events) in refused {
            assert!(history.check(&session(None, 0, &events, 9)).is_err(), "{what}");
        }
        assert!(history.check(&session(Some("blue"), 0, &all[1..2], 5)).is_err(), "new for this watch, not changed");
        let listed = Session { initial: Some(Vec::new()), ..session(None, 3, &all[1..], 9) };
        assert!(history.check(&listed).is_err(), "a is left out of the list");
    }

    #[test]
    fn contradictory_sessions_are_refused() {
        let other = event(5, Kind::Modified, "a", "red", "2");
        assert!(History::merge(&[session(None, 0, &changes(), 9), session(None, 4, &[other], 5)]).is_err());
        assert!(History::merge(&[session(None, 0, &changes()[1..], 9)]).is_err(), "a changed before it came");
        let begun =
            Session { initial: Some(vec![changes()[0].object.clone()]), ..session(None, 4, &changes()[1..], 9) };
        let history = History::merge(&[begun]).unwrap();
        history.check(&session(None, 0, &changes(), 9)).unwrap();
        assert!(history.check(&session(None, 0, &changes()[..3], 9)).is_err(), "a gap after the beginning");
    }
}
