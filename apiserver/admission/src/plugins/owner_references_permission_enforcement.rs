//! OwnerReferencesPermissionEnforcement: changing owner references needs permission to delete the object, and setting
//! `blockOwnerDeletion` needs permission to update the owner's finalizers.
//!
//! Corresponds to plugin/pkg/admission/gc. Off by default, as there.

use super::pod_parts::{items, text};
use crate::{AdmissionPlugin, Attributes, Operation};
use access::authz;
use async_trait::async_trait;
use proto::gvk::split_api_version;
use proto::{Gvk, Status};
use serde_json::Value;
use std::sync::Arc;

const REFERENCES: &str = "/metadata/ownerReferences";

/// The resource of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    pub group: String,
    pub resource: String,
    pub is_namespaced: bool,
}

/// Checks permissions.
#[async_trait]
pub trait Rights: Send + Sync {
    /// The error is the reason of a denial.
    async fn check(&self, attributes: &authz::Attributes<'_>) -> Result<(), String>;
}

#[async_trait]
impl Rights for authz::Authorization {
    async fn check(&self, attributes: &authz::Attributes<'_>) -> Result<(), String> {
        match self.decide(attributes).await.decision {
            authz::Decision::Allow(_) => Ok(()),
            authz::Decision::NoOpinion(reason) | authz::Decision::Deny(reason) => Err(reason),
        }
    }
}

/// Maps kinds to served resources.
pub trait Kinds: Send + Sync {
    fn resource_of(&self, kind: &Gvk) -> Option<Mapped>;
}

pub struct OwnerReferencesPermissionEnforcement {
    pub rights: Arc<dyn Rights>,
    pub kinds: Arc<dyn Kinds>,
}

#[async_trait]
impl AdmissionPlugin for OwnerReferencesPermissionEnforcement {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let is_pod_status = attributes.subresource == "status"
            && attributes.served.group.is_empty()
            && attributes.served.resource == "pods";
        let (new, old) = (attributes.new_object(), attributes.old());
        if is_pod_status || items(new, REFERENCES).eq(items(old, REFERENCES)) {
            return Ok(());
        }
        // On creation, no permission to delete is needed.
        if attributes.operation != Operation::Create {
            let delete = authz::Attributes {
                namespace: attributes.namespace,
                version: &attributes.served.version,
                subresource: attributes.subresource,
                name: attributes.name,
                ..authz::Attributes::of_resource(
                    attributes.user,
                    "delete",
                    &attributes.served.group,
                    &attributes.served.resource,
                )
            };
            if let Err(reason) = self.rights.check(&delete).await {
                return Err(attributes.forbidden(format_args!(
                    "cannot set an ownerRef on a resource you can't delete: {reason}, <nil>"
                )));
            }
        }
        let blocking: Vec<&Value> = newly_blocking(new, old).collect();
        if blocking.is_empty() || self.may_finalize_anything(attributes).await {
            return Ok(());
        }
        for reference in blocking {
            self.may_finalize(attributes, reference).await?;
        }
        Ok(())
    }
}

impl OwnerReferencesPermissionEnforcement {
    async fn may_finalize_anything(&self, attributes: &Attributes<'_>) -> bool {
        let anything = authz::Attributes {
            subresource: "finalizers",
            name: "*",
            ..authz::Attributes::of_resource(attributes.user, "update", "*", "*")
        };
        self.rights.check(&anything).await.is_ok()
    }

    async fn may_finalize(&self, attributes: &Attributes<'_>, reference: &Value) -> Result<(), Status> {
        let (api_version, kind) = (text(reference, "/apiVersion"), text(reference, "/kind"));
        let (group, version) = split_api_version(api_version);
        let Some(owner) = self.kinds.resource_of(&Gvk::new(group, version, kind)) else {
            return Err(attributes.forbidden(format_args!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion \
                 {api_version} Kind {kind}: no matches for kind {kind:?} in version {api_version:?}"
            )));
        };
        let update = authz::Attributes {
            namespace: if owner.is_namespaced { attributes.namespace } else { "" },
            version,
            subresource: "finalizers",
            name: text(reference, "/name"),
            ..authz::Attributes::of_resource(attributes.user, "update", &owner.group, &owner.resource)
        };
        self.rights.check(&update).await.map_err(|reason| {
            attributes.forbidden(format_args!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: \
                 {reason}, <nil>"
            ))
        })
    }
}

