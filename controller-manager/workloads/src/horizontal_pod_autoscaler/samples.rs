//! `Sample`: one value of a metric, decoded from what the metrics APIs answer.
//!
//! Corresponds to PodMetricsInfo in pkg/controller/podautoscaler/metrics, and to the types of k8s.io/metrics.

use component_base::duration::parse_duration;
use controller_base::clock;
use jiff::Timestamp;
use proto::meta::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Interval of a custom metric that names none, as in Kubernetes.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);
/// Age from which a value says nothing about the present any more. Slow sources lag by a few minutes.
const OLDEST: Duration = Duration::from_secs(600);

/// A value in thousandths, with the interval that it was measured in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub milli: i64,
    /// End of the interval.
    pub taken_at: Option<Timestamp>,
    pub window: Duration,
}

/// Samples by the name of their pod.
pub type PodSamples = BTreeMap<String, Sample>;

/// What a metric's source answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A value for each pod.
    Pods(PodSamples),
    /// The value of an object, or the values of an external metric.
    Values(Vec<Sample>),
}

impl Reading {
    /// Refuses values that cannot be true.
    ///
    /// Deviation: a metric with a negative value, or with one that is older than ten minutes, counts as unavailable.
    /// Kubernetes calculates with any number: a negative one shrinks the target to its minimum, and the last value of a
    /// source that hangs holds for ever.
    pub fn checked(self, now: Timestamp) -> Result<Self, String> {
        match &self {
            Self::Pods(samples) => {
                samples.iter().try_for_each(|(pod, sample)| sample.check(&format!("of pod {pod}"), now))?;
            }
            Self::Values(samples) => samples.iter().try_for_each(|sample| sample.check("of the metric", now))?,
        }
        Ok(self)
    }
}

impl Sample {
    fn check(&self, whose: &str, now: Timestamp) -> Result<(), String> {
        if self.milli < 0 {
            let value = Quantity::from_milli(self.milli, Default::default());
            return Err(format!("the value {whose} is negative: {value}"));
        }
        match self.taken_at {
            Some(time) if clock::since(time, now) > OLDEST => {
                Err(format!("the value {whose} is too old: it was measured at {time}"))
            }
            _ => Ok(()),
        }
    }
}

/// Decodes the items of a PodMetricsList. A pod without the resource in each of its containers, or in the named one, has
/// no sample.
pub fn of_resource(items: &[Value], resource: &str, container: Option<&str>) -> Result<PodSamples, String> {
    let mut samples = PodSamples::new();
    for item in items {
        let all = item["containers"].as_array().map_or(&[][..], Vec::as_slice);
        let counted = all.iter().filter(|one| container.is_none_or(|container| one["name"] == container));
        let usages: Vec<&Value> = counted.map(|one| &one["usage"][resource]).collect();
        if usages.is_empty() || usages.iter().any(|usage| usage.is_null()) {
            continue;
        }
        let mut milli = 0_i64;
        for usage in usages {
            milli = milli.saturating_add(thousandths(usage)?);
        }
        let window = item["window"].as_str().and_then(|window| parse_duration(window).ok());
        let sample = Sample { milli, taken_at: time(&item["timestamp"]), window: window.unwrap_or_default() };
        samples.insert(name(&item["metadata"]), sample);
    }
    Ok(samples)
}

/// Decodes the items of a MetricValueList about pods, of custom.metrics.k8s.io.
pub fn of_pods(items: &[Value]) -> Result<PodSamples, String> {
    items.iter().map(|item| Ok((name(&item["describedObject"]), value(item)?))).collect()
}

/// Decodes the items of a MetricValueList about an object, or of an ExternalMetricValueList.
pub fn values(items: &[Value]) -> Result<Vec<Sample>, String> {
    items.iter().map(value).collect()
}

fn value(item: &Value) -> Result<Sample, String> {
    let window = item["windowSeconds"].as_u64().or_else(|| item["window"].as_u64());
    Ok(Sample {
        milli: thousandths(&item["value"])?,
        taken_at: time(&item["timestamp"]),
        window: window.map_or(DEFAULT_WINDOW, Duration::from_secs),
    })
}

fn name(reference: &Value) -> String {
    reference["name"].as_str().unwrap_or_default().to_owned()
}

fn time(timestamp: &Value) -> Option<Timestamp> {
    timestamp.as_str().and_then(|text| text.parse().ok())
}

fn thousandths(quantity: &Value) -> Result<i64, String> {
    Quantity::try_from(quantity).map(|quantity| quantity.milli_value()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::at;
    use serde_json::json;

    fn shown(samples: PodSamples) -> Vec<String> {
        samples.iter().map(|(pod, sample)| format!("{pod}={}m", sample.milli)).collect()
    }

    #[test]
    fn a_pods_usage_is_the_sum_of_its_containers() {
        let pod = |name: &str, usages: Value| {
            let containers = usages.as_array().unwrap().iter();
            let containers = containers.map(|usage| json!({"name": usage[0], "usage": {"cpu": usage[1]}}));
            json!({"metadata": {"name": name}, "timestamp": "2026-01-01T00:00:00Z", "window": "15s", "containers": containers.collect::<Value>()})
        };
        let items = [
            pod("a", json!([["web", "100m"], ["proxy", "20000001n"]])),
            pod("b", json!([["web", "1"], ["proxy", null]])),
            pod("c", json!([])),
        ];
        // 100m + 20000001n is 120.000001m; each container's share is rounded up to whole thousandths: 100 + 21.
        assert_eq!(shown(of_resource(&items, "cpu", None).unwrap()), ["a=121m"]);
        assert_eq!(shown(of_resource(&items, "cpu", Some("web")).unwrap()), ["a=100m", "b=1000m"]);
        assert_eq!(shown(of_resource(&items, "memory", None).unwrap()), [""; 0]);
        let sample = &of_resource(&items, "cpu", None).unwrap()["a"];
        assert_eq!((sample.taken_at, sample.window), (Some(at(0)), Duration::from_secs(15)));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for value in [json!("NaN"), json!("+Inf"), json!(""), json!(null), json!({"cpu": 1})] {
            let item = json!({"describedObject": {"name": "a"}, "value": value});
            assert!(of_pods(std::slice::from_ref(&item)).is_err(), "{value}");
            assert!(values(&[item]).is_err(), "{value}");
        }
        let item = json!({"describedObject": {"name": "a"}, "value": "1500m", "windowSeconds": 30});
        assert_eq!(of_pods(&[item]).unwrap()["a"].window, Duration::from_secs(30));
        assert_eq!(values(&[json!({"value": "2k"})]).unwrap()[0].milli, 2_000_000);
    }

    #[test]
    fn negative_and_old_values_are_refused() {
        let reading = |milli: i64, second: i64| {
            let sample = Sample { milli, taken_at: Some(at(second)), window: DEFAULT_WINDOW };
            [Reading::Pods(PodSamples::from([("a".to_owned(), sample.clone())])), Reading::Values(vec![sample])]
        };
        let cases = [
            // value, measured at, refused
            (0, 1000, None),
            (5, 400, None),
            (5, 2000, None),
            (5, 399, Some(" is too old: it was measured at 2026-01-01T00:06:39Z")),
            (-5, 1000, Some(" is negative: -5m")),
        ];
        for (milli, second, refused) in cases {
            for reading in reading(milli, second) {
                let result = reading.checked(at(1000)).map(drop);
                let is_right = match refused {
                    None => result.is_ok(),
                    Some(end) => result.as_ref().is_err_and(|error| error.ends_with(end)),
                };
                assert!(is_right, "{milli} {second}: {result:?}");
            }
        }
    }
}
