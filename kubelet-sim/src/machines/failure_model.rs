//! `FailureModel`: how machines fail by themselves, and for how long.

use crate::machines::state::{self, MachineState, Power};
use serde_json::Value;
use stages::problem::Problem;
use stages::reader::{Fields, Reader};
use std::time::Duration;
use userland::pattern::glob::Glob;

const FIELDS: [&str; 13] = [
    "name",
    "failure",
    "scope",
    "nodes",
    "zones",
    "mtbf",
    "mttr",
    "after",
    "for",
    "every",
    "slow",
    "fillDisk",
    "clockSkew",
];

/// A failure, the machines that have it, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureModel {
    pub name: String,
    /// What a machine is while the failure lasts.
    pub failure: MachineState,
    /// True when all machines of a zone fail at the same time.
    pub by_zone: bool,
    /// Patterns of the names of nodes; all nodes if there are none.
    pub nodes: Vec<Glob>,
    /// Patterns of the names of zones; all zones if there are none.
    pub zones: Vec<Glob>,
    pub timing: Timing,
}

/// When failures begin and end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// At random: the time between failures and the time to repair have exponential distributions with these means.
    Random { mean_between: Duration, mean_to_repair: Duration },
    /// As planned: the first after some time, and then again and again if there is a period.
    Planned { after: Duration, lasts: Duration, every: Option<Duration> },
}

impl FailureModel {
    /// Reads one model, or returns every mistake in it.
    pub fn read(document: &Value, path: &str) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::default();
        let model = match reader.object(document, path, &FIELDS) {
            Some(fields) => model(&mut reader, &fields),
            None => None,
        };
        match model {
            Some(model) if reader.problems.is_empty() => Ok(model),
            _ => Err(reader.problems),
        }
    }

    /// Returns what fails together with a node: the node itself or its zone; `None` when the model leaves it alone.
    pub fn target_of(&self, node: &str, zone: &str) -> Option<String> {
        let is_one_of = |globs: &[Glob], text: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches(text));
        if !is_one_of(&self.nodes, node) || !is_one_of(&self.zones, zone) {
            return None;
        }
        match self.by_zone {
            true => Some(format!("zone {zone}")),
            false => Some(format!("node {node}")),
        }
    }
}

fn model(reader: &mut Reader, fields: &Fields<'_>) -> Option<FailureModel> {
    let name = reader.required_text(fields, "name").map(str::to_owned);
    let failure = failure(reader, fields);
    let by_zone = match reader.text(fields, "scope") {
        None | Some("node") => false,
        Some("zone") => true,
        Some(_) => {
            reader.report(fields.path_of("scope"), "must be node or zone");
            false
        }
    };
    let globs = |texts: Vec<String>| texts.iter().map(|text| Glob::parse(text)).collect();
    let (nodes, zones) = (globs(reader.texts(fields, "nodes")), globs(reader.texts(fields, "zones")));
    let timing = timing(reader, fields);
    Some(FailureModel { name: name?, failure: failure?, by_zone, nodes, zones, timing: timing? })
}

/// Reads the kind of the failure, and the one field that says how bad it is.
fn failure(reader: &mut Reader, fields: &Fields<'_>) -> Option<MachineState> {
    let healthy = MachineState::default();
    let kind = reader.required_text(fields, "failure")?;
    for (field, of) in [("slow", "slow"), ("fillDisk", "disk-full"), ("clockSkew", "clock-skew")] {
        if kind != of && fields.get(field).is_some() {
            reader.report(fields.path_of(field), format!("only a failure of kind {of} has it"));
        }
        if kind == of && fields.get(field).is_none() {
            reader.report(fields.path_of(field), "required");
        }
    }
    match kind {
        "crash" => Some(MachineState { power: Power::Off, ..healthy }),
        "partition" => Some(MachineState { is_partitioned: true, ..healthy }),
        "slow" => state::slowdown(reader, fields, "slow").map(|slowdown| MachineState { slowdown, ..healthy }),
        "disk-full" => state::part(reader, fields, "fillDisk").map(|disk_fill| MachineState { disk_fill, ..healthy }),
        "clock-skew" => {
            state::skew(reader, fields, "clockSkew").map(|clock_skew| MachineState { clock_skew, ..healthy })
        }
        _ => {
            let kinds = "must be crash, partition, slow, disk-full or clock-skew";
            reader.report(fields.path_of("failure"), kinds);
            None
        }
    }
}

