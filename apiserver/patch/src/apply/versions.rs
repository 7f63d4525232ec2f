//! The versions of an object in which its managers wrote, and conversion between them.
//!
//! Corresponds to the version converter of k8s.io/apimachinery/pkg/util/managedfields.

use super::atoms::Type;
use super::conversions::Conversions;
use proto::resources::{Resource, Served};
use serde_json::Value;
use std::borrow::Cow;

/// The versions of an object.
#[derive(Clone, Copy)]
pub enum Versions<'a> {
    /// The versions of a resource, and the results of its conversion webhook.
    Of { row: &'a Resource, conversions: Option<&'a Conversions> },
    /// One version, for a kind without a resource: `Scale`.
    Only { api_version: &'a str, schema: Type<'a> },
}

impl<'a> Versions<'a> {
    fn served(&self, api_version: &str) -> Option<&'a Served> {
        match self {
            Self::Of { row, .. } => row.served.iter().find(|served| served.api_version() == api_version),
            Self::Only { .. } => None,
        }
    }

    /// Returns the type of an object in that version; `None` if the version is no longer served.
    pub fn schema(&self, api_version: &str) -> Option<Type<'a>> {
        match self {
            Self::Only { api_version: only, schema } => (*only == api_version).then_some(*schema),
            Self::Of { .. } => self.served(api_version).map(|served| Type::of(served.schema.schema())),
        }
    }

    /// Converts an object between versions; `None` if the target version is no longer served.
    pub fn convert<'v>(&self, value: &'v Value, from: &str, to: &str) -> Option<Cow<'v, Value>> {
        if from == to {
            return Some(Cow::Borrowed(value));
        }
        let Self::Of { row, conversions } = self else { return None };
        if row.converts_by_webhook() {
            self.served(to)?;
            return conversions.and_then(|known| known.converted(value, to)).map(Cow::Owned);
        }
        let from = row.served.iter().position(|served| served.api_version() == from)?;
        let stored = row.to_storage(from, value.clone());
        Some(Cow::Owned(self.served(to)?.from_storage(stored)))
    }
}
