//! Reads one template strictly, and collects every mistake in it.

use crate::documents::duration;
use crate::template::values::{check, resource_amounts};
use crate::template::{LatencyChanges, NodeTemplate, devices};
use ipnet::Ipv4Net;
use proto::kinds::api::core::v1::Taint;
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::Value;
use stages::problem::Problem;
use stages::reader::{Fields, Reader};
use std::collections::BTreeMap;

/// Most nodes of one template, as of `--nodes`.
const MAX_COUNT: u64 = 60_000;

const FIELDS: [&str; 20] = [
    "name",
    "count",
    "nodeName",
    "zones",
    "region",
    "instanceTypes",
    "capacity",
    "reserved",
    "labels",
    "annotations",
    "taints",
    "images",
    "runtimeHandlers",
    "pricePerHour",
    "architecture",
    "operatingSystem",
    "podCIDR",
    "latency",
    "devices",
    "description",
];

const LATENCIES: [&str; 6] = ["sandbox", "imagePull", "containerStart", "containerStop", "initRun", "jobRun"];

impl NodeTemplate {
    /// Reads a template, or returns every mistake in it.
    pub fn read(document: &Value) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::default();
        let template = match reader.object(document, "", &FIELDS) {
            Some(fields) => template(&mut reader, &fields),
            None => Self::default(),
        };
        if reader.problems.is_empty() { Ok(template) } else { Err(reader.problems) }
    }
}

fn template(reader: &mut Reader, fields: &Fields<'_>) -> NodeTemplate {
    let _ = reader.text(fields, "description");
    let name = reader.required_text(fields, "name").unwrap_or_default().to_owned();
    check(reader, fields.path_of("name"), names::label_value(&name));
    let zones = reader.texts(fields, "zones");
    check_each(reader, fields, "zones", &zones);
    let instance_types = reader.texts(fields, "instanceTypes");
    check_each(reader, fields, "instanceTypes", &instance_types);
    let price_per_hour = price(reader, fields);
    let node_name = reader.text(fields, "nodeName").map_or_else(|| format!("{name}-{{number}}"), str::to_owned);
    let template = NodeTemplate {
        count: count(reader, fields),
        zones,
        region: label_text(reader, fields, "region"),
        instance_types,
        capacity: resources(reader, fields, "capacity"),
        reserved: resources(reader, fields, "reserved"),
        labels: labels(reader, fields),
        annotations: annotations(reader, fields),
        taints: match fields.get("taints") {
            Some(Value::Array(items)) => taints(reader, items, &fields.path_of("taints")),
            _ => reader.items(fields, "taints").into_iter().map(|_| Taint::default()).collect(),
        },
        images: reader.texts(fields, "images"),
        runtime_handlers: fields.get("runtimeHandlers").map(|_| reader.texts(fields, "runtimeHandlers")),
        price_per_hour,
        architecture: label_text(reader, fields, "architecture"),
        operating_system: operating_system(reader, fields),
        pod_cidr: pod_cidr(reader, fields),
        latency: latency(reader, fields),
        devices: devices::read(reader, fields),
        node_name,
        name,
    };
    check_names(reader, fields, &template);
    check_reserved(reader, fields, &template);
    if template.region.is_some() && template.zones.is_empty() {
        reader.report(fields.path_of("region"), "must not be set without zones");
    }
    template
}

fn check_each(reader: &mut Reader, fields: &Fields<'_>, name: &str, values: &[String]) {
    for (index, value) in values.iter().enumerate() {
        let path = format!("{}[{index}]", fields.path_of(name));
        if value.is_empty() {
            reader.report(path.clone(), "must not be empty");
        }
        check(reader, path, names::label_value(value));
    }
}

