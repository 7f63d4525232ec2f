//! `Proposal`: what one metric of an autoscaler asks for, with the status and the words that describe it.
//!
//! Corresponds to computeReplicasForMetric and the computeStatusFor… functions in
//! pkg/controller/podautoscaler/horizontal.go.

use super::calculator::{Calculator, Sized};
use super::samples::{PodSamples, Reading, Sample};
use crate::selector_text;
use proto::kinds::api::autoscaling::v2::{
    ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus, MetricIdentifier, MetricSpec,
    MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource,
    PodsMetricStatus, ResourceMetricStatus,
};
use proto::kinds::apimachinery::api::resource::Quantity as TypedQuantity;
use proto::meta::quantity::{Format, Quantity};

#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub replicas: i32,
    /// Name of the metric in events and conditions.
    pub metric: String,
    pub status: MetricStatus,
}

/// The reason why a metric asks for nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Reason of the event and of the condition `ScalingActive`.
    pub reason: &'static str,
    /// Text of both.
    pub message: String,
    /// Text in the event about all metrics.
    pub error: String,
}

/// What `kubectl describe` shows of a metric, without its name.
type Described = (Sized, String, MetricStatus);

/// Calculates the size that a metric asks for.
pub fn propose(
    spec: &MetricSpec,
    reading: Result<Reading, String>,
    calculator: &Calculator<'_>,
) -> Result<Proposal, Failure> {
    let described = if let Some(source) = &spec.resource {
        let one = Resource { name: &source.name, container: None, target: &source.target };
        one.propose(reading, calculator).map_err(|message| {
            let error = format!("failed to get {} resource metric value: {message}", source.name);
            Failure { reason: "FailedGetResourceMetric", message, error }
        })
    } else if let Some(source) = &spec.container_resource {
        let container = source.container.as_str();
        let one = Resource { name: &source.name, container: Some(container), target: &source.target };
        one.propose(reading, calculator).map_err(|message| {
            let error = format!("failed to get {container} container metric value: {message}");
            Failure { reason: "FailedGetContainerResourceMetric", message, error }
        })
    } else if let Some(source) = &spec.pods {
        of_pods(source, reading, calculator).map_err(|message| {
            let error = format!("failed to get pods metric value: {message}");
            Failure { reason: "FailedGetPodsMetric", message, error }
        })
    } else if let Some(source) = &spec.object {
        of_object(source, reading, calculator)
    } else if let Some(source) = &spec.external {
        of_external(source, reading, calculator)
    } else {
        let message = format!("unknown metric source type {:?}", spec.type_);
        Err(Failure { reason: "InvalidMetricSourceType", error: message.clone(), message })
    };
    described.map(|(sized, metric, mut status)| {
        status.type_ = spec.type_.clone();
        Proposal { replicas: sized.replicas, metric, status }
    })
}

/// A resource of pods, or of one of their containers.
struct Resource<'a> {
    name: &'a str,
    container: Option<&'a str>,
    target: &'a MetricTarget,
}

impl Resource<'_> {
    fn propose(&self, reading: Result<Reading, String>, calculator: &Calculator<'_>) -> Result<Described, String> {
        let Self { name, container, target } = *self;
        let samples = reading.and_then(pods);
        if let Some(average) = &target.average_value {
            let sized = samples.and_then(|samples| calculator.by_average(&samples, name == "cpu", milli(average)));
            let sized = sized.map_err(|error| format!("failed to get {name} usage: {error}"))?;
            return Ok((sized, format!("{name} resource"), self.status(sized)));
        }
        let Some(percent) = target.average_utilization else {
            let neither = "neither an average utilization target nor an average value (usage) target was set";
            return Err(format!("invalid resource metric source: {neither}"));
        };
        let sized = samples.and_then(|samples| calculator.by_utilization(&samples, name, container, percent));
        let sized = sized.map_err(|error| format!("failed to get {name} utilization: {error}"))?;
        let kind = if container.is_some() { "container resource" } else { "resource" };
        Ok((sized, format!("{name} {kind} utilization (percentage of request)"), self.status(sized)))
    }

    fn status(&self, sized: Sized) -> MetricStatus {
        let format = if self.name == "memory" { Format::BinarySI } else { Format::DecimalSI };
        let current = MetricValueStatus {
            average_utilization: sized.utilization,
            average_value: Some(typed(sized.value, format)),
            ..MetricValueStatus::default()
        };
        let name = self.name.to_owned();
        match self.container {
            None => MetricStatus { resource: Some(ResourceMetricStatus { name, current }), ..MetricStatus::default() },
            Some(container) => {
                let of_container = ContainerResourceMetricStatus { container: container.to_owned(), name, current };
                MetricStatus { container_resource: Some(of_container), ..MetricStatus::default() }
            }
        }
    }
}

