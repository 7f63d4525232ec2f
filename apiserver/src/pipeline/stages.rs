//! The stages of the pipeline, one function each, and the functions that record their metrics.

use super::StageResult;
use super::exchange::Exchange;
use super::refusal::Refusal;
use crate::{answer, endpoints};
use access::authn::impersonation::{self, RequiredPermission};
use access::authn::{AuthenticationListener, bearer};
use access::authz::{Attributes, Authorization, Listener};
use cacher::lookup::Lookup;
use http::Uri;
use proto::Status;
use request::UserInfo;
use request::info::RequestInfo;
use request::trace::Gate;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Authenticates the caller. A failure is kept for the next stage, which audits the request before it refuses it.
pub async fn authenticate(exchange: &mut Exchange<'_>) -> StageResult {
    let Exchange { server, parts, record, .. } = exchange;
    let listener = AuthenticationListener { warn: &|warning| record.warn([warning]), steps: record.steps() };
    let objects: Arc<dyn Lookup> = server.registry.clone();
    exchange.user = server.access.authentication.authenticate(parts, &server.env, &objects, &listener).await;
    Ok(ControlFlow::Continue(()))
}

pub fn count_authentication(exchange: &Exchange<'_>, _: &StageResult, elapsed: Duration) {
    exchange.server.records.metrics.access.authenticated(&exchange.user, elapsed);
}

/// Begins the audit trail, refuses an unauthenticated caller, and removes the credentials from the headers, so that no
/// later stage sees them.
pub async fn audit(exchange: &mut Exchange<'_>) -> StageResult {
    let Exchange { server, info, parts, record, user, .. } = exchange;
    let stored = record.begin_audit(server, parts, info, user.as_ref().ok()).await;
    let user = user.clone()?;
    if !stored {
        let line = format!("Internal Server Error: {:?}: failed to store audit event", path_and_query(&parts.uri));
        return Ok(ControlFlow::Break(answer::plain_error(500, &line)));
    }
    if let Some(proxies) = &server.access.authentication.request_headers {
        proxies.remove(&mut parts.headers);
    }
    bearer::remove(&mut parts.headers);
    record.set_authenticated_user(&user);
    record.permit_trace(server, &user).await;
    Ok(ControlFlow::Continue(()))
}

fn path_and_query(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |uri| uri.as_str())
}

/// Replaces the authenticated user by the one that the impersonation headers name, if the caller may impersonate it.
pub async fn impersonate(exchange: &mut Exchange<'_>) -> StageResult {
    let impersonated = impersonation::requested(&exchange.parts.headers).map_err(Refusal::by_filter)?;
    if let Some(impersonated) = impersonated {
        let listener = exchange.record.steps().map(|steps| Listener::new(steps, Gate::Impersonation));
        let authorization = &exchange.server.access.authorization;
        let authorized =
            authorize_impersonation(authorization, exchange.user()?, &impersonated, exchange.info, listener);
        authorized.await.map_err(Refusal::by_filter)?;
        exchange.user = Ok(impersonation::with_implied_groups(impersonated));
    }
    exchange.record.set_user(exchange.user.as_ref().map_err(Status::clone)?);
    Ok(ControlFlow::Continue(()))
}

/// Checks the permissions of constrained impersonation first (for the user and for the action), then those of the
/// `impersonate` verb, as Kubernetes 1.36 does.
async fn authorize_impersonation(
    authorization: &Authorization,
    user: &UserInfo,
    impersonated: &UserInfo,
    info: &RequestInfo,
    listener: Option<Listener<'_>>,
) -> Result<(), Status> {
    let mode = impersonation::mode(impersonated);
    let on_verb = format!("impersonate-on:{mode}:{}", info.verb);
    let selected = info.named_by_selector().unwrap_or_default();
    let action = Attributes { verb: &on_verb, listener, ..Attributes::of_request(user, info, &selected) };
    let constrained = match authorization.authorize(&action).await {
        Ok(()) => {
            authorize_identity(authorization, user, &impersonation::constrained_permissions(impersonated), listener)
                .await
        }
        Err(refused) => Err(refused),
    };
    let Err(refused) = constrained else { return Ok(()) };
    match authorize_identity(authorization, user, &impersonation::required_permissions(impersonated), listener).await {
        // A caller that holds `impersonate` on any user gets the error of that verb, not of constrained impersonation.
        Err(unconstrained) if authorization.holds_verb(user, "impersonate") => Err(unconstrained),
        Err(_) => Err(refused),
        Ok(()) => Ok(()),
    }
}

async fn authorize_identity(
    authorization: &Authorization,
    user: &UserInfo,
    needed: &[RequiredPermission],
    listener: Option<Listener<'_>>,
) -> Result<(), Status> {
    for needed in needed {
        let attributes = Attributes {
            namespace: &needed.namespace,
            subresource: &needed.subresource,
            name: &needed.name,
            listener,
            ..Attributes::of_resource(user, &needed.verb, needed.group, needed.resource)
        };
        authorization.authorize(&attributes).await?;
    }
    Ok(())
}

/// Classifies the request and waits for a seat of its priority level.
pub async fn wait_for_seat(exchange: &mut Exchange<'_>) -> StageResult {
    let (server, info) = (exchange.server, exchange.info);
    let user = exchange.user()?;
    let flow = server.flow_control.classify(info, user);
    let seat = server.flow_control.enter(flow.clone(), info, user, &server.registry, server.request_timeout()).await;
    exchange.record.set_flow(flow.as_deref());
    exchange.record.trace_flow_control(flow.as_deref(), seat.as_ref().err());
    match seat {
        Ok(seat) => {
            exchange.seat = Some(seat);
            Ok(ControlFlow::Continue(()))
        }
        Err(_) => Ok(ControlFlow::Break(answer::too_many_requests())),
    }
}

/// Authorizes the request for the user that it acts as.
pub async fn authorize(exchange: &mut Exchange<'_>) -> StageResult {
    let selected = exchange.info.named_by_selector().unwrap_or_default();
    let listener = exchange.record.steps().map(|steps| Listener::new(steps, Gate::Authorization));
    let attributes = Attributes { listener, ..Attributes::of_request(exchange.user()?, exchange.info, &selected) };
    let verdict = exchange.server.access.authorization.decide(&attributes).await;
    exchange.record.annotate_decision(&verdict.decision);
    verdict.into_result(&attributes).map_err(Refusal::by_filter)?;
    Ok(ControlFlow::Continue(()))
}

pub fn count_authorization(exchange: &Exchange<'_>, result: &StageResult, elapsed: Duration) {
    let refused = result.as_ref().err().map(|refusal| &refusal.status);
    exchange.server.records.metrics.access.authorized(refused, elapsed);
}

/// Answers the request with the handler of its verb.
pub async fn handle(exchange: &mut Exchange<'_>) -> StageResult {
    let body = exchange.record.copy_request(exchange.body.take().unwrap_or_default());
    let user = exchange.user.as_ref().map_err(Status::clone)?;
    let (server, info) = (exchange.server, exchange.info);
    let call = endpoints::Call { server, info, user, parts: exchange.parts, record: exchange.record };
    Ok(ControlFlow::Break(endpoints::dispatch(&call, body).await?))
}
