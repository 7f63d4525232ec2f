//! Denials with a status that the store also uses: the server treats them as denials only.

use super::{MAPS, Setup, review_answer, webhook};
use http::Method;
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn denying(code: u16, reason: &'static str) -> impl Fn(&Value) -> String {
    move |review| {
        let status = json!({"code": code, "reason": reason, "message": "not today"});
        review_answer(review, json!({"allowed": false, "status": status}))
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_denied_service_reserved_is_free_at_once() {
    let setup = Setup::start().await;
    setup.validating(&[webhook("no", &["services"])]).await;
    for (code, reason) in [(504, "Timeout"), (503, "ServiceUnavailable"), (403, "Forbidden")] {
        setup.serve("no", denying(code, reason));
        let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.77", "ports": [{"port": 80, "nodePort": 30500}]});
        let service = json!({"metadata": {"name": "web"}, "spec": spec});
        let refused = setup.api.post(SERVICES, &service).await;
        assert_eq!((refused.code, &refused.body["reason"]), (code, &json!(reason)), "{}", refused.text);
        setup.serve("no", super::allow);
        let made = setup.api.post(SERVICES, &service).await;
        assert_eq!(made.code, 201, "after {reason}: {}", made.text);
        let deleted = setup.api.ask(Method::DELETE, &format!("{SERVICES}/web"), "", &[]).await;
        assert_eq!(deleted.code, 200, "{}", deleted.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_write_is_not_tried_again() {
    let setup = Setup::start().await;
    setup.validating(&[webhook("no", &["configmaps"])]).await;
    let apply = [("content-type", "application/apply-patch+yaml")];
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"}});
    for (code, reason) in [(409, "AlreadyExists"), (409, "Conflict"), (404, "NotFound")] {
        setup.serve("no", denying(code, reason));
        setup.take_calls();
        let path = format!("{MAPS}/one?fieldManager=me");
        let refused = setup.api.ask(Method::PATCH, &path, &applied, &apply).await;
        assert_eq!((refused.code, setup.take_calls().len()), (code, 1), "apply: {reason}: {}", refused.text);
        let generated = json!({"metadata": {"generateName": "one-"}});
        let refused = setup.api.post(MAPS, &generated).await;
        assert_eq!((refused.code, setup.take_calls().len()), (code, 1), "create: {reason}: {}", refused.text);
    }
}
