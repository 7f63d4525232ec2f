//! `/containerLogs/{namespace}/{pod}/{container}`: a log as text; with `follow`, new lines as they are written.
//!
//! Corresponds to getContainerLogs in pkg/kubelet/server/server.go and GetKubeletContainerLogs in pkg/kubelet.

use super::container::log_filter::LogFilter;
use super::container::output::{Output, Printed};
use super::container::running::Running;
use super::plain_text::Refusal;
use super::target::ContainerRef;
use crate::fleet::Fleet;
use crate::runtime::container::PodContainer;
use crate::runtime::run::Run;
use axum::body::Body;
use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, Response, StatusCode, header};
use pod_life::entrypoint::is_simulated;
use pod_life::story::{LogStory, Story};
use proto::Kind;
use proto::kinds::jiff::Timestamp;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// The shortest time until a log is looked at again: processes that are behind need some to catch up.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

pub async fn answer(
    fleet: &Arc<Fleet>,
    container_ref: ContainerRef,
    query: &[(String, String)],
) -> Result<Response<Body>, Refusal> {
    let container = container_ref.find(fleet)?;
    let now = fleet.env().wall();
    let filter = LogFilter::of(query, now).map_err(|why| (StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n")))?;
    let run = run_of(&container, filter.previous).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let processes = Running::of(fleet, &container_ref.node, &container, &run).await;
    let story = story(fleet, &container);
    let mut log = Log {
        fleet: fleet.clone(),
        container_ref,
        container,
        filter,
        run,
        processes,
        story,
        shown_to: None,
        is_over: false,
    };
    let body = match log.filter.follow {
        false => Body::from(log.new_lines().await.0),
        true => Body::from_stream(log.stream()),
    };
    let mut answer = Response::new(body);
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(answer)
}

/// Returns the run whose log is asked for; the error is worded as the kubelet words it.
pub fn run_of(container: &PodContainer, previous: bool) -> Result<Run, String> {
    let (name, pod) = (&container.container.name, container.pod.name());
    let status = container.container_status();
    let status = status.ok_or_else(|| format!("container {name:?} in pod {pod:?} is not available"))?;
    Run::of(status, pod, previous)
}

fn story(fleet: &Fleet, container: &PodContainer) -> LogStory {
    let node = container.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let policy = container.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
    let annotations = container.pod.metadata.annotations.clone().unwrap_or_default();
    Story::of(&container.container, container.kind, policy, &annotations, &fleet.latency_of(node)).log
}

/// A log that is being read.
pub struct Log {
    fleet: Arc<Fleet>,
    container_ref: ContainerRef,
    container: PodContainer,
    filter: LogFilter,
    run: Run,
    processes: Running,
    story: LogStory,
    /// The time up to which lines were returned; `None` at first.
    shown_to: Option<Timestamp>,
    /// True once the run has ended and its last lines were returned.
    is_over: bool,
}

impl Log {
    /// Opens the log of the present run from now on, for a client that attaches to it.
    pub fn from_now(
        fleet: &Arc<Fleet>,
        container_ref: ContainerRef,
        container: PodContainer,
        run: Run,
        processes: Running,
    ) -> Self {
        let (story, now) = (story(fleet, &container), fleet.env().wall());
        let filter = LogFilter { follow: true, ..LogFilter::default() };
        Self {
            fleet: fleet.clone(),
            container_ref,
            container,
            filter,
            run,
            processes,
            story,
            shown_to: Some(now),
            is_over: false,
        }
    }

    /// Returns the lines since the last call, and when the next one is due.
    async fn new_lines(&mut self) -> (String, Option<Timestamp>) {
        if self.run.end.is_none() {
            self.processes.advance().await;
        }
        let now = self.fleet.env().wall();
        let spec = &self.container.container;
        let printed = is_simulated(spec).then(|| Printed::up_to(now, &mut self.processes.lock(), &self.run));
        let output = Output::new(spec, &self.story, printed, &self.run);
        // The end is stored to the second, so it may lie before the last line that was returned.
        let end_at = self.run.end.filter(|(at, _)| *at <= now && !self.is_over).map(|(at, _)| at);
        let before = |at: Timestamp| at.checked_sub(Duration::from_nanos(1)).unwrap_or(Timestamp::MIN);
        let from = self.shown_to.map(|shown| end_at.map_or(shown, |at| shown.min(before(at))));
        let (lines, next) = output.lines(from, now);
        self.is_over |= end_at.is_some();
        let text =
            if self.shown_to.is_none() { self.filter.format_first(lines) } else { self.filter.format_further(lines) };
        self.shown_to = Some(now);
        (text, next)
    }

    /// Reads the run's state again: it may have ended.
    fn refresh(&mut self) {
        let found = self.container_ref.find(&self.fleet).ok();
        let Some(container) = found.filter(|found| found.pod.uid() == self.container.pod.uid()) else {
            return self.end_now();
        };
        let is_same = |run: &Run| run.number == self.run.number && run.started_at == self.run.started_at;
        let runs = [false, true].map(|previous| run_of(&container, previous).ok().filter(is_same));
        match runs.into_iter().flatten().next() {
            Some(run) => self.run = run,
            None => self.end_now(),
        }
        self.container = container;
    }

    /// Ends the run now, because the pod has gone.
    fn end_now(&mut self) {
        const EXIT_UNKNOWN: i32 = 137;
        let now = self.fleet.env().wall();
        self.run.end.get_or_insert((now, EXIT_UNKNOWN));
    }

    /// Waits for the next piece of text; `None` once the log has ended.
    pub async fn next(&mut self) -> Option<String> {
        let mut changes = self.fleet.changes();
        loop {
            changes.mark_unchanged();
            self.refresh();
            let (text, next) = self.new_lines().await;
            if !text.is_empty() {
                return Some(text);
            }
            let now = self.fleet.env().wall();
            if self.run.end.is_some_and(|(at, _)| at <= now) || self.filter.is_exhausted() {
                return None;
            }
            let due = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default().max(SHORTEST_PAUSE));
            let env = self.fleet.env();
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return None,
                () = async { match due {
                    Some(due) => env.sleep(due).await,
                    None => std::future::pending().await,
                } } => {}
                changed = changes.changed() => if changed.is_err() { return None },
            }
        }
    }

    fn stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        futures::stream::unfold(self, |mut log| async move {
            let text = log.next().await?;
            Some((Ok(Bytes::from(text)), log))
        })
    }
}
