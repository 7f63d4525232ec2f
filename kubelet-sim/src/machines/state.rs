//! `MachineState`: what one machine is told to be, by a user or by a failure.

use crate::documents::duration;
use component_base::duration::parse_duration;
use proto::kinds::jiff::SignedDuration;
use serde_json::Value;
use stages::reader::{Fields, Reader};

const FIELDS: [&str; 6] = ["state", "restart", "network", "slow", "fillDisk", "clockSkew"];
/// Bounds of a factor by which a machine is slower.
const MAX_SLOWDOWN: f64 = 1_000.0;

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Power {
    #[default]
    Running,
    /// Its pods are stopped by priority, and then it is off.
    ShuttingDown,
    /// It has lost its power, with everything that ran.
    Off,
    /// It is gone for good, and so is its Node.
    Removed,
}

/// The state of a machine. The default is a healthy machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineState {
    pub power: Power,
    /// Any text; another text than before restarts the machine.
    pub restart: String,
    /// True when neither its kubelet nor its pods reach anybody.
    pub is_partitioned: bool,
    /// Everything takes this many times as long.
    pub slowdown: f64,
    /// Part of the disk, from 0 to 1, that is filled by nobody's pod.
    pub disk_fill: f64,
    /// How far the machine's clock is ahead; negative when it is behind.
    pub clock_skew: SignedDuration,
}

impl Default for MachineState {
    fn default() -> Self {
        Self {
            power: Power::Running,
            restart: String::new(),
            is_partitioned: false,
            slowdown: 1.0,
            disk_fill: 0.0,
            clock_skew: SignedDuration::ZERO,
        }
    }
}

impl MachineState {
    /// Reads the state that a user wants, and reports every mistake.
    pub fn read(reader: &mut Reader, document: &Value, path: &str) -> Self {
        let Some(fields) = reader.object(document, path, &FIELDS) else { return Self::default() };
        Self {
            power: power(reader, &fields),
            restart: plain(&fields, "restart").unwrap_or_default(),
            is_partitioned: partition(reader, &fields),
            slowdown: slowdown(reader, &fields, "slow").unwrap_or(1.0),
            disk_fill: part(reader, &fields, "fillDisk").unwrap_or(0.0),
            clock_skew: skew(reader, &fields, "clockSkew").unwrap_or_default(),
        }
    }

    /// Returns the state of a machine to which both happen.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            power: self.power.max(other.power),
            restart: format!("{}{}", self.restart, other.restart),
            is_partitioned: self.is_partitioned || other.is_partitioned,
            slowdown: self.slowdown * other.slowdown,
            disk_fill: self.disk_fill.max(other.disk_fill),
            clock_skew: self.clock_skew.saturating_add(other.clock_skew),
        }
    }
}

fn power(reader: &mut Reader, fields: &Fields<'_>) -> Power {
    match reader.text(fields, "state") {
        None | Some("running") => Power::Running,
        Some("shutdown") => Power::ShuttingDown,
        Some("killed") => Power::Off,
        Some("removed") => Power::Removed,
        Some(_) => {
            reader.report(fields.path_of("state"), "must be running, shutdown, killed or removed");
            Power::Running
        }
    }
}

fn partition(reader: &mut Reader, fields: &Fields<'_>) -> bool {
    match reader.text(fields, "network") {
        None | Some("connected") => false,
        Some("partitioned") => true,
        Some(_) => {
            reader.report(fields.path_of("network"), "must be connected or partitioned");
            false
        }
    }
}

