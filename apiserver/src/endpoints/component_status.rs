//! Component statuses: shows the health of the store to old clients.
//!
//! Corresponds to pkg/registry/core/componentstatus. This server knows no other components.

use super::{Call, list, present};
use axum::body::Body;
use http::Response;
use proto::resources::Target;
use proto::{Object, Status};
use registry::read::Listed;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the store's status: that of etcd, which clients expect.
const STORE: &str = "etcd-0";

pub fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    let form = call.form()?;
    let status = Arc::new(Object::from_value(status_of(call.server.store_trouble()), 0, BTreeMap::new()));
    match call.info.name.as_str() {
        "" => {
            let listed = Listed { objects: vec![status], revision: 0, continue_token: None, remaining: None };
            list::respond(call, target, &form, listed)
        }
        STORE => present::object(call, target, &form, 200, &status),
        other => Err(Status::not_found(&target.served().group, &target.served().resource, other)),
    }
}

fn status_of(error: Option<String>) -> Value {
    let condition = match error {
        None => json!({"type": "Healthy", "status": "True", "message": "ok"}),
        Some(error) => json!({"type": "Healthy", "status": "False", "error": error}),
    };
    json!({"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": STORE}, "conditions": [condition]})
}

#[cfg(test)]
mod tests {
    use super::status_of;
    use crate::testing::Api;
    use serde_json::{Value, json};

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[tokio::test(start_paused = true)]
    async fn the_store_is_shown_as_old_clients_expect() {
        let api = Api::start().await;
        let list = api.get("/api/v1/componentstatuses").await.body;
        assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})));
        assert_eq!(list["items"][0]["conditions"][0]["message"], "ok");
        let one = api.get("/api/v1/componentstatuses/etcd-0").await.body;
        assert_eq!((&one["kind"], &one["metadata"]), (&json!("ComponentStatus"), &json!({"name": "etcd-0"})));
        let table = api.get_as("/api/v1/componentstatuses", TABLE).await.body;
        assert_eq!(table["rows"][0]["cells"], json!(["etcd-0", "Healthy", "ok", ""]));
        assert_eq!(api.get("/api/v1/componentstatuses/scheduler").await.code, 404);
    }

    #[test]
    fn a_store_with_an_error_is_not_healthy() {
        let condition = |error: Option<&str>| status_of(error.map(str::to_owned))["conditions"][0].clone();
        assert_eq!(condition(None)["status"], "True");
        let broken = condition(Some("connection refused"));
        assert_eq!((&broken["status"], &broken["error"]), (&json!("False"), &json!("connection refused")));
        assert_eq!(broken["message"], Value::Null);
    }
}
