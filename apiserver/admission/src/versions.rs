//! `Versions`: all served versions of the written resource, and conversion between them.
//!
//! Corresponds to the EquivalentResourceMapper and the ObjectConvertor of k8s.io/apiserver/pkg/admission.ObjectInterfaces.

use async_trait::async_trait;
use proto::Status;
use proto::resources::{Served, Target};
use serde_json::Value;

/// A version is identified by its index in the resource's list.
#[async_trait]
pub trait Versions: Send + Sync {
    /// Returns the resource and the version of the request.
    fn target(&self) -> &Target;

    /// Converts an object of the resource to another version. It must not be the body of a subresource.
    async fn convert(&self, object: Value, from: usize, to: usize) -> Result<Value, Status>;
}

impl dyn Versions + '_ {
    pub fn all(&self) -> &[Served] {
        &self.target().row.served
    }

    /// Returns the version of the request.
    pub fn requested(&self) -> usize {
        self.target().served
    }

    /// Returns the other versions, if `subresource` is set only those that have it too.
    pub fn others<'a>(&'a self, subresource: &'a str) -> impl Iterator<Item = usize> + 'a {
        let has = move |served: &Served| {
            served.is_served && (subresource.is_empty() || served.subresource(subresource).is_some())
        };
        let places = self.all().iter().enumerate().filter(move |(_, served)| has(served));
        places.map(|(place, _)| place).filter(|place| *place != self.requested())
    }
}
