//! Denials whose status says what the store would say: nothing follows from the words of a webhook.

use super::{MAPS, World, reviewed, webhook};
use http::Method;
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn denying(code: u16, reason: &'static str) -> impl Fn(&Value) -> String {
    move |review| {
        let status = json!({"code": code, "reason": reason, "message": "not today"});
        reviewed(review, json!({"allowed": false, "status": status}))
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_denied_service_reserved_is_free_at_once() {
    let world = World::start().await;
    world.validating(&[webhook("no", &["services"])]).await;
    for (code, reason) in [(504, "Timeout"), (503, "ServiceUnavailable"), (403, "Forbidden")] {
        world.serve("no", denying(code, reason));
        let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.77", "ports": [{"port": 80, "nodePort": 30500}]});
        let service = json!({"metadata": {"name": "web"}, "spec": spec});
        let refused = world.api.post(SERVICES, &service).await;
        assert_eq!((refused.code, &refused.body["reason"]), (code, &json!(reason)), "{}", refused.text);
        world.serve("no", super::allow);
        let made = world.api.post(SERVICES, &service).await;
        assert_eq!(made.code, 201, "after {reason}: {}", made.text);
        let deleted = world.api.ask(Method::DELETE, &format!("{SERVICES}/web"), "", &[]).await;
        assert_eq!(deleted.code, 200, "{}", deleted.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_write_is_not_tried_again() {
    let world = World::start().await;
    world.validating(&[webhook("no", &["configmaps"])]).await;
    let apply = [("content-type", "application/apply-patch+yaml")];
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"}});
    for (code, reason) in [(409, "AlreadyExists"), (409, "Conflict"), (404, "NotFound")] {
        world.serve("no", denying(code, reason));
        world.take_asked();
        let path = format!("{MAPS}/one?fieldManager=me");
        let refused = world.api.ask(Method::PATCH, &path, &applied, &apply).await;
        assert_eq!((refused.code, world.take_asked().len()), (code, 1), "apply: {reason}: {}", refused.text);
        let generated = json!({"metadata": {"generateName": "one-"}});
        let refused = world.api.post(MAPS, &generated).await;
        assert_eq!((refused.code, world.take_asked().len()), (code, 1), "create: {reason}: {}", refused.text);
    }
}
