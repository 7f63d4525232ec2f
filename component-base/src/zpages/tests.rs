//! Tests both pages in each form.

use super::*;
use crate::options::original::{Flag, Form as FlagForm, none, works};
use clap::{Args, Command, FromArgMatches};
use std::time::Duration;

#[derive(Clone, Debug)]
struct Program;

impl Original for Program {
    const NAME: &'static str = "kube-scheduler";
    const FLAGS: &'static [&'static [Flag]] = &[&[
        none("contention-profiling", FlagForm::Switch, "true"),
        none("profiling", FlagForm::Switch, ""),
        none("tls-cipher-suites", FlagForm::List, ""),
        none("leader-elect-lease-duration", FlagForm::Duration, "15s"),
        none("pod-max-in-unschedulable-pods-duration", FlagForm::Duration, "5m0s"),
        none("kube-api-burst", FlagForm::Int, "100"),
        none("feature-gates", FlagForm::Gates(feature_gates::Notation::Plain), ""),
        works("config", FlagForm::Text, ""),
    ]];
}

#[derive(Args)]
struct Config {
    #[command(flatten)]
    original: OriginalFlags<Program>,
    #[arg(long)]
    config: Option<String>,
}

fn pages(env: &Env, arguments: &[&str]) -> ZPages {
    let command = Config::augment_args(Command::new("scheduler"));
    let matches = command.get_matches_from([&["scheduler"], arguments].concat());
    let config = Config::from_arg_matches(&matches).unwrap();
    assert_eq!(config.config.as_deref(), Some("/etc/scheduler.yaml").filter(|_| arguments.len() > 1));
    ZPages { separator: ": ", ..ZPages::of(env, &config.original) }
}

async fn ask(env: &Env, pages: &ZPages, path: &str, accept: &'static str) -> (u16, String) {
    let headers = [(header::ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
    let Some(answer) = pages.answer(path, &headers, env.wall(), &["/readyz", "/healthz"]) else {
        return (404, String::new());
    };
    let code = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 16).await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

#[tokio::test(start_paused = true)]
async fn statusz_says_what_runs_since_when() {
    let env = Env::simulated(1);
    let pages = pages(&env, &[]);
    env.sleep(Duration::from_secs(3723)).await;
    let text = format!(
        "\nkube-scheduler statusz\n{WARNING}\n\nStarted:  Thu Jan  1 00:00:00 UTC 2026\nUp:  1 hr 02 min 03 sec\nGo version:  \n\
         Binary version:  1.36.2\nEmulation version:  1.36\nPaths:  /flagz /healthz /readyz\n"
    );
    assert_eq!(ask(&env, &pages, "/statusz", "*/*").await, (200, text));
    let (code, body) = ask(&env, &pages, "/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz").await;
    let expected = json!({
        "kind": "Statusz", "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "kube-scheduler"},
        "startTime": "2026-01-01T00:00:00Z", "uptimeSeconds": 3723, "goVersion": "", "binaryVersion": "1.36.2",
        "emulationVersion": "1.36", "paths": ["/flagz", "/healthz", "/readyz"],
    });
    assert_eq!((code, serde_json::from_str::<Value>(&body).unwrap()), (200, expected));
    let (code, body) = ask(&env, &pages, "/statusz", "application/json").await;
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &status["kind"], &status["reason"]), (406, &json!("Status"), &json!("NotAcceptable")));
}

#[tokio::test(start_paused = true)]
async fn flagz_lists_every_flag_of_the_original_with_its_value() {
    let env = Env::simulated(1);
    let given = ["--config=/etc/scheduler.yaml", "--tls-cipher-suites=A,B", "--leader-elect-lease-duration=90s"];
    let pages = pages(&env, &given);
    let flags = "config: /etc/scheduler.yaml\ncontention-profiling: true\nfeature-gates: \nkube-api-burst: 100\n\
                 leader-elect-lease-duration: 1m30s\npod-max-in-unschedulable-pods-duration: 5m0s\nprofiling: false\n\
                 tls-cipher-suites: [A,B]\n";
    let text = format!("\nkube-scheduler flagz\n{WARNING}\n{flags}");
    assert_eq!(ask(&env, &pages, "/flagz", "").await, (200, text));
    let (code, body) = ask(&env, &pages, "/flagz", "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz").await;
    assert_eq!(code, 200);
    for line in ["apiVersion: config.k8s.io/v1alpha1", "kind: Flagz", "  contention-profiling: \"true\""] {
        assert!(body.lines().any(|one| one == line), "{line} in {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn gates_switch_the_pages_off() {
    let env = Env::simulated(1);
    let pages = pages(&env, &["--feature-gates=ComponentFlagz=false"]);
    assert_eq!(ask(&env, &pages, "/flagz", "").await.0, 404);
    assert!(ask(&env, &pages, "/statusz", "").await.1.ends_with("Paths:  /healthz /readyz\n"));
    assert_eq!(pages.paths().collect::<Vec<_>>(), ["/statusz"]);
    let pages = self::pages(&env, &["--feature-gates=ComponentStatusz=false"]);
    assert_eq!(ask(&env, &pages, "/statusz", "").await.0, 404);
    assert_eq!(ask(&env, &pages, "/other", "").await.0, 404);
}
