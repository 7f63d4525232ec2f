//! Options of exec, attach, portforward and proxy: reads them as an object, which admission may change or refuse before
//! anything is connected.
//!
//! Corresponds to ConnectResource in k8s.io/apiserver/pkg/endpoints/handlers/rest.go and to the PodExecOptions,
//! PodAttachOptions, PodPortForwardOptions and ProxyOptions of core/v1.

use super::Call;
use admission::Operation;
use proto::Status;
use proto::resources::Target;
use request::query::{Query, parse_integer};
use serde_json::{Map, Value, json};

const SWITCHES: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

/// Reads the options of the query and returns them after admission.
pub async fn admitted_options(call: &Call<'_>, target: &Target, path: &str) -> Result<Value, Status> {
    let mut options = options_of_query(&call.info.query, &call.info.subresource, path)?;
    let served = target.served().subresource(&call.info.subresource);
    if let Some((_, version, kind)) = served.and_then(|known| known.kind.as_ref()) {
        options.insert("kind".to_owned(), json!(kind));
        options.insert("apiVersion".to_owned(), json!(version));
    }
    let mut options = Value::Object(options);
    let mut mutation = call.mutation(target, "", false, &Value::Null);
    call.admit(Operation::Connect, &mut mutation, &mut options).await?;
    Ok(options)
}

fn options_of_query(query: &Query, subresource: &str, path: &str) -> Result<Map<String, Value>, Status> {
    let mut options = Map::new();
    match subresource {
        "proxy" => drop(options.insert("path".to_owned(), json!(path))),
        "portforward" => {
            let ports = query.all("ports").flat_map(|list| list.split(','));
            let ports = ports.map(|port| parse_integer(port).map_err(Status::bad_request));
            let ports = ports.collect::<Result<Vec<i64>, Status>>()?;
            if !ports.is_empty() {
                options.insert("ports".to_owned(), json!(ports));
            }
        }
        _ => {
            for name in SWITCHES.into_iter().filter(|name| query.switch(name)) {
                options.insert(name.to_owned(), json!(true));
            }
            let container = query.text("container");
            if !container.is_empty() {
                options.insert("container".to_owned(), json!(container));
            }
            let command: Vec<&str> = query.all("command").collect();
            if subresource == "exec" && !command.is_empty() {
                options.insert("command".to_owned(), json!(command));
            }
        }
    }
    Ok(options)
}

/// Writes a stream's options as a query with the kubelet's parameter names.
pub fn kubelet_query(options: &Value) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    for (option, parameter) in SWITCHES.into_iter().zip(["input", "output", "error", "tty"]) {
        if options[option] == true {
            text.append_pair(parameter, "1");
        }
    }
    for word in options["command"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text.append_pair("command", word);
    }
    let ports: Vec<String> = options["ports"].as_array().into_iter().flatten().map(Value::to_string).collect();
    if !ports.is_empty() {
        text.append_pair("port", &ports.join(","));
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_options_and_a_query_of_the_kubelet() {
        let exec = json!({"stdin": true, "tty": true, "container": "c", "command": ["sh", "-c", "a b"]});
        for (subresource, query, expected, kubelet) in [
            (
                "exec",
                "stdin=true&stdout=0&tty=1&container=c&command=sh&command=-c&command=a+b",
                exec,
                "input=1&tty=1&command=sh&command=-c&command=a+b",
            ),
            ("attach", "stdout=1&command=x", json!({"stdout": true}), "output=1"),
            ("portforward", "ports=80,81&ports=82", json!({"ports": [80, 81, 82]}), "port=80%2C81%2C82"),
            ("portforward", "", json!({}), ""),
            ("proxy", "a=b", json!({"path": "/x"}), ""),
        ] {
            let options = Value::Object(options_of_query(&Query::parse(query), subresource, "/x").unwrap());
            assert_eq!((&options, kubelet_query(&options).as_str()), (&expected, kubelet), "{subresource} {query}");
        }
        let refused = options_of_query(&Query::parse("ports=http"), "portforward", "").unwrap_err();
        assert_eq!(refused.code, 400);
    }
}