/// Returns references that newly set `blockOwnerDeletion`.
fn newly_blocking<'a>(new: &'a Value, old: &'a Value) -> impl Iterator<Item = &'a Value> {
    let blocks = |reference: &&Value| reference["blockOwnerDeletion"] == true;
    let did_before =
        move |reference: &&Value| items(old, REFERENCES).filter(blocks).any(|before| before["uid"] == reference["uid"]);
    items(new, REFERENCES).filter(blocks).filter(move |reference| !did_before(reference))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;

    /// `ann` may delete config maps and finalize sets; `root` may finalize anything.
    struct Rules;

    #[async_trait]
    impl Rights for Rules {
        async fn check(&self, a: &authz::Attributes<'_>) -> Result<(), String> {
            let is_allowed = match (a.user.name.as_str(), a.verb, a.group, a.resource, a.subresource) {
                ("ann", "delete", "", "configmaps", "") => a.namespace == "a" && a.name == "c",
                ("ann", "update", "apps", "replicasets", "finalizers") => a.namespace == "a" && a.name == "owner",
                ("root", "update", "*", "*", "finalizers") => a.name == "*",
                _ => false,
            };
            if is_allowed { Ok(()) } else { Err("no rule".to_owned()) }
        }
    }

    struct Served;

    impl Kinds for Served {
        fn resource_of(&self, kind: &Gvk) -> Option<Mapped> {
            let resource = match kind.kind.as_str() {
                "ReplicaSet" => "replicasets",
                "Deployment" => "deployments",
                _ => return None,
            };
            Some(Mapped { group: kind.group.to_string(), resource: resource.to_owned(), is_namespaced: true })
        }
    }

    fn object(references: Value) -> Value {
        json!({"metadata": {"name": "c", "namespace": "a", "ownerReferences": references}})
    }

    fn owner(kind: &str, blocks: bool) -> Value {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "1", "blockOwnerDeletion": blocks}])
    }

    #[tokio::test]
    async fn owners_need_rights() {
        let plugin = OwnerReferencesPermissionEnforcement { rights: Arc::new(Rules), kinds: Arc::new(Served) };
        let none = || json!([]);
        let cannot_delete = "cannot set an ownerRef on a resource you can't delete: no rule, <nil>";
        let cannot_finalize = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set \
            finalizers on: no rule, <nil>";
        let unknown = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion \
            apps/v1 Kind Moon: no matches for kind \"Moon\" in version \"apps/v1\"";
        for (user, old, new, why) in [
            ("bob", None, owner("ReplicaSet", false), ""),
            ("bob", None, owner("ReplicaSet", true), cannot_finalize),
            ("bob", Some(none()), owner("ReplicaSet", false), cannot_delete),
            ("bob", Some(owner("ReplicaSet", true)), owner("ReplicaSet", true), ""),
            ("ann", Some(none()), owner("ReplicaSet", false), ""),
            ("ann", Some(none()), owner("ReplicaSet", true), ""),
            ("ann", Some(none()), owner("Deployment", true), cannot_finalize),
            ("ann", Some(owner("Deployment", false)), owner("Deployment", true), cannot_finalize),
            ("ann", None, owner("Moon", true), unknown),
            ("root", None, owner("Moon", true), ""),
        ] {
            let write = match old {
                None => Write::create("", "configmaps", object(new.clone())),
                Some(old) => Write::update("", "configmaps", object(old), object(new.clone())),
            };
            let seen = write.by(user, &[]).run(&plugin).await;
            let expected = if why.is_empty() { String::new() } else { format!("configmaps \"c\" is forbidden: {why}") };
            assert_eq!(seen.message(), expected, "{user} {new}");
        }
    }
}
