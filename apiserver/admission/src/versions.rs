//! `Versions`: the resource that is written, in every version that is served.
//!
//! Corresponds to the EquivalentResourceMapper and the ObjectConvertor of k8s.io/apiserver/pkg/admission.ObjectInterfaces.

use async_trait::async_trait;
use proto::Status;
use proto::resources::{Served, Target};
use serde_json::Value;

/// A version is named by its place in the resource's list.
#[async_trait]
pub trait Versions: Send + Sync {
    /// The resource, and the version that the request speaks.
    fn target(&self) -> &Target;

    /// An object of the resource, itself and no body of a subresource, in another version.
    async fn convert(&self, object: Value, from: usize, to: usize) -> Result<Value, Status>;
}

impl dyn Versions + '_ {
    pub fn all(&self) -> &[Served] {
        &self.target().row.served
    }

    /// The version that the request speaks.
    pub fn requested(&self) -> usize {
        self.target().served
    }

    /// The other ones that have the subresource, too, if there is one.
    pub fn others<'a>(&'a self, subresource: &'a str) -> impl Iterator<Item = usize> + 'a {
        let has = move |served: &Served| {
            served.is_served && (subresource.is_empty() || served.subresource(subresource).is_some())
        };
        let places = self.all().iter().enumerate().filter(move |(_, served)| has(served));
        places.map(|(place, _)| place).filter(|place| *place != self.requested())
    }
}
