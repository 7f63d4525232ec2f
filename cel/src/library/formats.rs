//! Kubernetes' named formats: `format.dns1123Label().validate('a')`.

use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};
use proto::meta::names;
use proto::schema::structural::formats;

pub const DECLARED: &str = "
    fn format.named(string) optional(format)
    fn format.dns1123Label() format
    fn format.dns1123Subdomain() format
    fn format.dns1035Label() format
    fn format.qualifiedName() format
    fn format.dns1123LabelPrefix() format
    fn format.dns1123SubdomainPrefix() format
    fn format.dns1035LabelPrefix() format
    fn format.labelValue() format
    fn format.uri() format
    fn format.uuid() format
    fn format.byte() format
    fn format.date() format
    fn format.datetime() format
    format.validate(string) optional(list(string))
";

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    let known = |wanted: &str| NAMES.into_iter().find(|known| *known == wanted).map(Value::Format);
    match (name, arguments) {
        ("format.named", [Value::String(wanted)]) => Ok(known(wanted).map_or(Value::Optional(None), Value::some)),
        ("validate", [Value::Format(format), Value::String(text)]) => {
            meter.work(text.len() / 10)?;
            let complaints: Vec<Value> = complaints(format, text).into_iter().map(Value::string).collect();
            Ok(if complaints.is_empty() { Value::Optional(None) } else { Value::some(Value::list(complaints)) })
        }
        (name, []) => {
            let format = name.strip_prefix("format.").and_then(known);
            format.map_or_else(|| no_overload(name, arguments), Ok)
        }
        _ => no_overload(name, arguments),
    }
}

fn complaints(format: &str, text: &str) -> Vec<String> {
    let of_format = |format: &str, complaint: &str| match formats::is_valid(format, text) {
        true => Vec::new(),
        false => vec![complaint.to_owned()],
    };
    match format {
        "dns1123Label" => names::dns1123_label(text),
        "dns1123Subdomain" => names::dns1123_subdomain(text),
        "dns1035Label" => names::dns1035_label(text),
        "dns1123LabelPrefix" => names::dns1123_label(&names::mask_trailing_dash(text)),
        "dns1123SubdomainPrefix" => names::dns1123_subdomain(&names::mask_trailing_dash(text)),
        "dns1035LabelPrefix" => names::dns1035_label(&names::mask_trailing_dash(text)),
        "qualifiedName" => names::qualified_name(text),
        "labelValue" => names::label_value(text),
        "uri" => of_format("uri", "invalid URI"),
        "uuid" => of_format("uuid", "does not match the UUID format"),
        "byte" => of_format("byte", "invalid base64"),
        "date" => of_format("date", "invalid date"),
        _ => of_format("date-time", "invalid datetime"),
    }
}