fn timing(reader: &mut Reader, fields: &Fields<'_>) -> Option<Timing> {
    let has = |names: &[&str]| names.iter().any(|name| fields.get(name).is_some());
    match (has(&["mtbf", "mttr"]), has(&["after", "for", "every"])) {
        (true, false) => {
            let mean_between = state::positive(reader, fields, "mtbf");
            let mean_to_repair = state::positive(reader, fields, "mttr");
            Some(Timing::Random { mean_between: mean_between?, mean_to_repair: mean_to_repair? })
        }
        (false, true) => {
            let after = state::positive(reader, fields, "after");
            let lasts = state::positive(reader, fields, "for");
            let every = has(&["every"]).then(|| state::positive(reader, fields, "every"));
            if let (Some(lasts), Some(Some(every))) = (lasts, every)
                && every <= lasts
            {
                reader.report(fields.path_of("every"), "must be longer than for");
            }
            Some(Timing::Planned { after: after?, lasts: lasts?, every: every.flatten() })
        }
        _ => {
            reader.report(fields.path().to_owned(), "needs either mtbf and mttr, or after and for");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_model_says_what_fails_and_when() {
        let document = json!({
            "name": "outage", "failure": "crash", "scope": "zone", "zones": ["b*"], "after": "10m", "for": "5m",
        });
        let model = FailureModel::read(&document, "").unwrap();
        assert_eq!(model.failure.power, Power::Off);
        let (after, lasts) = (Duration::from_secs(600), Duration::from_secs(300));
        assert_eq!(model.timing, Timing::Planned { after, lasts, every: None });
        assert_eq!(model.target_of("node-1", "b1"), Some("zone b1".to_owned()));
        assert_eq!(model.target_of("node-1", "a"), None);

        let document = json!({"name": "slow", "failure": "slow", "slow": 3, "mtbf": "24h", "mttr": "10m"});
        let model = FailureModel::read(&document, "").unwrap();
        assert_eq!(model.failure.slowdown, 3.0);
        assert_eq!(model.target_of("node-1", ""), Some("node node-1".to_owned()));
    }

    #[test]
    fn every_mistake_is_reported() {
        for (document, expected) in [
            (json!([]), "x: must be an object"),
            (json!({"failure": "crash", "mtbf": "1h", "mttr": "1m"}), "x.name: required"),
            (
                json!({"name": "a", "failure": "rust", "mtbf": "1h", "mttr": "1m"}),
                "x.failure: must be crash, partition, slow, disk-full or clock-skew",
            ),
            (json!({"name": "a", "failure": "crash", "mtbf": "1h"}), "x.mttr: required, and longer than nothing"),
            (
                json!({"name": "a", "failure": "crash", "mtbf": "0s", "mttr": "1m"}),
                "x.mtbf: required, and longer than nothing",
            ),
            (json!({"name": "a", "failure": "crash"}), "x: needs either mtbf and mttr, or after and for"),
            (
                json!({"name": "a", "failure": "crash", "mtbf": "1h", "mttr": "1m", "after": "1h"}),
                "x: needs either mtbf and mttr, or after and for",
            ),
            (
                json!({"name": "a", "failure": "crash", "after": "1h", "for": "2m", "every": "1m"}),
                "x.every: must be longer than for",
            ),
            (
                json!({"name": "a", "failure": "crash", "slow": 2, "mtbf": "1h", "mttr": "1m"}),
                "x.slow: only a failure of kind slow has it",
            ),
            (json!({"name": "a", "failure": "slow", "mtbf": "1h", "mttr": "1m"}), "x.slow: required"),
            (
                json!({"name": "a", "failure": "crash", "scope": "rack", "mtbf": "1h", "mttr": "1m"}),
                "x.scope: must be node or zone",
            ),
        ] {
            let problems = FailureModel::read(&document, "x").unwrap_err();
            let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(texts, [expected], "{document}");
        }
    }
}
