//! `/exec/{namespace}/{pod}/{container}` runs a command in a container; `/attach/…` connects to its first process.
//!
//! Corresponds to getExec and getAttach in pkg/kubelet/server/server.go and to k8s.io/kubelet/pkg/cri/streaming.

use super::channels::{self, OFFERS, Reader, Writer};
use super::options::StreamOptions;
use super::terminal::{ClientGone, Terminal};
use crate::agent::container::running::Running;
use crate::agent::logs::{Log, run_of};
use crate::agent::plain_text::Refusal;
use crate::agent::stream::upgrade::Upgrade;
use crate::agent::target::ContainerRef;
use crate::fleet::Fleet;
use crate::runtime::container::PodContainer;
use crate::runtime::run::Run;
use axum::body::Body;
use client::{Patch, PatchOptions};
use http::{Response, StatusCode};
use pod_life::entrypoint::interactive_command;
use pod_life::story::ContainerKind;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a request asks to be connected to.
#[derive(Clone, Debug)]
pub enum CommandRequest {
    /// A new process that runs this command.
    Exec(Vec<String>),
    /// The container's first process.
    Attach,
}

/// Reads from a query which streams the client wants.
fn options(query: &[(String, String)]) -> StreamOptions {
    let has = |name: &str| query.iter().any(|(known, value)| known == name && value == "1");
    let tty = has("tty");
    // A terminal has one output.
    StreamOptions { stdin: has("input"), stdout: has("output"), stderr: has("error") && !tty, tty }
}

/// Reads the command from a query: one `command` parameter for each word.
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
        return Err(not_running(&container_ref.container));
    }
    let shared = fleet.clone();
    Ok(upgrade.answer(fleet, OFFERS, move |framing, incoming, outgoing| async move {
        let env = shared.env().clone();
        if let Some(channels) = channels::open(framing, incoming, outgoing, options, &env).await {
            run(shared, container_ref, container, options, request, channels).await;
        }
    }))
}

/// Refuses a container that does not run, as a container runtime words it.
fn not_running(container: &str) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("container not found ({container:?})"))
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
    let run = match run_of(&container, false) {
        Ok(run) => run,
        Err(why) => return end(reader, writer, &internal_error(&why)).await,
    };
    let processes = Running::of(&fleet, &container_ref.node, &container, &run).await;
    if matches!(request, CommandRequest::Exec(_)) {
        processes.touch();
    }
    let pod = container.pod.clone();
    let mut terminal = Terminal::new(&env, options, &mut reader, &mut writer);
    let ended = match &request {
        CommandRequest::Exec(argv) => terminal.run(&processes, argv).await.map(|code| exit_status(argv, code)),
        CommandRequest::Attach => match interactive_command(&container.container).filter(|_| options.stdin) {
            Some(argv) => match terminal.run(&processes, &argv).await {
                Ok(code) => {
                    end_run(&fleet, &container_ref, &container, &run, code).await;
                    Ok(exit_status(&[], 0))
                }
                client_gone => client_gone.map(|_| Value::Null),
            },
            None => attach(terminal, Log::from_now(&fleet, container_ref, container, run, processes)).await,
        },
    };
    fleet.wake(&pod);
    end(reader, writer, &ended.unwrap_or_else(|ClientGone| internal_error("the connection is lost"))).await;
}

/// Ends a connection. It never ends without a status, which clients take for success. A client that has gone reads none.
async fn end(reader: Reader, writer: Writer, status: &Value) {
    writer.close(status).await;
    reader.finish().await;
}

/// Returns the Status of a command of which nobody knows how it ended, as NewInternalError words it.
fn internal_error(why: &str) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": format!("Internal error occurred: {why}"),
        "details": {"causes": [{"message": why}]},
    })
}

/// Records that the first process ended while a client was attached to it: as the annotations that decide every end. A
/// container that would be restarted gets none: its story holds for all runs, so the present run just goes on.
async fn end_run(fleet: &Fleet, container_ref: &ContainerRef, container: &PodContainer, run: &Run, code: i32) {
    let policy = container.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    let (Some(client), false) = (
        fleet.client_of(&container_ref.node),
        container.kind == ContainerKind::App && matches!(policy, None | Some("Always")),
    ) else {
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

/// Prints new lines of the log, and echoes what is typed.
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

/// Returns the Status with which a command ended, as the container runtime words it.
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
    fn a_container_that_does_not_run_is_not_found() {
        assert_eq!(not_running("web").1, "container not found (\"web\")");
    }

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
