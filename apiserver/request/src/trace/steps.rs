//! `Steps`: the recorder that a request carries, to which every stage adds its steps.

use super::step::Step;
use component_base::env::Env;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Largest number of steps: the deletion of a large collection has more than anybody reads.
const MAX_STEPS: usize = 1000;
/// Largest size of all patches, reasons and details of one trace.
const MAX_TEXT_BYTES: usize = 512 * 1024;
/// Longest reason in a step that was shortened.
const MAX_CUT_BYTES: usize = 256;

#[derive(Debug)]
pub struct Steps {
    env: Env,
    recording: Mutex<Recording>,
}

#[derive(Debug)]
struct Recording {
    steps: Vec<Step>,
    /// The end of the last step.
    clock: Instant,
    attempt: u32,
    room_bytes: usize,
    left_out: usize,
}

impl Steps {
    pub fn new(env: &Env) -> Self {
        let recording =
            Recording { steps: Vec::new(), clock: env.now(), attempt: 1, room_bytes: MAX_TEXT_BYTES, left_out: 0 };
        Self { env: env.clone(), recording: Mutex::new(recording) }
    }

    /// Starts a step: the time until now does not count for it.
    pub fn begin(&self) {
        self.recording.lock().clock = self.env.now();
    }

    /// Records that a write begins, for the first time or again.
    pub fn attempt(&self, number: u32) {
        self.recording.lock().attempt = number;
    }

    /// Adds a step that took the time since the last one.
    pub fn add(&self, step: Step) {
        let now = self.env.now();
        let mut recording = self.recording.lock();
        let took = now.duration_since(recording.clock);
        recording.clock = now;
        recording.push(Step { took_us: micros(took), ..step });
    }

    /// Adds a step that ran concurrently with others and began at `began`.
    pub fn add_since(&self, began: Instant, step: Step) {
        let now = self.env.now();
        let mut recording = self.recording.lock();
        recording.clock = now;
        recording.push(Step { took_us: micros(now.duration_since(began)), ..step });
    }

    pub fn now(&self) -> Instant {
        self.env.now()
    }

    pub fn len(&self) -> usize {
        let recording = self.recording.lock();
        recording.steps.len() + recording.left_out
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all steps, and the number of those that there was no room for.
    pub fn take(self) -> (Vec<Step>, usize) {
        let recording = self.recording.into_inner();
        (recording.steps, recording.left_out)
    }
}

fn micros(took: std::time::Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

impl Recording {
    fn push(&mut self, step: Step) {
        if self.steps.len() == MAX_STEPS {
            self.left_out += 1;
            return;
        }
        let step = Step { attempt: self.attempt, ..step };
        let text_bytes = text_bytes(&step);
        if text_bytes <= self.room_bytes {
            self.room_bytes -= text_bytes;
            self.steps.push(step);
        } else {
            self.steps.push(shortened(step));
        }
    }
}

fn text_bytes(step: &Step) -> usize {
    let patch = step.patch.as_ref().map_or(0, |patch| patch.to_string().len());
    let Step { question, of, by, reason, details, .. } = step;
    let texts = [question, of, by, reason].into_iter().chain(details);
    patch + texts.map(|text| text.len()).sum::<usize>()
}

/// Returns the step without its large parts.
fn shortened(step: Step) -> Step {
    let short = |mut text: String| {
        let end = (0..=MAX_CUT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text
    };
    let Step { question, of, by, reason, .. } = step;
    let (question, of, by, reason) = (short(question), short(of), short(by), short(reason));
    Step { question, of, by, reason, details: Vec::new(), patch: None, cut: true, ..step }
}

#[cfg(test)]
mod tests {
    use super::super::{Gate, StepOutcome};
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn step() -> Step {
        Step::new(Gate::MutatingAdmission, "Plugin", StepOutcome::Changed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_takes_the_time_since_the_last_one() {
        let env = Env::simulated(1);
        let steps = Steps::new(&env);
        let wait = |ms| env.sleep(Duration::from_millis(ms));
        wait(1).await;
        steps.add(step());
        wait(2).await;
        steps.begin();
        wait(4).await;
        steps.add(step());
        let began = steps.now();
        wait(8).await;
        steps.add(step());
        steps.attempt(2);
        steps.add_since(began, step());
        let (steps, _) = steps.take();
        assert_eq!(
            steps.iter().map(|s| (s.took_us, s.attempt)).collect::<Vec<_>>(),
            [(1000, 1), (4000, 1), (8000, 1), (8000, 2)]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_trace_is_bounded() {
        let steps = Steps::new(&Env::simulated(1));
        let large = json!([{"op": "add", "path": "/data", "value": "x".repeat(MAX_TEXT_BYTES / 2)}]);
        for _ in 0..3 {
            steps.add(Step { patch: Some(large.clone()), ..step().because("ü".repeat(MAX_CUT_BYTES)) });
        }
        for _ in 3..MAX_STEPS + 5 {
            steps.add(step());
        }
        assert_eq!(steps.len(), MAX_STEPS + 5);
        let (steps, left_out) = steps.take();
        assert_eq!((steps.len(), left_out), (MAX_STEPS, 5));
        let shapes = steps.iter().take(4).map(|s| (s.patch.is_some(), s.cut, s.reason.len()));
        let long = 2 * MAX_CUT_BYTES;
        assert_eq!(
            shapes.collect::<Vec<_>>(),
            [(true, false, long), (false, true, MAX_CUT_BYTES), (false, true, MAX_CUT_BYTES), (false, false, 0)]
        );
    }
}
