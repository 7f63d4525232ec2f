//! `Exchange`: one request on its way through the stages, with what the stages have learned about it.

use super::refusal::Refusal;
use crate::record::Record;
use crate::server::Server;
use axum::body::Body;
use flow_control::Seat;
use http::request::Parts;
use proto::Status;
use request::UserInfo;
use request::info::RequestInfo;
use std::sync::Arc;

/// The state of one request that the stages share.
pub struct Exchange<'r> {
    pub server: &'r Arc<Server>,
    pub info: &'r RequestInfo,
    pub parts: &'r mut Parts,
    pub record: &'r mut Record,
    /// The request's body. `None` once the handler has taken it.
    pub body: Option<Body>,
    /// The user that the request acts as: the authenticated one, later the impersonated one. An error until
    /// authentication has succeeded.
    pub user: Result<UserInfo, Status>,
    /// The seat of the priority level, held while the request is served.
    pub seat: Option<Seat>,
}

impl<'r> Exchange<'r> {
    pub fn new(
        server: &'r Arc<Server>,
        parts: &'r mut Parts,
        body: Body,
        info: &'r RequestInfo,
        record: &'r mut Record,
    ) -> Self {
        let user = Err(Status::unauthorized());
        Self { server, info, parts, record, body: Some(body), user, seat: None }
    }

    /// Returns the user that the request acts as, or a refusal when authentication has failed.
    pub fn user(&self) -> Result<&UserInfo, Refusal> {
        self.user.as_ref().map_err(|status| Refusal::of(status.clone()))
    }
}
