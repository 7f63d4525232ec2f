//! Get and list: chooses the revision that a read is answered at, and selects the objects.
//!
//! Corresponds to the resourceVersion semantics of k8s.io/apiserver/pkg/storage/cacher (delegator) and
//! pkg/storage/etcd3/store.go.

use super::continue_token::Continue;
use super::row::Row;
use super::{Error, Registry, Result};
use cacher::{Freshness, Scope, Snapshot};
use proto::meta::field_selector::FieldSelector;
use proto::meta::selector::Selector;
use proto::resources::Target;
use proto::{Object, Status};
use request::options::{ListOptions, VersionMatch, version_number};
use std::sync::Arc;

/// The objects that a list or watch covers.
#[derive(Clone, Debug)]
pub struct Selection {
    pub scope: Scope,
    pub labels: Selector,
    pub fields: FieldSelector,
    /// True when there is no selector, so that every object in the scope matches.
    pub matches_all: bool,
}

impl Selection {
    /// Makes the selection of a request. A field selector on name or namespace narrows the scope.
    pub fn of(target: &Target, namespace: &str, name: Option<&str>, options: &ListOptions) -> Result<Self> {
        let labels = options.labels.clone();
        let fields = options.fields.clone();
        let fields = fields.resolve(target.served(), target.row.is_namespaced()).map_err(Status::bad_request)?;
        if name.is_some() && !fields.is_empty() && fields.exact_value("metadata.name") != name {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name").into());
        }
        let mut scope = Scope { namespace: namespace.to_owned(), name: name.map(str::to_owned) };
        if scope.namespace.is_empty()
            && target.row.is_namespaced()
            && let Some(one) = fields.exact_value("metadata.namespace")
        {
            scope.namespace = one.to_owned();
        }
        let is_one_place = !scope.namespace.is_empty() || !target.row.is_namespaced();
        if scope.name.is_none()
            && is_one_place
            && let Some(one) = fields.exact_value("metadata.name").filter(|name| !name.is_empty())
        {
            scope.name = Some(one.to_owned());
        }
        let matches_all = labels.is_empty() && fields.is_empty();
        Ok(Self { scope, labels, fields, matches_all })
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.matches_all || (self.labels.matches(&object.index.labels) && self.fields.matches(&object.index))
    }

    /// Returns the selection as a predicate for a watch; `None` when every object in the scope matches.
    pub fn predicate(&self) -> Option<cacher::watcher::Predicate> {
        if self.matches_all {
            return None;
        }
        let selection = self.clone();
        Some(Arc::new(move |object: &Object| selection.matches(object)))
    }
}

/// Result of a list.
#[derive(Debug)]
pub struct Listed {
    pub objects: Vec<Arc<Object>>,
    pub revision: u64,
    pub continue_token: Option<String>,
    /// The number of objects after this page; `None` when a selector leaves objects out.
    pub remaining: Option<u64>,
}

/// The state that a list reads.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The watch cache, once it is as fresh as this.
    Cached(Freshness),
    /// Exactly this revision.
    Exact(u64),
}

/// Chooses the state from the resourceVersion and resourceVersionMatch of a list without a continue token.
fn state_of(options: &ListOptions) -> Result<State> {
    let version = options.version().map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    Ok(match (version, options.version_match) {
        (None, _) => State::Cached(Freshness::Latest),
        (Some(version), Some(VersionMatch::Exact)) => State::Exact(version),
        (Some(0), _) => State::Cached(Freshness::Any),
        // Without resourceVersionMatch, a limit makes the version exact: a rule older than that parameter.
        (Some(version), None) if options.limit > 0 => State::Exact(version),
        (Some(version), _) => State::Cached(Freshness::AtLeast(version)),
    })
}

impl Registry {
    /// Reads one object: the current one for an empty `resource_version`, else one that is at least as fresh as it.
    pub async fn read_object(
        &self,
        target: &Target,
        namespace: &str,
        name: &str,
        resource_version: &str,
    ) -> Result<Arc<Object>> {
        let row = self.row(&target.row)?;
        let found = match resource_version {
            "" => row.cacher.get_latest(namespace, name).await,
            text => {
                let version = version_number(text).map_err(|why| Status::failure(500, "", why))?;
                let freshness = if version == 0 { Freshness::Any } else { Freshness::AtLeast(version) };
                row.cacher.read(freshness).await.map(|snapshot| snapshot.get(namespace, name).cloned())
            }
        };
        let served = target.served();
        let object = found?.ok_or_else(|| Error::NotFound(Status::not_found(&served.group, &served.resource, name)))?;
        self.convert_one(&row, target, object).await
    }

    /// Lists the selected objects in the target's version.
    pub async fn read_list(&self, target: &Target, selection: &Selection, options: &ListOptions) -> Result<Listed> {
        let row = self.row(&target.row)?;
        let mut listed = self.stored_list(&row, selection, options).await?;
        listed.objects = self.convert_list(&row, target, listed.objects).await?;
        Ok(listed)
    }

