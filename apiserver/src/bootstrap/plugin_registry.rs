//! `PluginRegistry`: the registry, as admission plugins use it beside the object that they check.
//!
//! Corresponds to the client and the REST mapper that kube-apiserver passes to its admission plugins.

use super::objects;
use admission::plugins::namespaces::namespace_auto_provision::Namespaces;
use admission::plugins::owner_references_permission_enforcement::{Kinds, Mapped};
use async_trait::async_trait;
use proto::resources::Scope;
use proto::{Gvk, Status};
use registry::Registry;
use registry::own_write::ensure;
use std::sync::Weak;

/// Creates namespaces and maps kinds to resources. The reference is weak, because the registry owns its plugins.
#[derive(Clone)]
pub struct PluginRegistry(pub Weak<Registry>);

#[async_trait]
impl Namespaces for PluginRegistry {
    async fn create(&self, name: &str) -> Result<(), Status> {
        let registry = self.0.upgrade().ok_or_else(|| Status::internal("the server is ending"))?;
        Ok(ensure(&registry, "", "namespaces", objects::namespace(name)).await?)
    }
}

impl Kinds for PluginRegistry {
    fn resource_of(&self, kind: &Gvk) -> Option<Mapped> {
        let target = self.0.upgrade()?.catalogue.load().by_gvk(kind)?;
        let served = target.served();
        let (group, resource) = (served.group.to_string(), served.resource.to_string());
        Some(Mapped { group, resource, is_namespaced: target.row.scope == Scope::Namespaced })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::testing::Api;
    use http::Method;
    use serde_json::json;

    #[tokio::test(start_paused = true)]
    async fn plugins_that_are_off_by_default_have_what_they_need() {
        let plugins = ["NamespaceAutoProvision", "OwnerReferencesPermissionEnforcement"];
        let api =
            Api::with(Config { enable_admission_plugins: plugins.map(str::to_owned).into(), ..Config::default() });
        let api = api.await;
        let maps = "/api/v1/namespaces/made/configmaps";
        let owner = json!([{"apiVersion": "v1", "kind": "Moon", "name": "o", "uid": "1", "blockOwnerDeletion": true}]);
        api.create(maps, json!({"metadata": {"name": "c"}})).await;
        assert_eq!(api.get("/api/v1/namespaces/made").await.body["status"]["phase"], "Active");
        // May create in the namespace, and nothing else.
        for (path, body) in [
            (
                "roles",
                json!({"metadata": {"name": "w"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]}),
            ),
            (
                "rolebindings",
                json!({
                    "metadata": {"name": "w"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "w"},
                    "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
                }),
            ),
        ] {
            api.create(&format!("/apis/rbac.authorization.k8s.io/v1/namespaces/made/{path}"), body).await;
        }
        let as_ann = [("authorization", "Bearer ann-token")];
        for (kind, why) in [
            ("Moon", "cannot find RESTMapping for APIVersion v1 Kind Moon"),
            ("Pod", "if an ownerReference refers to a resource you can't set finalizers on"),
        ] {
            let mut owner = owner.clone();
            owner[0]["kind"] = json!(kind);
            let body = json!({"metadata": {"name": "owned", "ownerReferences": owner}});
            let answer = api.ask(Method::POST, maps, body, &as_ann).await;
            assert_eq!(answer.code, 403, "{}", answer.text);
            assert!(answer.message().contains(why), "{}", answer.message());
        }
    }
}
