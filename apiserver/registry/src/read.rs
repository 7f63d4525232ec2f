//! Get and list: which state a read is answered from, and which objects of it.
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

/// Which objects a list or watch is about.
#[derive(Clone, Debug)]
pub struct Selection {
    pub scope: Scope,
    pub labels: Selector,
    pub fields: FieldSelector,
    /// The scope alone decides: nothing has to be looked at.
    pub takes_all: bool,
}

impl Selection {
    /// From a request's namespace and selectors. A selector on name or namespace narrows the scope.
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
        let takes_all = labels.is_empty() && fields.is_empty();
        Ok(Self { scope, labels, fields, takes_all })
    }

    pub fn takes(&self, object: &Object) -> bool {
        self.takes_all || (self.labels.matches(&object.index.labels) && self.fields.matches(&object.index))
    }

    /// For a watch, where `None` spares the call.
    pub fn predicate(&self) -> Option<cacher::watcher::Predicate> {
        if self.takes_all {
            return None;
        }
        let selection = self.clone();
        Some(Arc::new(move |object: &Object| selection.takes(object)))
    }
}

/// What a list answers.
#[derive(Debug)]
pub struct Listed {
    pub objects: Vec<Arc<Object>>,
    pub revision: u64,
    pub continue_token: Option<String>,
    /// Known only where no selector leaves objects out.
    pub remaining: Option<u64>,
}

/// Which state a list reads.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Cached(Freshness),
    Exact(u64),
}

/// resourceVersion and resourceVersionMatch of a list without a continue token.
fn state_of(options: &ListOptions) -> Result<State> {
    let version = options.version().map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    Ok(match (version, options.version_match) {
        (None, _) => State::Cached(Freshness::Latest),
        (Some(version), Some(VersionMatch::Exact)) => State::Exact(version),
        (Some(0), _) => State::Cached(Freshness::Any),
        // Before there was a match parameter, a limit made the version exact; so it does still.
        (Some(version), None) if options.limit > 0 => State::Exact(version),
        (Some(version), _) => State::Cached(Freshness::AtLeast(version)),
    })
}

impl Registry {
    /// One object: as the store has it, or as old as `resource_version` allows.
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
        self.shown_one(&row, target, object).await
    }

    pub async fn read_list(&self, target: &Target, selection: &Selection, options: &ListOptions) -> Result<Listed> {
        let row = self.row(&target.row)?;
        let mut listed = self.stored_list(&row, selection, options).await?;
        listed.objects = self.shown(&row, target, listed.objects).await?;
        Ok(listed)
    }

    /// Deviation: where a webhook converts, selectors look at an object as it is stored, not as it is shown.
    async fn stored_list(&self, row: &Row, selection: &Selection, options: &ListOptions) -> Result<Listed> {
        let (first, end) = selection.scope.keys(&row.prefix);
        // What lies there and cannot be decrypted is not left out in silence: it may be all of it.
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
                // Served from whatever is cached, a list is whole: its pages could not be found again.
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

    /// A page at an exact revision, out of the cache's window or the engine's history.
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
            let wanted = if options.limit == 0 { 0 } else { options.limit - objects.len() };
            let read = row.cacher.read_exact(revision, &next, end, wanted).await?;
            remaining = read.remaining;
            more = read.next.is_some();
            next = read.next.unwrap_or(next);
            objects.extend(read.objects.into_iter().filter(|object| selection.takes(object)));
        }
        let token = more.then(|| Continue { start: next[base.len()..].to_owned(), revision: Some(revision) }.encode());
        let remaining = (more && selection.takes_all).then_some(remaining);
        Ok(Listed { objects, revision, continue_token: token, remaining })
    }
}

/// What continue tokens leave out of keys: the row's prefix and the namespace of the list.
fn base_of(row: &Row, selection: &Selection) -> String {
    let namespace = Scope::namespace(&selection.scope.namespace);
    namespace.keys(&row.prefix).0
}

/// The objects from `start` on, up to the limit; a token where the range goes on.
fn page(row: &Row, selection: &Selection, snapshot: &Snapshot, start: &str, end: &str, limit: usize) -> Listed {
    let revision = snapshot.revision;
    let mut range = snapshot.range(start, end);
    if limit == 0 {
        let objects = range.map(|(_, object)| object).filter(|object| selection.takes(object)).cloned().collect();
        return Listed { objects, revision, continue_token: None, remaining: None };
    }
    let (mut objects, mut last) = (Vec::with_capacity(limit.min(1024)), None);
    for (key, object) in range.by_ref() {
        if selection.takes(object) {
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
    let remaining = (token.is_some() && selection.takes_all).then_some(rest);
    Listed { objects, revision, continue_token: token, remaining }
}

/// 410 with a token that goes on at the present.
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
