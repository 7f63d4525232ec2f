//! Functions of URLs, which have a scheme and a host or are absolute paths.

use crate::failure::error;
use crate::meter::Meter;
use crate::url::{Url, escaped};
use crate::value::{Key, Map, Outcome, Value, no_overload};
use std::sync::Arc;

pub const DECLARED: &str = "
    url(string) url
    isURL(string) bool
    url.getScheme() string
    url.getHost() string
    url.getHostname() string
    url.getPort() string
    url.getEscapedPath() string
    url.getQuery() map(string, list(string))
";

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("isURL", [Value::String(text)]) => Ok(Value::Bool(Url::parse(text).is_ok())),
        ("url", [Value::String(text)]) => match Url::parse(text) {
            Ok(url) => Ok(Value::Url(Arc::new(url))),
            Err(why) => error(format!("URL parse error during conversion from string: parse {text:?}: {why}")),
        },
        (_, [Value::Url(url)]) => match name {
            "getScheme" => Ok(Value::string(&url.scheme)),
            "getHost" => Ok(Value::string(&url.host)),
            "getHostname" => Ok(Value::string(url.host_and_port().0)),
            "getPort" => Ok(Value::string(url.host_and_port().1)),
            "getEscapedPath" => Ok(Value::string(escaped(&url.path))),
            _ => queries(url, meter),
        },
        _ => no_overload(name, arguments),
    }
}

fn queries(url: &Url, meter: &mut Meter) -> Outcome {
    let mut found = std::collections::BTreeMap::<String, Vec<Value>>::new();
    for (key, value) in form_urlencoded::parse(url.query.as_bytes()) {
        meter.work(10)?;
        found.entry(key.into_owned()).or_default().push(Value::string(value));
    }
    let entries = found.into_iter().map(|(key, values)| (Key::String(key.into()), Value::list(values)));
    Ok(Value::map(entries.collect::<Map>()))
}
