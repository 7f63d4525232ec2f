//! `CurrentStages`: the stages of files and of the API server, as they are now.

use crate::choice::Stages;
use crate::problem::Problem;
use crate::stage::{Stage, Subject};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The present stages. A stage of the API server takes the place of one of a file with its name.
#[derive(Debug)]
pub struct CurrentStages(Mutex<State>);

#[derive(Debug)]
struct State {
    of_files: Vec<Stage>,
    of_objects: BTreeMap<String, Stage>,
    all: Arc<Stages>,
}

impl CurrentStages {
    pub fn new(of_files: Vec<Stage>) -> Self {
        let all = Arc::new(Stages::new(of_files.iter().cloned()));
        Self(Mutex::new(State { of_files, of_objects: BTreeMap::new(), all }))
    }

    pub fn all(&self) -> Arc<Stages> {
        self.0.lock().all.clone()
    }

    pub fn has(&self, subject: Subject) -> bool {
        self.0.lock().all.has(subject)
    }

    /// Observes a Stage object. One that cannot be read is as good as absent; its mistakes are returned.
    pub fn observe(&self, name: &str, object: &Value) -> Result<(), Vec<Problem>> {
        let read = Stage::read(object);
        let mut state = self.0.lock();
        let outcome = match read {
            Ok(stage) => {
                state.of_objects.insert(name.to_owned(), stage);
                Ok(())
            }
            Err(problems) => {
                state.of_objects.remove(name);
                Err(problems)
            }
        };
        state.join();
        outcome
    }

    /// Observes that a Stage object was deleted.
    pub fn remove(&self, name: &str) {
        let mut state = self.0.lock();
        state.of_objects.remove(name);
        state.join();
    }
}

impl State {
    fn join(&mut self) {
        self.all = Arc::new(Stages::new(self.of_files.iter().chain(self.of_objects.values()).cloned()));
    }
}