fn label_text(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<String> {
    let text = reader.text(fields, name)?.to_owned();
    check(reader, fields.path_of(name), names::label_value(&text));
    Some(text)
}

/// Reads how many nodes there are; 1 if the template does not say it.
fn count(reader: &mut Reader, fields: &Fields<'_>) -> u32 {
    let count = reader.count(fields, "count").unwrap_or(1);
    if count > MAX_COUNT {
        reader.report(fields.path_of("count"), format!("must not be greater than {MAX_COUNT}"));
    }
    u32::try_from(count).unwrap_or(0)
}

/// Checks that every node gets another name, and one that a node may have.
fn check_names(reader: &mut Reader, fields: &Fields<'_>, template: &NodeTemplate) {
    let path = fields.path_of("nodeName");
    if template.count > 1 && !template.node_name.contains("{number}") {
        reader.report(path.clone(), "must contain {number}, because count is greater than 1");
    }
    check(reader, path, names::dns1123_subdomain(&template.name_of(0)));
}

/// Reads the resources of a machine, of which some are whole.
fn resources(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> BTreeMap<String, String> {
    let read = resource_amounts(reader, fields, name, check_resource_name);
    for (resource, text) in &read {
        let is_whole = Quantity::parse(text).is_ok_and(|quantity| quantity.milli_value() % 1000 == 0);
        if needs_whole(resource) && !is_whole {
            reader.report(format!("{}.{resource}", fields.path_of(name)), "must be a whole number");
        }
    }
    read
}

/// True for resources of which a container cannot have a part: pods and extended resources.
fn needs_whole(resource: &str) -> bool {
    resource == "pods" || resource.contains('/')
}

fn check_resource_name(reader: &mut Reader, path: &str, resource: &str) {
    if resource.contains('/') {
        check(reader, path.to_owned(), names::label_key(resource));
    } else if !matches!(resource, "cpu" | "memory" | "ephemeral-storage" | "pods")
        && resource.strip_prefix("hugepages-").is_none_or(|size| Quantity::parse(size).is_err())
    {
        reader.report(path, "unknown resource; an extended one has a domain, such as example.com/gpu");
    }
}

/// Checks that nothing is reserved that the template says the machine has less of.
fn check_reserved(reader: &mut Reader, fields: &Fields<'_>, template: &NodeTemplate) {
    for (resource, amount) in &template.reserved {
        let path = format!("{}.{resource}", fields.path_of("reserved"));
        if !matches!(resource.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            reader.report(path, "must be cpu, memory or ephemeral-storage");
            continue;
        }
        let parsed = |text: &String| Quantity::parse(text).ok();
        let capacity = template.capacity.get(resource).and_then(parsed);
        if let (Some(reserved), Some(capacity)) = (parsed(amount), capacity)
            && reserved.as_f64() > capacity.as_f64()
        {
            reader.report(path, "must not be greater than the capacity");
        }
    }
}

fn labels(reader: &mut Reader, fields: &Fields<'_>) -> BTreeMap<String, String> {
    let labels = reader.text_map(fields, "labels");
    for (key, value) in &labels {
        let path = format!("{}.{key}", fields.path_of("labels"));
        check(reader, path.clone(), names::label_key(key));
        check(reader, path, names::label_value(value));
    }
    labels
}

fn annotations(reader: &mut Reader, fields: &Fields<'_>) -> BTreeMap<String, String> {
    let annotations = reader.text_map(fields, "annotations");
    for key in annotations.keys() {
        check(reader, format!("{}.{key}", fields.path_of("annotations")), names::label_key(&key.to_lowercase()));
    }
    annotations
}

/// Reads a list of taints, each of which has a key and an effect of its own.
pub fn taints(reader: &mut Reader, items: &[Value], path: &str) -> Vec<Taint> {
    let mut taints: Vec<Taint> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(taint) = reader.object(item, &path, &["key", "value", "effect", "timeAdded"]) else { continue };
        let key = reader.required_text(&taint, "key").unwrap_or_default().to_owned();
        if !key.is_empty() {
            check(reader, taint.path_of("key"), names::label_key(&key));
        }
        let value = label_text(reader, &taint, "value");
        let effect = reader.required_text(&taint, "effect").unwrap_or_default().to_owned();
        if !["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect.as_str()) {
            reader.report(taint.path_of("effect"), "must be NoSchedule, PreferNoSchedule or NoExecute");
        }
        if taints.iter().any(|other| other.key == key && other.effect == effect) {
            reader.report(path, "another taint has this key and effect");
        }
        taints.push(Taint { key, value, effect, ..Taint::default() });
    }
    taints
}

/// Reads the price, a number that is not negative; it becomes the value of a label.
fn price(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    let text = match fields.get("pricePerHour")? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let is_price = text.parse::<f64>().is_ok_and(|price| price.is_finite() && price >= 0.0);
    if !is_price || !names::label_value(&text).is_empty() {
        reader.report(fields.path_of("pricePerHour"), "must be a number that is not negative");
    }
    Some(text)
}

fn operating_system(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    let system = reader.text(fields, "operatingSystem")?;
    if !["linux", "windows"].contains(&system) {
        reader.report(fields.path_of("operatingSystem"), "must be linux or windows");
    }
    Some(system.to_owned())
}

fn pod_cidr(reader: &mut Reader, fields: &Fields<'_>) -> Option<Ipv4Net> {
    let parsed = reader.text(fields, "podCIDR")?.parse::<Ipv4Net>();
    if parsed.is_err() {
        reader.report(fields.path_of("podCIDR"), "must be a range of IPv4 addresses, such as 10.200.0.0/16");
    }
    parsed.ok()
}

fn latency(reader: &mut Reader, fields: &Fields<'_>) -> LatencyChanges {
    let Some(times) = reader.child(fields, "latency", &LATENCIES) else { return LatencyChanges::default() };
    let mut time = |name: &str| duration(reader, &times, name);
    LatencyChanges {
        sandbox: time("sandbox"),
        image_pull: time("imagePull"),
        container_start: time("containerStart"),
        container_stop: time("containerStop"),
        init_run: time("initRun"),
        job_run: time("jobRun"),
    }
}
