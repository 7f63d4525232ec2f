//! Content negotiation: reads the media type of a request's body and chooses the form of its response.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/negotiation. Request bodies may be protobuf, which stock clients
//! send. Responses never are: a client that accepts nothing else gets 406.
//!
//! Deviation: no response is written in protobuf, so the media types that a 406 lists, for watches too, do not include
//! `application/vnd.kubernetes.protobuf`.

use component_base::accept::{Clause, accept_of, clauses};
use http::{HeaderMap, header};
use proto::Status;
use proto::wire::Format;
use proto::wire::shown::MetaVersion;

/// The encodings in which this server writes objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Json,
    Yaml,
}

/// Media types of responses.
const SERVED: &[(&str, Encoding)] = &[("application/json", Encoding::Json), ("application/yaml", Encoding::Yaml)];
/// Media types of request bodies.
const BODY_FORMATS: &[(&str, Format)] =
    &[("application/json", Format::Json), ("application/yaml", Format::Yaml), (PROTOBUF, Format::Protobuf)];
/// Media types of watches.
const SERVED_STREAMS: &[&str] = &["application/json;stream=watch"];
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// End of the message for clients that accept protobuf alone: the setting that makes them accept JSON.
const JSON_SETTING: &str = "; this server does not answer in protobuf: start the client with \
                            --kube-api-content-type=application/json, or set clientConnection.contentType in its \
                            configuration file";

impl Encoding {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// The transformation of an object or list before it is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transform {
    #[default]
    Whole,
    Table(MetaVersion),
    /// PartialObjectMetadata, of one object.
    Metadata(MetaVersion),
    /// PartialObjectMetadataList, of a list.
    MetadataList(MetaVersion),
}

/// The form of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub encoding: Encoding,
    pub transform: Transform,
    pub pretty: bool,
}

/// Chooses the form of a response: that of the first clause that can be served. `allow_transform` is false for resources
/// that have no tables and no metadata form; `is_watch` is true for a stream of events.
pub fn negotiate(headers: &HeaderMap, pretty: bool, allow_transform: bool, is_watch: bool) -> Result<Form, Status> {
    let accept = accept_of(headers);
    if !route_accepts(accept) {
        return Err(route_refusal(is_watch));
    }
    let form = |encoding, transform| Form { encoding, transform, pretty };
    if accept.is_empty() {
        return Ok(form(Encoding::Json, Transform::Whole));
    }
    for clause in clauses(accept) {
        for (media_type, encoding) in SERVED {
            if !clause.accepts(media_type) {
                continue;
            }
            let Some(transform) = transform_of(&clause, allow_transform) else { continue };
            if is_watch && *encoding != Encoding::Json {
                return Err(Status::not_acceptable(SERVED_STREAMS));
            }
            let pretty = pretty || clause.parameter("pretty") == Some("1");
            return Ok(Form { encoding: *encoding, transform, pretty });
        }
    }
    Err(refusal(accept))
}

/// Builds the 406 for a client that accepts no media type of [`SERVED`].
fn refusal(accept: &str) -> Status {
    let mut status = Status::not_acceptable(&SERVED.iter().map(|(m, _)| *m).collect::<Vec<_>>());
    // Kubernetes would have answered in protobuf, so the message names the setting to change.
    if clauses(accept).iter().any(|clause| clause.media_type == PROTOBUF) {
        status.message.push_str(JSON_SETTING);
    }
    status
}