/// Returns a value that may be written as text or as a number.
fn plain(fields: &Fields<'_>, name: &str) -> Option<String> {
    match fields.get(name)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Reads a factor of at least 1, such as `4` or `4x`.
pub fn slowdown(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<f64> {
    let text = plain(fields, name)?;
    let factor = text.trim_end_matches('x').parse().ok().filter(|factor| (1.0..=MAX_SLOWDOWN).contains(factor));
    if factor.is_none() {
        reader.report(fields.path_of(name), "must be a factor from 1 to 1000, such as 4x");
    }
    factor
}

/// Reads a part of a whole in percent, such as `95%`, and returns it from 0 to 1.
pub fn part(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<f64> {
    let text = plain(fields, name)?;
    let percent: Option<f64> = text.strip_suffix('%').and_then(|number| number.parse().ok());
    let part = percent.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0);
    if part.is_none() {
        reader.report(fields.path_of(name), "must be a part of the disk, such as 95%");
    }
    part
}

/// Reads a duration with an optional sign, such as `-5m`.
pub fn skew(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<SignedDuration> {
    let text = reader.text(fields, name)?;
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let parsed = parse_duration(rest).ok().and_then(|duration| SignedDuration::try_from(duration).ok());
    if parsed.is_none() {
        reader.report(fields.path_of(name), "must be a duration, such as 30s or -5m");
    }
    parsed.map(|duration| duration * sign)
}

/// Reads a duration that must be there and be longer than nothing.
pub fn positive(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<std::time::Duration> {
    let problems = reader.problems.len();
    let found = duration(reader, fields, name).filter(|duration| !duration.is_zero());
    if found.is_none() && reader.problems.len() == problems {
        reader.report(fields.path_of(name), "required, and longer than nothing");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(document: Value) -> (MachineState, Vec<String>) {
        let mut reader = Reader::default();
        let state = MachineState::read(&mut reader, &document, "data.machine.n");
        (state, reader.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_word_is_read() {
        let healthy = MachineState::default;
        for (document, expected) in [
            (json!({}), healthy()),
            (json!({"state": "running", "network": "connected", "slow": 1, "fillDisk": "0%"}), healthy()),
            (json!({"state": "killed"}), MachineState { power: Power::Off, ..healthy() }),
            (json!({"state": "shutdown"}), MachineState { power: Power::ShuttingDown, ..healthy() }),
            (json!({"state": "removed"}), MachineState { power: Power::Removed, ..healthy() }),
            (json!({"restart": 3}), MachineState { restart: "3".to_owned(), ..healthy() }),
            (json!({"network": "partitioned"}), MachineState { is_partitioned: true, ..healthy() }),
            (json!({"slow": "2.5x"}), MachineState { slowdown: 2.5, ..healthy() }),
            (json!({"fillDisk": "50%"}), MachineState { disk_fill: 0.5, ..healthy() }),
            (json!({"clockSkew": "-5m"}), MachineState { clock_skew: SignedDuration::from_secs(-300), ..healthy() }),
        ] {
            assert_eq!(read(document.clone()), (expected, Vec::new()), "{document}");
        }
    }

    #[test]
    fn every_mistake_is_reported_with_its_path() {
        let document = json!({
            "state": "dead", "network": 1, "slow": "0.5x", "fillDisk": "120%", "clockSkew": "soon", "colour": "red",
        });
        let (_, mut problems) = read(document);
        problems.sort();
        let expected = [
            "data.machine.n.clockSkew: must be a duration, such as 30s or -5m",
            "data.machine.n.colour: unknown field",
            "data.machine.n.fillDisk: must be a part of the disk, such as 95%",
            "data.machine.n.network: must be a string",
            "data.machine.n.slow: must be a factor from 1 to 1000, such as 4x",
            "data.machine.n.state: must be running, shutdown, killed or removed",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn the_worse_of_two_states_counts() {
        let killed = MachineState { power: Power::Off, slowdown: 2.0, ..MachineState::default() };
        let cut_off = MachineState { is_partitioned: true, slowdown: 3.0, ..MachineState::default() };
        let both = MachineState { power: Power::Off, is_partitioned: true, slowdown: 6.0, ..MachineState::default() };
        assert_eq!((killed.and(&cut_off), cut_off.and(&killed)), (both.clone(), both));
        assert_eq!(killed.and(&MachineState::default()), killed);
    }
}
