//! Webhooks that hang, are down, or give an invalid answer.

use super::{BASE64, MAPS, Setup, allow, config_map, put, review_answer, webhook, with};
use base64::Engine;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_or_is_down_fails_as_its_policy_says() {
    let setup = Setup::start().await;
    let env = &setup.api.server.server.env;
    setup.serve_after("slow", Duration::from_secs(3600), allow);
    let failed = "Internal error occurred: failed calling webhook";
    for kind in ["Mutating", "Validating"] {
        setup.configure(kind, &[webhook("slow", &["configmaps"])]).await;
        let began = env.now();
        let refused = setup.create("slow").await;
        let message = format!(
            "{failed} \"slow.hooks.test\": failed to call webhook: Post \"https://slow/ask?timeout=2s\": context deadline exceeded"
        );
        assert_eq!((refused.code, refused.message()), (500, message.as_str()));
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        setup.configure(kind, &[webhook("gone", &["configmaps"])]).await;
        let refused = setup.create("gone").await;
        let message = format!(
            "{failed} \"gone.hooks.test\": failed to call webhook: Post \"https://gone/ask?timeout=2s\": dial tcp \
             gone:443: connect: connection refused"
        );
        assert_eq!((refused.code, refused.message()), (500, message.as_str()));
        let ignored = json!({"failurePolicy": "Ignore"});
        let webhooks = ["slow", "gone"].map(|short| with(webhook(short, &["configmaps"]), ignored.clone()));
        setup.configure(kind, &webhooks).await;
        let made = setup.create(&format!("made-{}", kind.to_lowercase())).await;
        assert_eq!(made.code, 201, "{}", made.text);
        setup.configure(kind, &[]).await;
    }
    let metrics = setup.api.get("/metrics").await.text;
    for kind in ["admit", "validating"] {
        let line = format!("apiserver_admission_webhook_fail_open_count{{name=\"gone.hooks.test\",type=\"{kind}\"}} 1");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_waits_no_longer_than_the_request() {
    let setup = Setup::start().await;
    let env = &setup.api.server.server.env;
    setup.serve_after("slow", Duration::from_secs(3600), allow);
    let patient =
        |short| with(webhook(short, &["configmaps"]), json!({"timeoutSeconds": 30, "failurePolicy": "Ignore"}));
    setup.mutating(&[patient("slow")]).await;
    let began = env.now();
    let refused = setup.api.post(&format!("{MAPS}?timeout=1s"), config_map("one")).await;
    assert_eq!((refused.code, began.elapsed()), (504, Duration::from_secs(1)), "{}", refused.text);
    // Two such webhooks exceed the time limit of a write.
    setup.mutating(&[patient("slow"), with(patient("slow"), json!({"name": "other.hooks.test"}))]).await;
    let began = env.now();
    let refused = setup.create("one").await;
    assert_eq!((refused.code, began.elapsed()), (504, Duration::from_secs(34)), "{}", refused.text);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_of_a_webhook_is_an_error_that_names_the_fault() {
    let setup = Setup::start().await;
    type Answering = fn(&Value) -> String;
    let cases: [(&str, Answering, &str); 9] = [
        (
            "Mutating",
            |_| "gone fishing".to_owned(),
            "failed to call webhook: couldn't get version/kind; json parse error: invalid character 'g' looking for beginning of value",
        ),
        ("Validating", |_| "{}".to_owned(), "received invalid webhook response: webhook response was absent"),
        (
            "Validating",
            |review| {
                review_answer(
                    &json!({"apiVersion": review["apiVersion"], "request": {"uid": "x"}}),
                    json!({"allowed": true}),
                )
            },
            "received invalid webhook response: expected response.uid=\"",
        ),
        (
            "Validating",
            |review| put(review, "/a", json!(1)),
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        (
            "Mutating",
            |review| review_answer(review, json!({"allowed": true, "patch": BASE64.encode("[{}]")})),
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        (
            "Mutating",
            |review| {
                review_answer(review, json!({"allowed": true, "patch": BASE64.encode("[{}]"), "patchType": "Odd"}))
            },
            "unsupported patch type \"Odd\"",
        ),
        ("Mutating", |review| put(review, "/nowhere/x", json!(1)), ""),
        ("Mutating", |review| put(review, "/data", json!("text")), ""),
        ("Mutating", |review| put(review, "/kind", json!("Secret")), ""),
    ];
    for (kind, answer, why) in cases {
        setup.serve("wrong", answer);
        setup.configure(kind, &[webhook("wrong", &["configmaps"])]).await;
        let refused = setup.create("one").await;
        let begins = match why {
            "" => "Internal error occurred: ".to_owned(),
            why => format!("Internal error occurred: failed calling webhook \"wrong.hooks.test\": {why}"),
        };
        assert_eq!(refused.code, 500, "{}", refused.text);
        assert!(refused.message().starts_with(&begins), "{} {begins}", refused.message());
        setup.configure(kind, &[]).await;
    }
    assert_eq!(setup.api.get(&format!("{MAPS}/one")).await.code, 404);
    // A patch to another namespace, or to an invalid name, is refused.
    for (path, value, code) in [("/metadata/namespace", "kube-system", 400), ("/metadata/name", "A b", 422)] {
        setup.serve("wrong", move |review| put(review, path, json!(value)));
        setup.mutating(&[webhook("wrong", &["configmaps"])]).await;
        let refused = setup.create("one").await;
        assert_eq!(refused.code, code, "{}", refused.text);
    }
}
