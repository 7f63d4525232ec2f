//! Subresources: calls the handler of a request's subresource, or answers 404 or 405.
//!
//! Corresponds to the subresource storages of pkg/registry (status, scale, binding, eviction, token, …).

use super::{Call, binding, eviction, get, log, method_not_allowed, patch, proxy, scale, stream, token, update};
use axum::body::Body;
use http::{Method, Response};
use proto::Status;
use proto::resources::{Target, Verb};

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let info = call.info;
    let served = target.served();
    let is_custom = !served.schema.is_builtin();
    let Some(subresource) = served.subresource(&info.subresource) else {
        return Err(match is_custom {
            true => Status::not_found(&served.group, &served.resource, &info.name),
            false => Status::unknown_path(),
        });
    };
    let is_proxy = info.subresource == "proxy";
    if !is_custom && !is_proxy && !info.trailing.is_empty() {
        return Err(Status::unknown_path());
    }
    let verb = match call.parts.method {
        Method::GET => Verb::Get,
        Method::HEAD if is_custom || is_proxy => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ if is_custom => return Err(Status::method_not_allowed(&served.group, &served.resource, &info.verb)),
        _ => return Err(method_not_allowed()),
    };
    if !subresource.verbs.contains(&verb) {
        if is_custom {
            return Err(Status::method_not_allowed(&served.group, &served.resource, &info.verb));
        }
        return Err(method_not_allowed());
    }
    match (info.subresource.as_ref(), verb) {
        ("status" | "approval" | "finalize" | "ephemeralcontainers" | "resize", Verb::Get) => {
            get::answer(call, target).await
        }
        ("status" | "approval" | "finalize" | "ephemeralcontainers" | "resize", Verb::Update) => {
            update::answer(call, target, body).await
        }
        ("status" | "approval" | "finalize" | "ephemeralcontainers" | "resize", Verb::Patch) => {
            patch::answer(call, target, body).await
        }
        ("scale", _) => scale::answer(call, target, verb, body).await,
        ("binding", _) => binding::answer(call, target, &info.name, body).await,
        ("eviction", _) => eviction::answer(call, target, body).await,
        ("token", _) => token::answer(call, target, body).await,
        ("exec" | "attach" | "portforward", _) => stream::answer(call, target).await,
        ("proxy", _) => proxy::answer(call, target, body).await,
        ("log", _) => log::answer(call, target).await,
        (name, _) => {
            // A missing object is reported before the missing implementation.
            call.server.registry.read_object(target, call.namespace(target), &info.name, "").await?;
            Err(Status::not_implemented(format!(
                "the {name} subresource of {} is not implemented by this server",
                info.resource
            )))
        }
    }
}
