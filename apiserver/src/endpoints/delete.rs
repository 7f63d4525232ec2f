//! DELETE of one object or of a collection.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/delete.go.

use super::{Call, list, present};
use crate::answer;
use crate::media::{self, Form, Transform};
use access::authz::attributes::Attributes;
use axum::body::Body;
use futures::future::join_all;
use http::Response;
use proto::resources::Target;
use proto::wire::document::Document;
use proto::{Object, Status};
use registry::deletion::Deleted;
use registry::mutation::{Admission, Mutation};
use registry::read::Selection;
use request::body::read;
use request::options::{DeleteOptions, ListOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Deletes one object.
pub async fn one(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let options = options(call, body).await?;
    let mut mutation = call.mutation(target, "", options.dry_run, &options.given);
    if options.unreadable && call.server.registry.is_unreadable(&mutation).await? {
        options.check_unreadable()?;
        return delete_unreadable(call, target, &form, &mutation).await;
    }
    let row = call.server.registry.row(&target.row)?;
    match call.delete(&mut mutation, &options).await? {
        Deleted::Pending(object) => {
            let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
            present::object(call, target, &form, code, &object)
        }
        Deleted::Gone(object) if row.resource.returns_deleted => present::object(call, target, &form, 200, &object),
        Deleted::Gone(object) => {
            let served = target.served();
            let status = Status::deleted(&served.group, &served.resource, &call.info.name, &object.index.uid);
            Ok(answer::status(&Form { transform: Transform::Whole, ..form }, &status))
        }
    }
}

/// Deletes an object whose stored bytes cannot be decoded. That requires a permission of its own.
async fn delete_unreadable(
    call: &Call<'_>,
    target: &Target,
    form: &Form,
    mutation: &Mutation<'_>,
) -> Result<Response<Body>, Status> {
    const VERB: &str = "unsafe-delete-ignore-read-errors";
    let served = target.served();
    let attributes = Attributes { verb: VERB, ..Attributes::of_request(call.user, call.info, "") };
    if let Err(denied) = call.server.access.authorization.authorize(&attributes).await {
        let why = format!("not permitted to do {VERB:?}, reason: {}", denied.message);
        return Err(Status::forbidden(&served.group, &served.resource, &call.info.name, why));
    }
    call.server.registry.delete_unreadable(mutation).await?;
    let status = Status::deleted(&served.group, &served.resource, &call.info.name, "");
    Ok(answer::status(&Form { transform: Transform::Whole, ..*form }, &status))
}

/// Deletes the objects that the selectors match, and answers with the list as it was before.
pub async fn collection(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let list_options = ListOptions::read(&call.info.query)?;
    let selection = Selection::of(target, call.namespace(target), None, &list_options)?;
    let options = options(call, body).await?;
    let listed = call.server.registry.read_list(target, &selection, &list_options).await?;
    delete_all(call, target, &options, &listed.objects).await?;
    list::respond(call, target, &form, listed)
}

/// Deletes the objects with several workers, each of which takes one object after the other. Concurrent deletions share a
/// sync of the store. After a failure, each worker finishes its current object and takes no more.
async fn delete_all(
    call: &Call<'_>,
    target: &Target,
    options: &DeleteOptions,
    objects: &[Arc<Object>],
) -> Result<(), Status> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let worker = async || {
        while !failed.load(Ordering::Relaxed)
            && let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let deleted = delete_listed(call, target, options, object).await;
            deleted.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    // One worker keeps the steps of a traced request in order.
    let traced = call.record.steps().is_some();
    let workers = if traced { 1 } else { call.server.config.delete_collection_workers.max(1) };
    let results = join_all((0..workers.min(objects.len())).map(|_| worker())).await;
    results.into_iter().collect()
}

async fn delete_listed(
    call: &Call<'_>,
    target: &Target,
    options: &DeleteOptions,
    object: &Object,
) -> registry::Result<()> {
    let mut mutation = call.mutation(target, "", options.dry_run, &options.given);
    mutation.namespace = &object.index.namespace;
    mutation.name = &object.index.name;
    mutation.admission = Admission::Unnamed;
    match call.delete(&mut mutation, options).await {
        // Another client has deleted it meanwhile.
        Err(gone) if gone.is_not_found() => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Returns the DeleteOptions of the body, or those of the query if the body is empty.
async fn options(call: &Call<'_>, body: Body) -> Result<DeleteOptions, Status> {
    let bytes = read(body).await?;
    if bytes.is_empty() {
        return DeleteOptions::from_query(&call.info.query);
    }
    let format = media::format_of_body(call.headers(), true)?;
    DeleteOptions::from_body(Document::parse(format, &bytes).map_err(Status::bad_request)?)
}
