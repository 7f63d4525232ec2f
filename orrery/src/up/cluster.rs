//! `Cluster`: starts the processes of `up` in order, restarts those that end, and stops them in reverse order.

use super::UpError;
use super::components::{self, Component};
use super::data_dir::DataDir;
use super::process::Process;
use super::progress::Progress;
use super::ready::{ReadyError, Waiting};
use super::record::Record;
use super::restarts::Restarts;
use component_base::env::Env;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::process::ExitStatus;
use std::task::Poll;
use tokio::time::Instant;

/// The running processes, and the times of restarts.
pub struct Cluster<'a> {
    pub env: &'a Env,
    pub progress: &'a Progress,
    pub program: &'a Path,
    pub data_dir: &'a DataDir,
    running: Vec<Process>,
    due: Vec<(Instant, &'a Component)>,
    restarts: Restarts,
    record: Record,
}

/// The end of a process: its status and, if it failed, its last log line.
struct End {
    name: &'static str,
    status: String,
    last_log_line: Option<String>,
    began: Instant,
}

impl<'a> Cluster<'a> {
    pub fn new(env: &'a Env, progress: &'a Progress, program: &'a Path, data_dir: &'a DataDir, record: Record) -> Self {
        let (running, due, restarts) = (Vec::new(), Vec::new(), Restarts::default());
        Self { env, progress, program, data_dir, running, due, restarts, record }
    }

    /// Records that the cluster is ready.
    pub fn record_ready(&mut self) {
        self.record.ready = true;
        self.write_record();
    }

    /// Writes the record; a failure is only logged.
    fn write_record(&self) {
        if let Err(error) = self.record.write(self.data_dir.root()) {
            tracing::warn!(%error, "the cluster's record cannot be written");
        }
    }

    /// Starts all components, the API server first, and waits until each is ready. Returns false if shutdown came sooner.
    /// Fails if a component ends meanwhile.
    pub async fn start(&mut self, components: &'a [Component], waiting: &Waiting) -> Result<bool, UpError> {
        let (apiserver, others) = components.split_first().expect("there is an API server");
        self.launch(apiserver)?;
        if !self.wait_ready(apiserver, waiting).await? {
            return Ok(false);
        }
        for component in others {
            self.launch(component)?;
        }
        for component in others {
            if !self.wait_ready(component, waiting).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn launch(&mut self, component: &Component) -> Result<(), UpError> {
        let log = self.data_dir.log_of(component.name);
        let is_first = self.record.component(component.name).is_some_and(|known| known.last_end.is_none());
        let process = Process::start(self.env, self.program, component, is_first, log);
        let process = process.map_err(|source| UpError::Start { component: component.name, source })?;
        if let Some(known) = self.record.component(component.name) {
            known.process = process.id();
        }
        self.write_record();
        self.running.push(process);
        Ok(())
    }

    /// Waits until the component is ready. Returns false if shutdown came sooner.
    async fn wait_ready(&mut self, component: &Component, waiting: &Waiting) -> Result<bool, UpError> {
        let shutdown = self.env.shutdown().clone();
        let ready: Result<String, ReadyError> = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(false),
            End { name: component, status, last_log_line, .. } = first_ended(&mut self.running) => {
                return Err(UpError::Ended { component, status, last_log_line });
            }
            ready = waiting.component(component) => ready,
        };
        self.progress.ready(component.name, &ready?);
        Ok(true)
    }

    /// Restarts components that end, until shutdown.
    pub async fn keep_running(&mut self, components: &'a [Component]) {
        let shutdown = self.env.shutdown().clone();
        loop {
            let next = self.due.iter().map(|(at, _)| *at).min();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                end = first_ended(&mut self.running) => self.schedule(components, end),
                () = until(self.env, next) => self.start_due(),
            }
        }
    }

    fn schedule(&mut self, components: &'a [Component], end: End) {
        let component = components.iter().find(|known| known.name == end.name).expect("only components are started");
        let delay = self.restarts.delay(component.name, self.env.now() - end.began);
        self.due.push((self.env.now() + delay, component));
        if let Some(known) = self.record.component(component.name) {
            known.process = None;
            known.restarts += 1;
            known.last_end = Some(end.status.clone());
        }
        self.write_record();
        self.progress.restarting(component.name, &end.status, end.last_log_line.as_deref(), delay);
    }

    fn start_due(&mut self) {
        let now = self.env.now();
        let (due, later) = std::mem::take(&mut self.due).into_iter().partition(|(at, _)| *at <= now);
        self.due = later;
        for (_, component) in Vec::<(Instant, &'a Component)>::from_iter(due) {
            if let Err(error) = self.launch(component) {
                let delay = self.restarts.delay(component.name, Default::default());
                self.due.push((now + delay, component));
                self.progress.restarting(component.name, &error.to_string(), None, delay);
            }
        }
    }

    /// Stops node agents first and the API server last, so that each component can still write its last state.
    pub async fn stop(mut self) {
        self.progress.stopping();
        for name in components::stop_order() {
            if let Some(index) = self.running.iter().position(|process| process.name == name) {
                self.running.remove(index).stop(self.env).await;
                self.progress.stopped(name);
            }
        }
        Record::remove(self.data_dir.root());
    }
}

/// Waits for the first process to end by itself, and removes it from `running`.
async fn first_ended(running: &mut Vec<Process>) -> End {
    let (index, status) = {
        type Wait<'a> = Pin<Box<dyn Future<Output = std::io::Result<ExitStatus>> + Send + 'a>>;
        let mut ends: Vec<Wait<'_>> = running.iter_mut().map(|process| Box::pin(process.ended()) as _).collect();
        std::future::poll_fn(|context| {
            for (index, end) in ends.iter_mut().enumerate() {
                if let Poll::Ready(status) = end.as_mut().poll(context) {
                    return Poll::Ready((index, status));
                }
            }
            Poll::Pending
        })
        .await
    };
    let process = running.remove(index);
    // A process that was killed or asked to end has no last line about the reason.
    let has_failed = status.as_ref().is_ok_and(|status| status.code().is_some_and(|code| code != 0));
    let last_log_line = if has_failed { process.last_log_line() } else { None };
    let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    End { name: process.name, status, last_log_line, began: process.began }
}

async fn until(env: &Env, next: Option<Instant>) {
    match next {
        Some(at) => env.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
