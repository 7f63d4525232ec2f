//! `Body`: an Event as JSON, in the core group or in `events.k8s.io`. Events are written in great numbers, so they are
//! written without a tree.
//!
//! Corresponds to makeEvent of k8s.io/client-go/tools/record/event.go and of tools/events/event_recorder.go.

use super::{Form, Occurrence, Regarding};
use proto::kinds::metav1::{MicroTime, Time};
use serde::Serialize;
use serde_json::{Value, json};

/// The fields of an Event in the core group that this client sets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CountedBody<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    involved_object: &'a Regarding,
    reason: &'a str,
    message: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    count: u32,
    first_timestamp: Time,
    last_timestamp: Time,
    source: Source<'a>,
    reporting_component: &'a str,
    reporting_instance: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    action: &'a str,
}

/// The fields of an Event in `events.k8s.io` that this client sets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SeriesBody<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    event_time: MicroTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Series>,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
    action: &'a str,
    reason: &'a str,
    regarding: &'a Regarding,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<&'a Regarding>,
    note: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
struct Source<'a> {
    component: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    count: u32,
    last_observed_time: MicroTime,
}

impl Series {
    /// Returns the series of an event; `None` if it has occurred once.
    fn of(event: &Occurrence) -> Option<Self> {
        (event.count > 1).then_some(Self { count: event.count, last_observed_time: MicroTime(event.last_at) })
    }
}

impl Occurrence {
    /// Returns the Event as JSON.
    pub(super) fn to_json(&self) -> Vec<u8> {
        match self.form {
            Form::Counted => serde_json::to_vec(&self.counted()),
            Form::Series => serde_json::to_vec(&self.with_series()),
        }
        .expect("an event is plain data")
    }

    /// Returns the patch after a repeat.
    pub(super) fn patch(&self) -> Value {
        match self.form {
            Form::Counted => {
                json!({"count": self.count, "lastTimestamp": Time(self.last_at), "message": self.spec.message})
            }
            Form::Series => json!({"series": Series::of(self)}),
        }
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata { name: &self.name, namespace: self.namespace() }
    }

    fn counted(&self) -> CountedBody<'_> {
        let spec = &self.spec;
        CountedBody {
            api_version: "v1",
            kind: "Event",
            metadata: self.metadata(),
            involved_object: &spec.regarding,
            reason: &spec.reason,
            message: &spec.message,
            event_type: spec.event_type.as_str(),
            count: self.count,
            first_timestamp: Time(self.first_at),
            last_timestamp: Time(self.last_at),
            source: Source { component: &self.component, host: &self.host },
            reporting_component: &self.component,
            reporting_instance: &self.host,
            action: &spec.action,
        }
    }

    fn with_series(&self) -> SeriesBody<'_> {
        let spec = &self.spec;
        SeriesBody {
            api_version: "events.k8s.io/v1",
            kind: "Event",
            metadata: self.metadata(),
            event_time: MicroTime(self.first_at),
            series: Series::of(self),
            reporting_controller: &self.component,
            reporting_instance: &self.host,
            action: &spec.action,
            reason: &spec.reason,
            regarding: &spec.regarding,
            related: spec.related.as_ref(),
            note: &spec.message,
            event_type: spec.event_type.as_str(),
        }
    }
}