    /// Lists the selected objects as the store holds them.
    ///
    /// Deviation: where a webhook converts, selectors match an object in its stored version, not in the requested one.
    async fn stored_list(&self, row: &Row, selection: &Selection, options: &ListOptions) -> Result<Listed> {
        let (first, end) = selection.scope.keys(&row.prefix);
        // A value that cannot be decrypted fails the list, which would otherwise leave objects out silently.
        if row.cacher.has_unreadable() {
            let unreadable = row.cacher.unreadable().into_iter();
            let mut here = unreadable.filter(|(key, _)| (first.as_str()..end.as_str()).contains(&key.as_ref()));
            if let Some((_, reason)) = here.find(|(_, reason)| reason.is_encrypted()) {
                return Err(Status::internal(reason).into());
            }
        }
        if !options.continue_token.is_empty() {
            let token = Continue::decode(&options.continue_token)?;
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(
                    Status::bad_request("specifying resource version is not allowed when using continue").into()
                );
            }
            let start = format!("{}{}", base_of(row, selection), token.start);
            let Some(revision) = token.revision else {
                let snapshot = row.cacher.read(Freshness::Latest).await?;
                return Ok(page(row, selection, &snapshot, &start, &end, options.limit));
            };
            return self.exact_page(row, selection, options, revision, &start, &end).await.map_err(
                |error| match error {
                    cacher::Error::Expired { .. } => expired_token(&token).into(),
                    error => error.into(),
                },
            );
        }
        match state_of(options)? {
            State::Cached(freshness) => {
                let snapshot = row.cacher.read(freshness).await?;
                // A list at any freshness ignores the limit: the next page might come from a different revision.
                let limit = if freshness == Freshness::Any { 0 } else { options.limit };
                Ok(page(row, selection, &snapshot, &first, &end, limit))
            }
            State::Exact(revision) => {
                self.exact_page(row, selection, options, revision, &first, &end).await.map_err(|error| match error {
                    cacher::Error::TooLarge { requested, current } => {
                        storage::Error::FutureRevision { requested, current }.into()
                    }
                    cacher::Error::Expired { .. } => {
                        Status::expired("The resourceVersion for the provided list is too old.").into()
                    }
                    error => error.into(),
                })
            }
        }
    }

    /// Reads a page at an exact revision, from the watch cache's window or from the store's history.
    async fn exact_page(
        &self,
        row: &Row,
        selection: &Selection,
        options: &ListOptions,
        revision: u64,
        start: &str,
        end: &str,
    ) -> std::result::Result<Listed, cacher::Error> {
        if let Some(snapshot) = row.cacher.snapshot_at(revision).await? {
            return Ok(page(row, selection, &snapshot, start, end, options.limit));
        }
        let base = base_of(row, selection);
        let (mut objects, mut next, mut more) = (Vec::new(), start.to_owned(), true);
        let mut remaining = 0;
        while more && (options.limit == 0 || objects.len() < options.limit) {
            let missing = if options.limit == 0 { 0 } else { options.limit - objects.len() };
            let read = row.cacher.read_exact(revision, &next, end, missing).await?;
            remaining = read.remaining;
            more = read.next.is_some();
            next = read.next.unwrap_or(next);
            objects.extend(read.objects.into_iter().filter(|object| selection.matches(object)));
        }
        let token = more.then(|| Continue { start: next[base.len()..].to_owned(), revision: Some(revision) }.encode());
        let remaining = (more && selection.matches_all).then_some(remaining);
        Ok(Listed { objects, revision, continue_token: token, remaining })
    }
}

/// Returns the part of a key that continue tokens omit: the row's prefix and the namespace of the list.
fn base_of(row: &Row, selection: &Selection) -> String {
    let namespace = Scope::namespace(&selection.scope.namespace);
    namespace.keys(&row.prefix).0
}

/// Returns the objects from `start` on, up to the limit, with a continue token when more keys follow.
fn page(row: &Row, selection: &Selection, snapshot: &Snapshot, start: &str, end: &str, limit: usize) -> Listed {
    let revision = snapshot.revision;
    let mut range = snapshot.range(start, end);
    if limit == 0 {
        let objects = range.map(|(_, object)| object).filter(|object| selection.matches(object)).cloned().collect();
        return Listed { objects, revision, continue_token: None, remaining: None };
    }
    let (mut objects, mut last) = (Vec::with_capacity(limit.min(1024)), None);
    for (key, object) in range.by_ref() {
        if selection.matches(object) {
            objects.push(object.clone());
        }
        last = Some(key.clone());
        if objects.len() == limit {
            break;
        }
    }
    let rest = range.count() as u64;
    let token = last.filter(|_| rest > 0).map(|last| {
        let start = format!("{}\0", &last[base_of(row, selection).len()..]);
        Continue { start, revision: Some(revision) }.encode()
    });
    let remaining = (token.is_some() && selection.matches_all).then_some(rest);
    Listed { objects, revision, continue_token: token, remaining }
}

/// Returns 410 with a continue token that resumes the list at the current revision.
fn expired_token(token: &Continue) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = Continue { start: token.start.clone(), revision: None }.encode();
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use request::query::Query;

    #[test]
    fn versions_choose_the_state() {
        let state = |query: &str| state_of(&ListOptions::read(&Query::parse(query)).unwrap()).unwrap();
        let cases = [
            ("", State::Cached(Freshness::Latest)),
            ("limit=5", State::Cached(Freshness::Latest)),
            ("resourceVersion=0", State::Cached(Freshness::Any)),
            ("resourceVersion=0&limit=5", State::Cached(Freshness::Any)),
            ("resourceVersion=7", State::Cached(Freshness::AtLeast(7))),
            ("resourceVersion=7&limit=5", State::Exact(7)),
            ("resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=5", State::Cached(Freshness::AtLeast(7))),
            ("resourceVersion=7&resourceVersionMatch=Exact", State::Exact(7)),
        ];
        for (query, expected) in cases {
            assert_eq!(state(query), expected, "{query}");
        }
    }
}
