//! The form of a page: text, or an object of a version that the client names.
//!
//! Corresponds to the packages negotiate of k8s.io/apiserver/pkg/server/statusz and flagz.

use crate::accept::{Clause, accept_of, clauses};
use http::HeaderMap;
use proto::Status;

const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const TEXT: &str = "text/plain";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    /// With the version.
    Json(&'static str),
    Yaml(&'static str),
}

/// Chooses the form of a page of this kind: that of the first clause that can be served. Without a header it is text.
///
/// ```text
/// Accept: application/json;v=v1beta1;g=config.k8s.io;as=Statusz
/// ```
pub fn negotiate(headers: &HeaderMap, kind: &str) -> Result<Form, Status> {
    let accept = accept_of(headers);
    if accept.trim().is_empty() {
        return Ok(Form::Text);
    }
    let form = clauses(accept).iter().find_map(|clause| of_clause(clause, kind));
    form.ok_or_else(|| Status::not_acceptable(&[JSON, YAML, TEXT]))
}

fn of_clause(clause: &Clause<'_>, kind: &str) -> Option<Form> {
    let asked = ["g", "v", "as"].map(|name| clause.parameter(name));
    if clause.parameter("charset").is_some_and(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
        return None;
    }
    match asked {
        [None, None, None] => clause.accepts(TEXT).then_some(Form::Text),
        [Some(super::GROUP), Some(version), Some(asked)] if asked == kind => {
            let version = VERSIONS.into_iter().find(|known| *known == version)?;
            let json = clause.accepts(JSON).then_some(Form::Json(version));
            json.or_else(|| clause.accepts(YAML).then_some(Form::Yaml(version)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::ACCEPT;

    /// The cases of TestHandleStatusz in k8s.io/apiserver/pkg/server/statusz.
    #[test]
    fn the_form_is_that_of_the_first_clause_that_can_be_served() {
        let own = "v=v1beta1;g=config.k8s.io;as=Statusz";
        for (accept, expected) in [
            ("", Some(Form::Text)),
            ("text/plain", Some(Form::Text)),
            ("text/plain;charset=UTF-8", Some(Form::Text)),
            ("text/plain;charset=latin1", None),
            ("*/*", Some(Form::Text)),
            ("application/xml", None),
            ("application/json", None),
            ("application/json;v=v1alpha1;g=config.k8s.io", None),
            ("application/json;v=v1alpha1;g=config.k8s.io;as=Statusz", Some(Form::Json("v1alpha1"))),
            ("application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", None),
            (&format!("application/json;{own}"), Some(Form::Json("v1beta1"))),
            (&format!("application/yaml;{own}"), Some(Form::Yaml("v1beta1"))),
            (&format!("application/vnd.kubernetes.protobuf;{own}"), None),
            ("application/json;v=foo;g=config.k8s.io;as=Statusz,*/*", Some(Form::Text)),
        ] {
            let headers = [(ACCEPT, HeaderValue::from_str(accept).unwrap())].into_iter().collect();
            assert_eq!(negotiate(&headers, "Statusz").ok(), expected, "{accept}");
        }
        assert_eq!(negotiate(&HeaderMap::new(), "Statusz").unwrap(), Form::Text);
    }
}