/// Returns whether the client wants aggregated discovery of `/api` or `/apis`; `None` if it accepts neither form.
pub fn wants_aggregated(headers: &HeaderMap) -> Option<bool> {
    clauses(accept_of(headers)).into_iter().find_map(|clause| {
        let parameter = |name: &str| clause.parameter(name);
        if clause.media_type != "application/json" && clause.media_type != "*/*" {
            return None;
        }
        match (parameter("g"), parameter("v"), parameter("as")) {
            (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")) => Some(true),
            (None, None, None) => Some(false),
            _ => None,
        }
    })
}

/// Returns the encoding of an error's body: the first that the client accepts and this server writes, else JSON.
pub fn encoding_of_errors(headers: &HeaderMap) -> Encoding {
    let found = clauses(accept_of(headers))
        .into_iter()
        .find_map(|clause| SERVED.iter().find(|(m, _)| clause.accepts(m)).map(|(_, e)| *e));
    found.unwrap_or_default()
}

/// Returns whether the router accepts the request. As in Kubernetes, its check comes before the negotiation and is
/// coarser: it accepts `*/*` but not `application/*`.
fn route_accepts(accept: &str) -> bool {
    accept.is_empty()
        || accept.split(',').any(|clause| {
            let media_type = clause.split(';').next().unwrap_or_default().trim();
            media_type.is_empty()
                || media_type == "*/*"
                || media_type == PROTOBUF
                || SERVED.iter().any(|(m, _)| *m == media_type)
        })
}

/// Builds the 406 of the router.
pub fn route_refusal(is_watch: bool) -> Status {
    let mut served: Vec<&str> = SERVED.iter().map(|(m, _)| *m).collect();
    if is_watch {
        served.extend(SERVED_STREAMS);
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {}", served.join(", "));
    router_status(406, "NotAcceptable", message)
}

/// Builds the 415 of the router, for routes that list the media types of their bodies.
pub fn route_refusal_of_body() -> Status {
    router_status(415, "UnsupportedMediaType", "415: Unsupported Media Type".to_owned())
}

/// Builds a Status of the router, with empty details.
fn router_status(code: u16, reason: &str, message: String) -> Status {
    let mut status = Status::failure(code, reason, message);
    status.details = Some(Box::default());
    status
}

/// Returns the transformation that a clause asks for; `None` if this server cannot serve the clause.
fn transform_of(clause: &Clause<'_>, allowed: bool) -> Option<Transform> {
    let parameter = |name| clause.parameter(name);
    if parameter("charset").is_some_and(|c| !c.eq_ignore_ascii_case("utf-8")) {
        return None;
    }
    if parameter("stream").is_some_and(|s| s != "watch") {
        return None;
    }
    if parameter("sv").is_some_and(|version| !version.is_empty() && version != "v1") {
        return None;
    }
    // A clause with a group or a version needs a kind, too.
    let kind = match parameter("as") {
        Some(kind) => kind,
        None if parameter("g").is_none() && parameter("v").is_none() => return Some(Transform::Whole),
        None => return None,
    };
    let version = match (parameter("g"), parameter("v")) {
        (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
        (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
        _ => return None,
    };
    match kind {
        "Table" if allowed => Some(Transform::Table(version)),
        "PartialObjectMetadata" if allowed => Some(Transform::Metadata(version)),
        "PartialObjectMetadataList" if allowed => Some(Transform::MetadataList(version)),
        _ => None,
    }
}

/// Returns whether the response is indented: with `pretty=true`, or by default for curl, wget and browsers, whose output
/// people read.
pub fn wants_pretty(headers: &HeaderMap, pretty: Option<&str>) -> bool {
    match pretty {
        Some(value) => matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True"),
        None => {
            let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
        }
    }
}

/// Returns the format of a request's body, or 415. Without a Content-Type it is JSON. Custom resources have no protobuf
/// form.
pub fn format_of_body(headers: &HeaderMap, is_builtin: bool) -> Result<Format, Status> {
    let media_type = content_type(headers);
    let known = BODY_FORMATS.iter().filter(|(_, format)| is_builtin || *format != Format::Protobuf);
    if media_type.is_empty() {
        return Ok(Format::Json);
    }
    match known.clone().find(|(m, _)| *m == media_type) {
        Some((_, format)) => Ok(*format),
        None => Err(Status::unsupported_media_type(&known.map(|(m, _)| *m).collect::<Vec<_>>())),
    }
}

/// Returns the media type of the body in lower case and without parameters; empty if the header is missing.
pub fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, value.parse().unwrap());
        headers
    }

    #[test]
    fn the_first_servable_clause_wins() {
        let table = Transform::Table(MetaVersion::V1);
        let metadata = Transform::Metadata(MetaVersion::V1);
        let cases = [
            ("", Encoding::Json, Transform::Whole),
            ("*/*", Encoding::Json, Transform::Whole),
            ("application/yaml", Encoding::Yaml, Transform::Whole),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Encoding::Json, table),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Encoding::Json, Transform::Whole),
            ("application/vnd.kubernetes.protobuf,application/json", Encoding::Json, Transform::Whole),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
                Encoding::Json,
                metadata,
            ),
            ("application/json;q=0.1,application/yaml", Encoding::Yaml, Transform::Whole),
            ("image/png,*/*;q=0.1", Encoding::Json, Transform::Whole),
        ];
        for (value, encoding, transform) in cases {
            let form = negotiate(&accept(value), false, true, false).unwrap();
            assert_eq!((form.encoding, form.transform), (encoding, transform), "{value}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        for value in [
            "text/html",
            "application/*",
            "application/cbor",
            "bad type",
            PROTOBUF,
            "application/json;as=Thing;g=meta.k8s.io;v=v1",
            "application/json;as=Table;g=meta.k8s.io;v=v9",
            "application/json;as=Table;g=apps;v=v1",
            "application/json;as=Table",
            "application/json;g=meta.k8s.io;v=v1",
            "application/json;v=v1",
            "application/json;sv=v2",
        ] {
            assert_eq!(negotiate(&accept(value), false, true, false).unwrap_err().code, 406, "{value}");
        }
        assert_eq!(negotiate(&accept("application/yaml"), false, true, true).unwrap_err().code, 406);
    }

    #[test]
    fn the_refusal_of_protobuf_names_the_setting_to_change() {
        let message = |value: &str| negotiate(&accept(value), false, true, false).unwrap_err().message;
        let metadata = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
        for value in [PROTOBUF, metadata.as_str(), "application/vnd.kubernetes.protobuf;stream=watch"] {
            assert!(message(value).contains(" --kube-api-content-type=application/json, "), "{value}");
        }
        assert!(!message("application/json;as=Thing;g=meta.k8s.io;v=v1").contains("protobuf"));
    }

    #[test]
    fn a_body_is_json_yaml_or_for_built_in_kinds_protobuf() {
        let format = |value: &str, is_builtin| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            format_of_body(&headers, is_builtin).map_err(|status| (status.code, status.message))
        };
        assert_eq!(format_of_body(&HeaderMap::new(), true).unwrap(), Format::Json);
        assert_eq!(format("APPLICATION/JSON; charset=utf-8", false), Ok(Format::Json));
        assert_eq!(format("application/yaml", false), Ok(Format::Yaml));
        assert_eq!(format(PROTOBUF, true), Ok(Format::Protobuf));
        let message = "the body of the request was in an unknown format - accepted media types include: ";
        let refused = |list: &str| Err((415, format!("{message}{list}")));
        assert_eq!(format(PROTOBUF, false), refused("application/json, application/yaml"));
        let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        assert_eq!(format("text/plain", true), refused(all));
    }
}
