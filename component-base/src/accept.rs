//! The clauses of an Accept header.
//!
//! Corresponds to github.com/munnerz/goautoneg, with which Kubernetes reads it.

use http::{HeaderMap, header};

/// One clause of an Accept header.
#[derive(Debug)]
pub struct Clause<'a> {
    pub media_type: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// Returns the value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Returns true if the clause accepts this media type.
    pub fn accepts(&self, served: &str) -> bool {
        self.media_type == "*/*"
            || self.media_type.eq_ignore_ascii_case(served)
            || self.media_type.strip_suffix("/*").is_some_and(|main| served.split('/').next() == Some(main))
    }
}

/// Returns the Accept header of a request; empty if there is none.
pub fn accept_of(headers: &HeaderMap) -> &str {
    headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// Parses an Accept header into its clauses, with the preferred ones first.
pub fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept
        .split(',')
        .filter_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next()?;
            let mut parameters: Vec<(&str, &str)> = parts.filter_map(|p| p.split_once('=')).collect();
            let quality = parameters.iter().find(|(n, _)| *n == "q").and_then(|(_, q)| q.parse().ok()).unwrap_or(1.0);
            parameters.retain(|(name, _)| *name != "q");
            (!media_type.is_empty()).then_some(Clause { media_type, quality, parameters })
        })
        .collect();
    // The sort is stable: clauses of equal quality keep the client's order, but `*/*` comes last among them.
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then((a.media_type == "*/*").cmp(&(b.media_type == "*/*"))));
    clauses
}