fn of_pods(
    source: &PodsMetricSource,
    reading: Result<Reading, String>,
    calculator: &Calculator<'_>,
) -> Result<Described, String> {
    let name = &source.metric.name;
    let samples = reading.and_then(pods)?;
    let target = source.target.average_value.as_ref().map_or(0, milli);
    let sized = calculator.by_average(&samples, false, target)?;
    let status = PodsMetricStatus { metric: source.metric.clone(), current: average(sized) };
    Ok((sized, format!("pods metric {name}"), MetricStatus { pods: Some(status), ..MetricStatus::default() }))
}

fn of_object(
    source: &ObjectMetricSource,
    reading: Result<Reading, String>,
    calculator: &Calculator<'_>,
) -> Result<Described, Failure> {
    let (metric, object) = (&source.metric, &source.described_object);
    let failure = |message: String, inner: String| Failure {
        reason: "FailedGetObjectMetric",
        message,
        error: format!("failed to get object metric value: {inner}"),
    };
    let value = reading.and_then(sum);
    let status = |current| {
        let status = ObjectMetricStatus { described_object: object.clone(), metric: metric.clone(), current };
        MetricStatus { object: Some(status), ..MetricStatus::default() }
    };
    match (source.target.type_.as_str(), &source.target.value, &source.target.average_value) {
        ("Value", Some(target), _) => {
            let sized = value.and_then(|value| calculator.by_value(value, milli(target)));
            let sized = sized.map_err(|error| failure(error.clone(), error))?;
            Ok((sized, format!("{} metric {}", object.kind, metric.name), status(whole(sized))))
        }
        ("AverageValue", _, Some(target)) => {
            let within =
                |error: String| failure(error.clone(), format!("failed to get {} object metric: {error}", metric.name));
            let sized = calculator.by_share(value.map_err(within)?, milli(target));
            Ok((sized, external_name(metric), status(average(sized))))
        }
        _ => {
            let neither = "invalid object metric source: neither a value target nor an average value target was set";
            Err(failure(neither.to_owned(), neither.to_owned()))
        }
    }
}

fn of_external(
    source: &ExternalMetricSource,
    reading: Result<Reading, String>,
    calculator: &Calculator<'_>,
) -> Result<Described, Failure> {
    let metric = &source.metric;
    let failure = |message: String, inner: String| Failure {
        reason: "FailedGetExternalMetric",
        message,
        error: format!("failed to get {} external metric value: {inner}", metric.name),
    };
    let status = |current| {
        let status = ExternalMetricStatus { metric: metric.clone(), current };
        MetricStatus { external: Some(status), ..MetricStatus::default() }
    };
    let value = reading.and_then(sum);
    if let Some(target) = &source.target.average_value {
        let within =
            |error: String| failure(error.clone(), format!("failed to get {} external metric: {error}", metric.name));
        let sized = calculator.by_share(value.map_err(within)?, milli(target));
        return Ok((sized, external_name(metric), status(average(sized))));
    }
    let Some(target) = &source.target.value else {
        let neither = "invalid external metric source: neither a value target nor an average value target was set";
        return Err(failure(neither.to_owned(), neither.to_owned()));
    };
    let within =
        |error: String| failure(error.clone(), format!("failed to get external metric {}: {error}", metric.name));
    let sized = value.and_then(|value| calculator.by_value(value, milli(target))).map_err(within)?;
    Ok((sized, external_name(metric), status(whole(sized))))
}

/// Returns the name of an external metric, and, as in Kubernetes, of an object's metric of which pods take shares.
fn external_name(metric: &MetricIdentifier) -> String {
    let selector = metric.selector.as_ref().map_or("nil".to_owned(), selector_text::as_go_prints);
    format!("external metric {}({selector})", metric.name)
}

fn pods(reading: Reading) -> Result<PodSamples, String> {
    match reading {
        Reading::Pods(samples) => Ok(samples),
        Reading::Values(_) => Err("the metric is not about pods".to_owned()),
    }
}

fn sum(reading: Reading) -> Result<i64, String> {
    match reading {
        Reading::Values(samples) => {
            Ok(samples.iter().fold(0, |sum: i64, Sample { milli, .. }| sum.saturating_add(*milli)))
        }
        Reading::Pods(_) => Err("the metric is about pods".to_owned()),
    }
}

fn whole(sized: Sized) -> MetricValueStatus {
    MetricValueStatus { value: Some(typed(sized.value, Format::DecimalSI)), ..MetricValueStatus::default() }
}

fn average(sized: Sized) -> MetricValueStatus {
    MetricValueStatus { average_value: Some(typed(sized.value, Format::DecimalSI)), ..MetricValueStatus::default() }
}

fn milli(quantity: &TypedQuantity) -> i64 {
    Quantity::try_from(quantity).map_or(0, |quantity| quantity.milli_value())
}

fn typed(milli: i64, format: Format) -> TypedQuantity {
    TypedQuantity(Quantity::from_milli(milli, format).to_string())
}
