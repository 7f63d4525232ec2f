//! `Exchange`: one request on its way through the stages, and what they have found out about it.

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

/// What the stages share about one request.
pub struct Exchange<'r> {
    pub server: &'r Arc<Server>,
    pub info: &'r RequestInfo,
    pub parts: &'r mut Parts,
    pub record: &'r mut Record,
    /// `None` once the handler has taken it.
    pub body: Option<Body>,
    /// Whom the request acts as: the authenticated user, later the impersonated one. An error until authentication has
    /// succeeded.
    pub user: Result<UserInfo, Status>,
    /// Held while the request is served.
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

    /// The user that the request acts as, or the refusal of an unknown one.
    pub fn user(&self) -> Result<&UserInfo, Refusal> {
        self.user.as_ref().map_err(|status| Refusal::of(status.clone()))
    }
}
