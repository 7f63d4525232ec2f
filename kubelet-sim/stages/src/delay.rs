//! `Delay`: how long a stage waits.

use crate::expression::Expression;
use crate::reader::{Fields, Reader};
use cel::parse_duration;
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// The longest delay. A longer one has no use, and the sum of two of them still is a time.
const MAX_DELAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A delay between `duration` and `jitter`; without jitter, `duration` itself.
#[derive(Clone, Debug, Default)]
pub struct Delay {
    duration: Length,
    jitter: Option<Length>,
}

#[derive(Clone, Debug, Default)]
struct Length {
    fixed: Option<Duration>,
    /// Finds a duration such as `5s`, or a time. It comes before the fixed length.
    from: Option<Expression>,
}

impl Delay {
    pub fn read(reader: &mut Reader, spec: &Fields<'_>) -> Self {
        let known = ["durationMilliseconds", "durationFrom", "jitterDurationMilliseconds", "jitterDurationFrom"];
        let Some(fields) = reader.child(spec, "delay", &known) else { return Self::default() };
        let mut length = |fixed: &str, from: &str| {
            let ms = reader.count(&fields, fixed);
            if ms.is_some_and(|ms| Duration::from_millis(ms) > MAX_DELAY) {
                reader.report(fields.path_of(fixed), "must be at most ten years");
            }
            Length { fixed: ms.map(Duration::from_millis), from: Expression::read(reader, &fields, from) }
        };
        let duration = length("durationMilliseconds", "durationFrom");
        let jitter = length("jitterDurationMilliseconds", "jitterDurationFrom");
        Self { duration, jitter: (jitter.fixed.is_some() || jitter.from.is_some()).then_some(jitter) }
    }

    /// Returns the delay of an object that was first selected at `since`. `draw` lies in `0..1`.
    ///
    /// A jitter that is shorter than the duration takes its place, as in KWOK.
    pub fn of(&self, object: &Value, since: Timestamp, draw: f64) -> Duration {
        let duration = self.duration.of(object, since).unwrap_or_default();
        match self.jitter.as_ref().and_then(|jitter| jitter.of(object, since)) {
            Some(jitter) if jitter <= duration => jitter,
            Some(jitter) => duration + (jitter - duration).mul_f64(draw.clamp(0.0, 1.0)),
            None => duration,
        }
    }
}

impl Length {
    fn of(&self, object: &Value, since: Timestamp) -> Option<Duration> {
        let found = self.from.as_ref().and_then(|from| from.first(object));
        match found.as_ref().and_then(Value::as_str) {
            Some("") => None,
            Some(text) => parsed(text, since).or(self.fixed),
            None => self.fixed,
        }
    }
}

/// Reads a duration, or the time that is left until a timestamp; one that has passed leaves none.
fn parsed(text: &str, since: Timestamp) -> Option<Duration> {
    let signed = match text.parse::<Timestamp>() {
        Ok(time) => time.duration_since(since),
        Err(_) => parse_duration(text)?,
    };
    Some(Duration::try_from(signed).unwrap_or(Duration::ZERO).min(MAX_DELAY))
}
