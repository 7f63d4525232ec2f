//! `/exec/{namespace}/{pod}/{container}` and `/attach/…`: a command in a container, or what its first process says.
//!
//! Corresponds to getExec and getAttach in pkg/kubelet/server/server.go and to k8s.io/kubelet/pkg/cri/streaming.

use super::channels::{self, OFFERS, Reader, Writer};
use super::options::StreamOptions;
use super::terminal::{ClientGone, Terminal};
use crate::agent::container::context::PodContainer;
use crate::agent::container::output::Run;
use crate::agent::logs::{Log, run_of};
use crate::agent::plain_text::Refusal;
use crate::agent::stream::upgrade::Upgrade;
use crate::agent::target::ContainerRef;
use crate::fleet::Fleet;
use crate::pod::script::Role;
use crate::shell::entrypoint::interactive_command;
use axum::body::Body;
use client::{Patch, PatchOptions};
use http::{Response, StatusCode};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::{Value, json};
use std::sync::Arc;

/// What is asked for.
#[derive(Clone, Debug)]
pub enum CommandRequest {
    Exec(Vec<String>),
    Attach,
}

/// Which of the streams a query wants.
fn options(query: &[(String, String)]) -> StreamOptions {
    let has = |name: &str| query.iter().any(|(known, value)| known == name && value == "1");
    let tty = has("tty");
    // A terminal has one output.
    StreamOptions { stdin: has("input"), stdout: has("output"), stderr: has("error") && !tty, tty }
}

/// The words of the command.
pub fn command(query: &[(String, String)]) -> Vec<String> {
    query.iter().filter(|(name, _)| name == "command").map(|(_, word)| word.clone()).collect()
}

pub fn answer(
    fleet: &Arc<Fleet>,
    container_ref: ContainerRef,
    query: &[(String, String)],
    request: CommandRequest,
    upgrade: Upgrade,
) -> Result<Response<Body>, Refusal> {
    let options = options(query);
    if !(options.stdin || options.stdout || options.stderr) {
        return Err((StatusCode::BAD_REQUEST, "you must specify at least 1 of stdin, stdout, stderr".to_owned()));
    }
    let container = container_ref.find(fleet)?;
    if !container.is_running() {
        return Err((
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("container not container ({:?})", container_ref.container),
        ));
    }
    let held = fleet.clone();
    Ok(upgrade.answer(fleet, OFFERS, move |framing, incoming, outgoing| async move {
        let env = held.env().clone();
        if let Some(channels) = channels::open(framing, incoming, outgoing, options, &env).await {
            run(held, container_ref, container, options, request, channels).await;
        }
    }))
}

async fn run(
    fleet: Arc<Fleet>,
    container_ref: ContainerRef,
    container: PodContainer,
    options: StreamOptions,
    request: CommandRequest,
    (mut reader, mut writer): (Reader, Writer),
) {
    let env = fleet.env().clone();
    let context = match fleet.client_of(&container_ref.node) {
        Some(client) => container.context(&client).await,
        None => return,
    };
    let mut terminal = Terminal::new(&env, options, &mut reader, &mut writer);
    let ended = match &request {
        CommandRequest::Exec(argv) => terminal.run(&context, argv).await.map(|code| exit_status(argv, code)),
        CommandRequest::Attach => {
            let Ok(run) = run_of(&container, false) else { return };
            match interactive_command(&container.container).filter(|_| options.stdin) {
                Some(argv) => match terminal.run(&context, &argv).await {
                    Ok(code) => {
                        end_run(&fleet, &container_ref, &container, &run, code).await;
                        Ok(exit_status(&[], 0))
                    }
                    gone => gone.map(|_| Value::Null),
                },
                None => attach(terminal, Log::from_now(&fleet, container_ref, container, run, context)).await,
            }
        }
    };
    if let Ok(status) = ended {
        writer.close(&status).await;
        reader.finish().await;
    }
}

/// The first process has ended while somebody was attached to it: its script says so from now on, as annotations do for
/// every other. One that is started again goes on instead, because its script holds for all its runs.
async fn end_run(fleet: &Fleet, container_ref: &ContainerRef, container: &PodContainer, run: &Run, code: i32) {
    let policy = container.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    let (Some(client), false) =
        (fleet.client_of(&container_ref.node), container.role == Role::App && matches!(policy, None | Some("Always")))
    else {
        return;
    };
    let ran_for = fleet.env().wall().duration_since(run.started_at).as_millis();
    let name = &container_ref.container;
    let annotations = json!({
        format!("run-for.orrery.dev/{name}"): format!("{ran_for}ms"),
        format!("exit-code.orrery.dev/{name}"): code.to_string(),
    });
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations, "uid": container.pod.uid()}}));
    let pods = client.api::<Pod>(&container_ref.namespace);
    if let Err(error) = pods.patch_status(&container_ref.pod, &patch, &PatchOptions::default()).await {
        tracing::warn!(pod = container_ref.pod, %error, "cannot tell that the container's process has ended");
    }
}

/// Shows the log as it goes on; what is typed comes back.
async fn attach(mut terminal: Terminal<'_>, mut log: Log) -> Result<Value, ClientGone> {
    loop {
        tokio::select! {
            biased;
            text = log.next() => match text {
                Some(text) => terminal.show(&text).await?,
                None => return Ok(exit_status(&[], 0)),
            },
            typed = terminal.echo() => typed?,
        }
    }
}

/// How a command ended, as the runtime tells it.
fn exit_status(argv: &[String], code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    let command = argv.join(" ");
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!(
            "command terminated with non-zero exit code: error executing command [{command}], exit code {code}"
        ),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_is_a_cause() {
        assert_eq!(exit_status(&["true".into()], 0)["status"], "Success");
        let failed = exit_status(&["sh".into(), "-c".into(), "exit 3".into()], 3);
        assert_eq!(failed["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
        let expected =
            "command terminated with non-zero exit code: error executing command [sh -c exit 3], exit code 3";
        assert_eq!(failed["message"], expected);
    }
}
