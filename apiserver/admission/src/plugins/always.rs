//! AlwaysAdmit and AlwaysDeny: plugins that admit or reject every write.
//!
//! Corresponds to plugin/pkg/admission/{admit,deny}; deprecated there.

use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;

pub struct AlwaysAdmit;

impl AdmissionPlugin for AlwaysAdmit {}

pub struct AlwaysDeny;

#[async_trait]
impl AdmissionPlugin for AlwaysDeny {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        self.validate(attributes).await
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        Err(attributes.forbidden("admission control is denying all modifications"))
    }
}
