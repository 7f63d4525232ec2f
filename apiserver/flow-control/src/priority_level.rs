//! Reads a PriorityLevelConfiguration: whether requests are limited, to how many seats, and whether the rest is queued.
//!
//! Corresponds to the digestion of configuration in k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go.

use serde_json::Value;

/// How the level treats requests without a free seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Requests are not limited.
    Exempt,
    Reject,
    Queue {
        queues: usize,
        hand: usize,
        /// The most requests that wait in one queue.
        length: usize,
    },
}

/// The spec of a PriorityLevelConfiguration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelSpec {
    pub discipline: Discipline,
    shares: i64,
    lendable_percent: i64,
    /// `None` means no limit but the server's seats.
    borrowing_limit_percent: Option<i64>,
}

/// The seats of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Seats by its `nominalConcurrencyShares`.
    pub nominal: usize,
    /// Seats that remain when it lends all it may.
    pub lower: usize,
    /// Seats that it has when it borrows all it may.
    pub upper: usize,
}

impl LevelSpec {
    pub fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let (kind, exempt) = match spec["type"].as_str() {
            Some("Exempt") => ("exempt", true),
            _ => ("limited", false),
        };
        let number = |value: &Value| value.as_i64();
        let level = &spec[kind];
        let response = &level["limitResponse"];
        let queuing = |key: &str, otherwise: usize| {
            number(&response["queuing"][key]).and_then(|n| usize::try_from(n).ok()).unwrap_or(otherwise)
        };
        let discipline = if exempt {
            Discipline::Exempt
        } else if response["type"] == "Queue" {
            Discipline::Queue {
                queues: queuing("queues", 64).max(1),
                hand: queuing("handSize", 8).max(1),
                length: queuing("queueLengthLimit", 50).max(1),
            }
        } else {
            Discipline::Reject
        };
        Self {
            discipline,
            shares: number(&level["nominalConcurrencyShares"]).unwrap_or(if exempt { 0 } else { 30 }).max(0),
            lendable_percent: number(&level["lendablePercent"]).unwrap_or(0),
            borrowing_limit_percent: number(&level["borrowingLimitPercent"]),
        }
    }
}

/// Divides `server_seats` among the levels by their shares.
pub fn bounds_of(specs: &[LevelSpec], server_seats: usize) -> Vec<Bounds> {
    let shares: i64 = specs.iter().map(|spec| spec.shares).sum();
    let of_one = |spec: &LevelSpec| {
        let part = if shares == 0 { 0.0 } else { spec.shares as f64 / shares as f64 };
        let nominal = (server_seats as f64 * part).ceil() as usize;
        let percent = |percent: i64| (nominal as f64 * percent as f64 / 100.0).round() as usize;
        let borrowed = spec.borrowing_limit_percent.map_or(server_seats, percent);
        Bounds { nominal, lower: nominal.saturating_sub(percent(spec.lendable_percent)), upper: nominal + borrowed }
    };
    specs.iter().map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use strategy::validation::flow_schemas;

    #[test]
    fn the_seats_of_a_fresh_cluster() {
        let levels = flow_schemas::objects().iter().filter(|(kind, _)| *kind == "prioritylevelconfigurations");
        let (names, specs): (Vec<String>, Vec<LevelSpec>) = levels
            .map(|(_, level)| (level["metadata"]["name"].as_str().unwrap_or_default().to_owned(), LevelSpec::of(level)))
            .unzip();
        let bounds = bounds_of(&specs, 600);
        let shown: Vec<String> = names
            .iter()
            .zip(bounds)
            .map(|(name, of)| format!("{name} {} {} {}", of.nominal, of.lower, of.upper))
            .collect();
        // The metrics of kube-apiserver show the same numbers.
        assert_eq!(
            shown,
            [
                "exempt 0 0 600",
                "system 74 50 674",
                "node-high 98 73 698",
                "leader-election 25 25 625",
                "workload-high 98 49 698",
                "workload-low 245 24 845",
                "global-default 49 24 649",
                "catch-all 13 13 613",
            ]
        );
    }

    #[test]
    fn a_limit_of_borrowing_is_of_the_nominal_seats() {
        let limited = json!({
            "nominalConcurrencyShares": 10, "borrowingLimitPercent": 50, "lendablePercent": 10,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 3, "handSize": 2, "queueLengthLimit": 7}},
        });
        let spec = LevelSpec::of(&json!({"spec": {"type": "Limited", "limited": limited}}));
        assert_eq!(spec.discipline, Discipline::Queue { queues: 3, hand: 2, length: 7 });
        assert_eq!(bounds_of(&[spec], 20), [Bounds { nominal: 20, lower: 18, upper: 30 }]);
    }
}
