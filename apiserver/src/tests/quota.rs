//! Resource quotas under load.

use crate::testing::Api;
use http::Method;
use serde_json::{Value, json};

/// Sends a thousand creations at once to a server whose quota allows a hundred. No quota controller runs beside it.
#[tokio::test(start_paused = true)]
async fn racing_creations_get_exactly_what_there_is() {
    let api = Api::start().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    for (name, hard) in [("q", json!({"configmaps": "100"})), ("wide", json!({"count/configmaps": "500"}))] {
        let body = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
        assert_eq!(api.ask(Method::POST, quotas, &body.to_string(), &[]).await.code, 201);
        let used: Value = hard.as_object().unwrap().keys().map(|name| (name.clone(), json!("0"))).collect();
        let status = json!({"status": {"hard": hard, "used": used}}).to_string();
        let merge = [("content-type", "application/merge-patch+json")];
        assert_eq!(api.ask(Method::PATCH, &format!("{quotas}/{name}/status"), &status, &merge).await.code, 200);
    }
    let creations = (0..1000).map(|number| {
        let body = json!({"metadata": {"name": format!("m{number}")}}).to_string();
        let api = &api;
        async move { api.ask(Method::POST, "/api/v1/namespaces/default/configmaps", &body, &[]).await }
    });
    let answers = futures::future::join_all(creations).await;
    let refused =
        "is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=100, limited: configmaps=100";
    let count = |code: u16| answers.iter().filter(|answer| answer.code == code).count();
    assert_eq!((count(201), count(403)), (100, 900));
    assert!(answers.iter().filter(|answer| answer.code == 403).all(|answer| answer.message().ends_with(refused)));
    for (name, limit) in [("q", "configmaps"), ("wide", "count/configmaps")] {
        let quota = api.get(&format!("{quotas}/{name}")).await;
        assert_eq!(quota.body["status"]["used"][limit], "100", "{name}");
    }
}
